"""A connection that is opened in a thread: that may take seconds, and the engine's steps go on.

connecting = Connecting(open_a_connection)
connecting()           None while it is under way; then the connection, or what it raised
connecting.close()     a connection that comes later is closed; False: it may still come
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Connecting"]


@dataclass(frozen=True, slots=True)
class Outcome:
    connection: Any = None
    error: BaseException | None = None


class Connecting:
    """Called by one thread, once for each step. With `connecting()` after an outcome the next try
    begins."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._lock = threading.Lock()  # over what follows
        self._outcome: Outcome | None = None
        self._under_way = self._closed = False

    def __call__(self) -> Any:
        with self._lock:
            if not self._under_way:
                self._under_way = True
                threading.Thread(target=self._run, name="kvrail connects", daemon=True).start()
            if self._outcome is None:
                return None
            outcome, self._outcome, self._under_way = self._outcome, None, False
        if outcome.error is not None:
            raise outcome.error
        return outcome.connection

    def close(self) -> bool:
        with self._lock:
            outcome, self._outcome, self._closed = self._outcome, None, True
        if outcome is not None and outcome.connection is not None:
            outcome.connection.close()
        return outcome is not None or not self._under_way

    def _run(self) -> None:
        try:
            outcome = Outcome(self._connect())
        except BaseException as error:  # it is raised where it is awaited
            outcome = Outcome(error=error)
        with self._lock:
            if not self._closed:
                self._outcome = outcome
                return
        if outcome.connection is not None:
            outcome.connection.close()
