"""Failures of calls. Their text is the library's own sentence: values and remedy, for a person."""

from __future__ import annotations

from ._abi import Status, kvrail_error
from ._library import status_text, text


class KvrailError(Exception):
    """A call failed and has changed nothing. `status` is for programs, `detail` for people."""

    def __init__(self, status: int, detail: str = "", os_errno: int = 0) -> None:
        self.status = Status(status)
        self.detail = detail or status_text(status)
        self.os_errno = os_errno
        super().__init__(self.detail)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (int(self.status), self.detail, self.os_errno)


class Again(KvrailError):
    """There is no room at this moment, and nothing was done: poll, then try again."""


class Invalid(KvrailError, ValueError):
    """An argument is outside what is allowed."""


class NotFound(KvrailError):
    """Nothing is open under that handle or region."""


class Unsupported(KvrailError):
    """This agent, GPU, driver or library cannot do that."""


class Full(KvrailError):
    """A pool of the agent or of the connection is full."""


class TimedOut(KvrailError, TimeoutError):
    """No answer came in time."""


class AgentLost(KvrailError, ConnectionError):
    """The agent of this connection ended: close the connection, and open one to the next agent."""


class RegionPending(TimedOut):
    """The agent has not yet answered for a region: an event REGION_READY or REGION_GONE follows.
    `region` is its number."""

    region = 0


class Closed(KvrailError):
    """The connection was closed in this process."""


class UsedAfterFork(KvrailError):
    """The connection belongs to another process."""


_CLASSES: dict[int, type[KvrailError]] = {
    Status.AGAIN: Again,
    Status.INVALID: Invalid,
    Status.NOT_FOUND: NotFound,
    Status.UNSUPPORTED: Unsupported,
    Status.FULL: Full,
    Status.TIMED_OUT: TimedOut,
    Status.AGENT_LOST: AgentLost,
}


def error_of(status: int, detail: str = "", os_errno: int = 0) -> KvrailError:
    """The exception of a status."""
    return _CLASSES.get(status, KvrailError)(status, detail, os_errno)


def check(status: int, error: kvrail_error | None = None) -> None:
    """Raises what a status other than OK means, with the sentence of *error if that is its own."""
    if status == Status.OK:
        return
    if error is None or error.status != status:
        raise error_of(status)
    raise error_of(status, text(error.detail), error.os_errno)
