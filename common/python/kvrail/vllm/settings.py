"""kv_connector_extra_config as this connector reads it.

socket                  the agent's socket, or {"source": …, "target": …} for kv_both
name                    of this engine, for people
model                   a tag, equal on both sides; made from vLLM's configuration otherwise
connect_timeout_s       for one connection with its regions
hold_s, lease_s, park_s limits of connector/machine.py
kv_recompute_threshold  fewer tokens than these are computed instead of fetched
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..connector.machine import Limits

__all__ = ["Settings", "SettingsError", "settings_of"]

KEYS = frozenset(
    "socket name model connect_timeout_s hold_s lease_s park_s kv_recompute_threshold".split()
)
SIDES = {
    "kv_producer": ("source",),
    "kv_consumer": ("target",),
    "kv_both": ("source", "target"),
}


class SettingsError(ValueError):
    """An option that cannot be used; the text is a sentence for a person."""


@dataclass(frozen=True, slots=True)
class Settings:
    sockets: dict[str, str]  # by side: "source", "target"
    limits: Limits
    threshold: int = 0
    connect_timeout: float = 60.0
    name: str = ""
    model: str = ""


def _sockets(value: Any, role: str) -> dict[str, str]:
    sides = SIDES.get(role)
    if sides is None:
        raise SettingsError(f"kv_role is {role!r}: it must be one of {', '.join(SIDES)}")
    if isinstance(value, str) and value and len(sides) == 1:
        return {sides[0]: value}
    if isinstance(value, Mapping):
        paths = {side: value.get(side) for side in sides}
        if all(isinstance(path, str) and path for path in paths.values()):
            return {side: str(path) for side, path in paths.items()}
    wanted = '{"source": PATH, "target": PATH}' if len(sides) == 2 else "a path"
    raise SettingsError(
        f"kv_connector_extra_config: socket must be {wanted} for {role}, not {value!r}"
    )


def _number(extra: Mapping[str, Any], key: str, default: float, least: float) -> float:
    value = extra.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= least:
        raise SettingsError(
            f"kv_connector_extra_config: {key} must be {least} or more, not {value!r}"
        )
    return float(value)


def _text(extra: Mapping[str, Any], key: str) -> str:
    value = extra.get(key, "")
    if not isinstance(value, str) or len(value.encode()) > 63:
        raise SettingsError(f"kv_connector_extra_config: {key} must be text of at most 63 bytes")
    return value


def settings_of(role: str, extra: Mapping[str, Any], *, sockets: bool = True) -> Settings:
    """Raises SettingsError. The scheduler's side needs no sockets."""
    unknown = sorted(set(extra) - KEYS)
    if unknown:
        raise SettingsError(
            f"kv_connector_extra_config has {', '.join(unknown)}; "
            f"kvrail knows {', '.join(sorted(KEYS))}"
        )
    return Settings(
        sockets=_sockets(extra.get("socket"), role) if sockets else {},
        limits=Limits(
            hold=_number(extra, "hold_s", 480, 0.1),
            lease_ms=int(_number(extra, "lease_s", 30, 0.1) * 1000),
            park=_number(extra, "park_s", 30, 0),
        ),
        threshold=int(_number(extra, "kv_recompute_threshold", 0, 0)),
        connect_timeout=_number(extra, "connect_timeout_s", 60, 0.1),
        name=_text(extra, "name"),
        model=_text(extra, "model"),
    )
