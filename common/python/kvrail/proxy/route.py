"""The way of one request through the servers. Pure: each method takes the outcome of a step, and
returns the next step.

    start            Prefill; Decode alone where one hand-off does not suffice or no prefill server
                     is up; Refuse where no decode server is up
    handed_off       Decode with the hand-off
    not_handed_off   Decode alone: the server computed the prompt but published nothing
    prefill_refused  Decode alone: the decode server's answer is the one that counts; PassOn where
                     a prefill is required
    prefill_failed   Prefill at another server, or at the same after a pause; then Decode alone
    decode_unreached Decode at another server: the hand-off has not been used
    decode_failed    from the start, with a new hand-off and at another decode server if there is
                     one; then PassOn or Refuse

Each prefill draws a new attempt of the hand-off, so a hand-off that a decode server may have used
is never given to another one. With `require_prefill` each "Decode alone" for want of a hand-off is
a Refuse instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .servers import Pool, Server

__all__ = ["Decode", "PassOn", "Prefill", "Refuse", "Route", "Step"]

SAME_SERVER_PAUSE = 0.25


@dataclass(frozen=True, slots=True)
class Prefill:
    server: Server
    pause: float = 0.0  # seconds before it


@dataclass(frozen=True, slots=True)
class Decode:
    server: Server
    handoff: dict[str, Any] | None
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Refuse:
    """The proxy's own answer."""

    status: int
    sentence: str


@dataclass(frozen=True, slots=True)
class PassOn:
    """The last server's answer, whatever it says."""


Step = Prefill | Decode | Refuse | PassOn


class Route:
    """`attempts` bounds the prefills for one hand-off, and the decode servers that fail."""

    def __init__(
        self,
        prefill: Pool,
        decode: Pool,
        *,
        one_handoff: bool = True,
        attempts: int = 2,
        require_prefill: bool = False,
    ) -> None:
        self._prefill, self._decode = prefill, decode
        self._one_handoff, self._attempts = one_handoff, attempts
        self._require = require_prefill
        self._prefills: list[Server] = []  # of this hand-off
        self._unreached: list[Server] = []
        self._decodes: list[Server] = []  # that failed
        self._reasons: list[str] = []
        self._handoff: dict[str, Any] | None = None

    def start(self) -> Step:
        if not self._decode.is_up:
            return self._refuse(503, f"no decode server is up: {self._decode.reasons}")
        self._prefills, self._handoff = [], None
        if not self._one_handoff:
            return self._to_decode()
        server = self._prefill.choose()
        if server is None:
            return self._without_handoff(f"no prefill server is up: {self._prefill.reasons}", 503)
        return Prefill(server)

    def handed_off(self, handoff: dict[str, Any]) -> Step:
        self._handoff = handoff
        return self._to_decode()

    def not_handed_off(self, server: Server) -> Step:
        return self._without_handoff(f"{server} answered without kv_transfer_params", 502)

    def prefill_refused(self) -> Step:
        """The server finds fault with the request itself."""
        return PassOn() if self._require else self._to_decode()

    def prefill_failed(self, server: Server, reason: str, status: int = 502) -> Step:
        self._prefills.append(server)
        self._reasons.append(f"{server} {reason}")
        if len(self._prefills) < self._attempts:
            other = self._prefill.choose(self._prefills)
            again = other or self._prefill.choose()
            if again is not None:
                return Prefill(again, 0.0 if other else SAME_SERVER_PAUSE)
        return self._without_handoff(f"no prefill server answered: {self._told()}", status)

    def decode_unreached(self, server: Server, reason: str) -> Step:
        self._unreached.append(server)
        self._reasons.append(f"{server} {reason}")
        return self._to_decode()

    def decode_failed(
        self, server: Server, reason: str, status: int = 502, *, answered: bool = False
    ) -> Step:
        """`answered`: the server's own answer can be passed on."""
        self._decodes.append(server)
        self._reasons.append(f"{server} {reason}")
        if len(self._decodes) < self._attempts and self._next_decode() is not None:
            return self.start()
        if answered:
            return PassOn()
        return self._refuse(status, f"no decode server answered: {self._told()}")

    def _told(self) -> str:
        return "; ".join(self._reasons)

    def _refuse(self, status: int, sentence: str) -> Step:
        return Refuse(status, sentence)

    def _without_handoff(self, reason: str, status: int) -> Step:
        if self._require:
            return self._refuse(status, reason)
        return self._to_decode()

    def _next_decode(self) -> Server | None:
        """One that has not failed, else one that has."""
        return self._decode.choose(self._unreached + self._decodes) or self._decode.choose(
            self._unreached
        )

    def _to_decode(self) -> Step:
        server = self._next_decode()
        if server is None:
            status = 502 if self._unreached else 503
            reasons = "; ".join(filter(None, (self._told(), self._decode.reasons)))
            return self._refuse(status, f"no decode server can be reached: {reasons}")
        return Decode(server, self._handoff, SAME_SERVER_PAUSE if server in self._decodes else 0.0)
