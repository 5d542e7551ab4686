"""When an engine's worker starts the agent, and when it waits: decided from what it sees.

All workers of an engine on one host look for themselves, and none leads. The agent holds a file
lock as long as it lives, so a worker that gets the lock knows that there is no agent; the agent
that it starts inherits the lock.

    a worker sees                              and
    the agent listens                          uses it
    the agent that it has just started ended   gives up: a person must look
    the time is over                           gives up
    another process has the lock               waits: an agent is starting, or draining
    the lock is its own, and the pause over    starts an agent
    the lock is its own, before that           lets it go, and waits
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GiveUp", "Look", "Start", "Starts", "Use", "Wait", "decide"]

PAUSE_FIRST, PAUSE_MOST = 0.5, 30.0  # seconds between two starts of an agent that does not last
LASTED = 60.0  # an agent that ends later than that is started again at once
LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Starts:
    """How often in a row the agent was started and did not last, and when it was last started, in
    seconds since the host's start. All workers share it, in the lock's file."""

    count: int = 0
    at: float = 0.0

    def next(self, now: float) -> float:
        """When the agent may be started. A time that is yet to come is of the host's last life."""
        if self.count == 0 or not 0 <= now - self.at < LASTED:
            return now
        return self.at + min(PAUSE_FIRST * 2.0 ** min(self.count - 1, 16), PAUSE_MOST)

    def after(self, now: float) -> Starts:
        """With a start now."""
        lasted = self.count > 0 and not 0 <= now - self.at < LASTED
        return Starts(1 if lasted else self.count + 1, now)

    def __str__(self) -> str:
        return f"{self.count} {self.at:.3f}\n"

    @staticmethod
    def parse(text: str) -> Starts:
        """What cannot be read has no meaning: a new file is empty."""
        try:
            count, at = text.split()
            return Starts(max(int(count), 0), float(at))
        except ValueError:
            return Starts()


@dataclass(frozen=True, slots=True)
class Look:
    listens: bool
    ended: int | None = None  # the exit status of the agent that this worker has just started
    lock: Starts | None = None  # None: another process has it


@dataclass(frozen=True, slots=True)
class Use:
    pass


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float


@dataclass(frozen=True, slots=True)
class Start:
    starts: Starts  # to be written into the lock's file


@dataclass(frozen=True, slots=True)
class GiveUp:
    ended: int | None = None  # None: the time is over


def decide(look: Look, now: float, end: float) -> Use | Wait | Start | GiveUp:
    if look.listens:
        return Use()
    if look.ended is not None:
        return GiveUp(look.ended)
    if now >= end:
        return GiveUp()
    if look.lock is None:
        return Wait(min(LOOK_SECONDS, end - now))
    due = look.lock.next(now)
    if due > now:
        return Wait(min(due, end) - now)
    return Start(look.lock.after(now))
