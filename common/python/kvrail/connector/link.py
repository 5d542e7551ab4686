"""One agent of a rank: connected, lost, and connected again with back-off.

    link = Link(connect, make_port, report)
    link.poll(now)                 at every step: takes events, connects again when that is due
    link.carry_out(key, action)    an action of source.py or target.py

`connect` opens a connection and registers the regions with it. It may take seconds, or return None:
then that is under way elsewhere, and it is called again at the next step. Where it cannot it raises
an exception with a `status`. `report(up, now)` is the book's `agent`. `warn` takes a sentence when the
agent stands still, and when it runs again: nothing new is asked of it in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .port import SourcePort, TargetPort, status_of

__all__ = ["Link"]

RETRY_FIRST, RETRY_MOST = 0.1, 5.0  # seconds

Port = SourcePort | TargetPort


class Link:
    def __init__(
        self,
        connect: Callable[[], Any],
        make_port: Callable[[Any, Callable[[], None]], Port],
        report: Callable[[bool, float], None],
        warn: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._connect, self._make_port, self._report = connect, make_port, report
        self._warn = warn
        self._port: Port | None = None
        self._next_try, self._pause = float("-inf"), RETRY_FIRST
        self._now = 0.0
        self.up = False
        self.last_error = ""  # why there is no agent
        self.losses = 0

    @property
    def connection(self) -> Any:
        """The live connection, or None."""
        return self._port.connection if self._port is not None and not self._port.dead else None

    @property
    def open_handles(self) -> int:
        return self._port.open_handles if self._port is not None else 0

    def carry_out(self, key: str, action: Any) -> None:
        """With a dead agent an opening is lost at once, and anything else concerns what has ended
        with it."""
        if self._port is not None:
            self._port.carry_out(key, action)

    def poll(self, now: float) -> None:
        self._now = now
        if self._port is None or self._port.dead:
            if now >= self._next_try:
                self._try_to_connect(now)
            return
        self._port.poll()
        if self._port.dead:
            self.last_error = self._port.dead_reason
            self._port.connection.close()
            self._next_try = now + self._pause

    def close(self) -> None:
        """Ends the connection. Cancel and poll for the terminal events first."""
        if self._port is not None and not self._port.dead:
            self._port.connection.close()
        self._port = None
        self.up = False
        self._next_try = float("inf")

    def _try_to_connect(self, now: float) -> None:
        try:
            connection = self._connect()
        except Exception as error:
            if not status_of(error):
                raise
            self.last_error = str(error)
            self._next_try = now + self._pause
            self._pause = min(2 * self._pause, RETRY_MOST)
            return
        if connection is None:
            return
        self._port = self._make_port(connection, self._lost)
        self._port.runs = self._runs
        self._pause, self.last_error, self.up = RETRY_FIRST, "", True
        self._report(True, now)

    def _runs(self, runs: bool, detail: str) -> None:
        if self._port is None or self._port.losing or runs == self.up:
            return
        self.up = runs
        if runs:
            self._warn("the kvrail agent of this rank runs again")
        else:
            self._warn(f"{detail}; if it does not come back, restart it: then the blocks come back")
        self._report(runs, self._now)

    def _lost(self) -> None:
        self.up = False
        self.losses += 1
        self._report(False, self._now)
