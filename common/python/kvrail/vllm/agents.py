"""The agents of one worker, by side: those whose sockets were named or found, or one that the
engine's workers start."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..agents.certificates import Credentials, make_own, name_in, own
from ..agents.command import advertised, command, name_of
from ..agents.find import AgentError, find, wait_for
from ..agents.place import Place, make_folder
from ..agents.start import StartedAgent
from .settings import Settings, StartSettings

__all__ = ["Agents"]


def engine_digest(engine_id: str) -> str:
    """Equal for all workers of an engine, those of its data-parallel parts too: vLLM puts the
    part's number behind the id."""
    return hashlib.sha256(re.sub(r"_dp\d+$", "", engine_id).encode()).hexdigest()[:12]


class Agents:
    """`tell` and `warn` take sentences for vLLM's log. Raises AgentError with a sentence if an
    agent is missing."""

    def __init__(
        self,
        settings: Settings,
        engine_id: str,
        tell: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self._timeout = settings.connect_timeout
        self._started: dict[str, StartedAgent] = {}
        self.sockets: dict[str, str] = {}
        # How long a connection is tried at the start of the engine.
        self.patience = settings.agent_wait if settings.start is None else self._timeout
        for side, path in settings.sockets.items():
            if settings.start is not None:
                self._started[side] = _startable(side, settings.start, engine_id, tell)
            look = self._look(side, path)
            self.sockets[side] = wait_for(look, settings.agent_wait, warn)
        for agent in self._started.values():
            agent.keep(self._timeout)

    def ensure(self, side: str) -> None:
        """Before a connection: an agent that the engine starts listens then. May take seconds."""
        if side in self._started:
            self._started[side].ensure(self._timeout)

    def close(self) -> None:
        for agent in self._started.values():
            agent.close()

    def _look(self, side: str, path: str) -> Callable[[], str]:
        def look() -> str:
            if side not in self._started:
                return find(side, path)
            self.ensure(side)
            return self._started[side].socket

        return look


def _startable(
    side: str, settings: StartSettings, engine_id: str, tell: Callable[[str], None]
) -> StartedAgent:
    digest = engine_digest(engine_id)
    name = name_of(side, digest)
    place = Place(make_folder(), name)
    to = advertised(settings.advertise) if settings.advertise else None
    tls: dict[str, str] = {}
    prepare: Callable[[], None] = _nothing
    if side in settings.tls:
        credentials = Credentials(*settings.tls[side])
        tls = credentials.options()
        if "name" not in settings.options:
            name = name_in(side, credentials.certificate)
    elif not _chosen(settings.options, os.environ):
        if to:
            raise AgentError(
                "advertise lets other hosts reach the agent, which needs a certificate then: give "
                "tls_certificate, tls_key and tls_ca in kv_connector_extra_config (`kvrail "
                'certificates` makes them), or "agent_options": {"insecure": true}'
            )
        tls, prepare = own(place).options(), partial(make_own, side, place)
    arguments = command(side, name, place, to, settings.options, tls=tls)
    return StartedAgent(side, place, arguments, tell, prepare)


def _nothing() -> None:
    """The user has given the certificates."""


def _chosen(options: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """The user has given the agent a certificate, or none on purpose."""
    insecure = str(options.get("insecure", environment.get("KVRAIL_INSECURE", "no"))).lower()
    return (
        "tls-certificate" in options
        or "KVRAIL_TLS_CERTIFICATE" in environment
        or insecure not in ("no", "false", "0", "off")
    )
