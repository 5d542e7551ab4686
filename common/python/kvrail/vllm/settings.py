"""kv_connector_extra_config as this connector reads it.

socket                  the agent's socket, or {"source": …, "target": …} for kv_both; without it
                        the agents' run directories are looked through
agent                   "start": the engine starts its agent itself, and ends it
advertise               of such an agent: where other hosts reach this one
tls_certificate, tls_key, tls_ca
                        of such an agent: PEM files; needed with `advertise`, unless agent_options
                        says "insecure". For kv_both the first two are {"source": …, "target": …}
libfabric               of such an agent: the folder of the host's libfabric, as --libfabric takes it
agent_options           of such an agent: its options, as {"provider": "efa+local"}; without "rail"
                        it uses every card that verbs or efa can use, or over tcp that of `advertise`
agent_wait_s            an agent that is missing at the start is waited for so long
name                    of this engine, for people
tenant                  for whom its requests are published and fetched, unless a request names
                        another; without it the first of its agent's --tenant
model                   a tag, equal on both sides; made from vLLM's configuration otherwise
connect_timeout_s       for one connection with its regions
hold_s, lease_s, park_s, queue_s, load_s: limits of connector/machine.py
kv_recompute_threshold  fewer tokens than these are computed instead of fetched
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..connector.handoff import HandOffError, tenant_of
from ..connector.machine import Limits

__all__ = ["Settings", "SettingsError", "settings_of"]

KEYS = frozenset(
    "socket agent advertise tls_certificate tls_key tls_ca libfabric agent_options agent_wait_s "
    "name tenant model connect_timeout_s hold_s lease_s park_s queue_s load_s "
    "kv_recompute_threshold".split()
)
TLS_KEYS = ("tls_certificate", "tls_key", "tls_ca")
CONFIG = "kv_connector_extra_config"
AGENT_OPTIONS_OWN = ("engine-socket", "run-dir", "lifeline")
SIDES = {
    "kv_producer": ("source",),
    "kv_consumer": ("target",),
    "kv_both": ("source", "target"),
}


class SettingsError(ValueError):
    """An option that cannot be used; the text is a sentence for a person."""


@dataclass(frozen=True, slots=True)
class StartSettings:
    """Of an agent that the engine starts."""

    advertise: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    tls: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """By side: certificate, key and CA; none: those of a CA of this host, or those that the options
    or the environment name."""


@dataclass(frozen=True, slots=True)
class Settings:
    sockets: dict[str, str]  # by side, "source" and "target"; "": it must be found or started
    limits: Limits
    start: StartSettings | None = None
    agent_wait: float = 0.0
    threshold: int = 0
    connect_timeout: float = 60.0
    name: str = ""
    model: str = ""
    tenant: str = ""


def _sockets(value: Any, role: str) -> dict[str, str]:
    sides = SIDES.get(role)
    if sides is None:
        raise SettingsError(f"kv_role is {role!r}: it must be one of {', '.join(SIDES)}")
    if value is None:
        return dict.fromkeys(sides, "")
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


def _tls(extra: Mapping[str, Any], role: str) -> dict[str, tuple[str, str, str]]:
    given = [key for key in TLS_KEYS if key in extra]
    if not given:
        return {}
    if len(given) < len(TLS_KEYS):
        raise SettingsError(
            f"kv_connector_extra_config has {' and '.join(given)}, but needs all of "
            f"{', '.join(TLS_KEYS)}"
        )
    found = {}
    for side in SIDES[role]:
        paths = [_path_of(key, extra[key], side, role) for key in TLS_KEYS[:2]]
        found[side] = (paths[0], paths[1], _path_of("tls_ca", extra["tls_ca"], side, role))
    return found


def _path_of(key: str, value: Any, side: str, role: str) -> str:
    """An agent of each side has a name of its own, and so a certificate of its own."""
    of_sides = len(SIDES[role]) == 2 and key != "tls_ca"
    path = value.get(side) if of_sides and isinstance(value, Mapping) else value
    if not isinstance(path, str) or not path.startswith("/") or (of_sides and path is value):
        wanted = '{"source": PATH, "target": PATH}' if of_sides else "a path from the root on"
        raise SettingsError(
            f"kv_connector_extra_config: {key} must be {wanted} for {role}, not {value!r}"
        )
    return path


def _start(extra: Mapping[str, Any], role: str) -> StartSettings | None:
    agent, options = extra.get("agent"), extra.get("agent_options", {})
    if agent is None:
        if given := sorted({"advertise", "agent_options", "libfabric", *TLS_KEYS} & extra.keys()):
            raise SettingsError(
                f"kv_connector_extra_config: {' and '.join(given)} belong to an agent that the "
                'engine starts: add "agent": "start", or give them to the agent itself'
            )
        return None
    if agent != "start":
        raise SettingsError(f'kv_connector_extra_config: agent must be "start", not {agent!r}')
    if "socket" in extra:
        raise SettingsError(
            "kv_connector_extra_config: socket names an agent that runs, and agent starts another: "
            "leave one of them away"
        )
    if not isinstance(options, Mapping):
        raise SettingsError("kv_connector_extra_config: agent_options must be {OPTION: VALUE}")
    for name, value in options.items():
        _check_option(name, value)
    options = _libfabric(extra) | dict(options)
    return StartSettings(_text(extra, "advertise"), options, _tls(extra, role))


def _libfabric(extra: Mapping[str, Any]) -> dict[str, str]:
    if "libfabric" not in extra:
        return {}
    folder = extra["libfabric"]
    if not isinstance(folder, str) or not folder.startswith("/"):
        raise SettingsError(
            "kv_connector_extra_config: libfabric must be the folder of libfabric.so.1, from the "
            f"root on, as /opt/amazon/efa/lib, not {folder!r}"
        )
    return {"libfabric": folder}


def _check_option(name: str, value: Any) -> None:
    if not re.fullmatch("[a-z][a-z0-9-]*", name) or name in AGENT_OPTIONS_OWN:
        raise SettingsError(
            f"kv_connector_extra_config: agent_options has {name!r}: an option of the agents is "
            f"named without its dashes in front, and {', '.join(AGENT_OPTIONS_OWN)} are set by "
            "kvrail itself"
        )
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, (str, int, float)) for one in values):
        raise SettingsError(
            f"kv_connector_extra_config: agent_options has {name} as {value!r}: it must be text, a "
            "number, true, false, or a list of texts"
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


def _tenant(extra: Mapping[str, Any]) -> str:
    try:
        return tenant_of({"kvrail": extra}, "")
    except HandOffError as error:
        raise SettingsError(str(error).replace("kv_transfer_params", CONFIG, 1)) from None


def settings_of(role: str, extra: Mapping[str, Any]) -> Settings:
    """Raises SettingsError."""
    unknown = sorted(set(extra) - KEYS)
    if unknown:
        raise SettingsError(
            f"kv_connector_extra_config has {', '.join(unknown)}; "
            f"kvrail knows {', '.join(sorted(KEYS))}"
        )
    return Settings(
        sockets=_sockets(extra.get("socket"), role),
        start=_start(extra, role),
        limits=Limits(
            hold=_number(extra, "hold_s", 60, 0.1),
            lease_ms=int(_number(extra, "lease_s", 30, 0.1) * 1000),
            park=_number(extra, "park_s", 30, 0),
            queue=_number(extra, "queue_s", 480, 0.1),
            load=_number(extra, "load_s", 60, 0.1),
        ),
        agent_wait=_number(extra, "agent_wait_s", 0, 0),
        threshold=int(_number(extra, "kv_recompute_threshold", 0, 0)),
        connect_timeout=_number(extra, "connect_timeout_s", 60, 0.1),
        name=_text(extra, "name"),
        model=_text(extra, "model"),
        tenant=_tenant(extra),
    )
