"""Counters of a proxy, as a page of metrics in Prometheus' text form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .servers import Pool

__all__ = ["Metrics"]

HELP = {
    "kvrail_proxy_answers_total": "Answers to clients, by status.",
    "kvrail_proxy_prefills_total": (
        "Prefills: handed_off, not_handed_off (no hand-off in the answer), refused, failed."
    ),
    "kvrail_proxy_decodes_total": "Decodes that were begun, with a hand-off or alone.",
    "kvrail_proxy_decode_failures_total": "Decodes that failed before their answer began.",
    "kvrail_proxy_broken_answers_total": "Answers that a decode server did not end.",
    "kvrail_proxy_clients_gone_total": "Clients that went away before their answer had ended.",
}


class Metrics:
    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self.running = 0  # requests of clients

    def count(self, name: str, label: str = "", value: object = "") -> None:
        """`name` without its beginning and end: answers, prefills, …"""
        labels = f'{{{label}="{value}"}}' if label else ""
        self._counts[f"kvrail_proxy_{name}_total", labels] += 1

    def get(self, name: str, label: str = "", value: object = "") -> int:
        labels = f'{{{label}="{value}"}}' if label else ""
        return self._counts[f"kvrail_proxy_{name}_total", labels]

    def page(self, pools: Iterable[Pool]) -> str:
        lines = []
        for name, text in HELP.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} counter"]
            found = sorted(
                (labels, value) for (key, labels), value in self._counts.items() if key == name
            )
            lines += [f"{name}{labels} {value}" for labels, value in found]
        lines += _gauge("kvrail_proxy_requests_running", "Requests of clients that run.")
        lines.append(f"kvrail_proxy_requests_running {self.running}")
        lines += _gauge("kvrail_proxy_server_up", "1: the server gets requests.")
        for pool in pools:
            lines += [
                f'kvrail_proxy_server_up{{role="{pool.role}",server="{_escaped(str(server))}"}} '
                f"{int(not server.down)}"
                for server in pool.servers
            ]
        return "\n".join(lines) + "\n"


def _gauge(name: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} gauge"]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
