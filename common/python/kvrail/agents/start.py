"""An agent that an engine starts, as one of the engine's workers has it.

    agent = StartedAgent("source", place, arguments, tell)
    agent.ensure(60)  before each connection: it listens then, started by this worker or another
    agent.keep(60)    from now on a thread starts it again when it has died, also for an idle engine
    agent.close()     when the worker ends; the last one's end is the agent's

The agent lives as long as any worker holds the pipe open (its --lifeline), and drains first. The
kernel closes the pipe with a worker, however that ends. keep.py decides; this file carries out.

An agent that has died comes back at its port: hand-offs and peers have the address of the first.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from . import keep
from .command import at_port, program
from .find import PROGRAMS, AgentError, AgentMissing, see
from .place import Place, make_again, old_places

__all__ = ["StartedAgent"]

EXIT_USAGE = 2  # of a program whose options are not allowed

# Ctrl-C is for the engine, which lets the agent drain. Where the kernel schedules by session
# (/proc/sys/kernel/sched_autogroup_enabled), an agent in a session of its own has waited 100 ms and
# longer for a core while engines used all of them. Python 3.10 has no process_group.
_APART: dict[str, Any] = (
    {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}
)

_all: weakref.WeakSet[StartedAgent] = weakref.WeakSet()


def _close_pipes() -> None:
    # A child of fork must not keep the agent alive.
    for agent in _all:
        agent._close_pipe()


os.register_at_fork(after_in_child=_close_pipes)


@contextmanager
def _cores_of_the_engine() -> Iterator[None]:
    """A child has the cores of the thread that starts it, and vLLM binds its workers to theirs. The
    agent may use those of the process that started this one too."""
    mine = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, mine | os.sched_getaffinity(os.getppid()))
    except OSError:
        pass
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


def _lock(path: str) -> int | None:
    """A descriptor that holds the file's lock; None: another process has it. The file may have been
    removed between opening and locking it: then the lock is of no use to others."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.stat(path)):
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(fd)
    return None


def _await_lock(path: str) -> None:
    """Returns when no process has the file's lock."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    finally:
        os.close(fd)


def _environment() -> dict[str, str]:
    """Libraries that are loaded into the engine's process have no business in the agent's."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


class StartedAgent:
    """`arguments` are the agent's, without its path. `tell` takes sentences for a log. `prepare`
    is called before each start, and may raise AgentError."""

    def __init__(
        self,
        side: str,
        place: Place,
        arguments: Sequence[str],
        tell: Callable[[str], None],
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        self._prepare = prepare
        self._program = PROGRAMS[side]
        self._command = [program(self._program), *arguments]
        self._place, self._tell = place, tell
        self._child: subprocess.Popen[bytes] | None = None
        self._pipe: int | None = None
        self._was_there = False
        self._closed = threading.Event()
        self._one_at_a_time = threading.Lock()
        self._hold_pipe()
        _all.add(self)

    @property
    def socket(self) -> str:
        return self._place.socket

    def ensure(self, seconds: float) -> None:
        """Returns when the agent listens. Raises AgentError, with a sentence that names the log."""
        with self._one_at_a_time:
            try:
                self._ensure(seconds)
            except OSError as error:  # as too many open files
                raise AgentMissing(f"{self._program} cannot be started: {error}") from error

    def keep(self, seconds: float) -> None:
        """Once. `seconds` as for ensure."""
        threading.Thread(
            target=self._keep, args=(seconds,), name="kvrail keeps its agent", daemon=True
        ).start()

    def close(self) -> None:
        """Lets the agent go. It ends when no worker holds it any more."""
        self._closed.set()
        with self._one_at_a_time:  # else a start that is under way would open the pipe again
            self._close_pipe()

    # ---- parts ----------------------------------------------------------------------------------

    def _keep(self, seconds: float) -> None:
        while not self._closed.wait(keep.LOOK_SECONDS):
            try:
                make_again(self._place.folder)
                _await_lock(self._place.lock)  # the agent has it as long as it lives
                self.ensure(seconds)
            except (AgentError, OSError) as error:
                if not self._closed.wait(1):
                    self._tell(f"kvrail tries again to start its agent: {error}")

    def _ensure(self, seconds: float) -> None:
        end = _now() + seconds
        make_again(self._place.folder)
        self._reap()
        while not self._closed.is_set():
            lock = _lock(self._place.lock)
            try:
                does = keep.decide(self._look(lock), _now(), end)
                if isinstance(does, keep.Start):
                    assert lock is not None
                    self._start(lock, does.starts)
            finally:
                if lock is not None:
                    os.close(lock)  # an agent that was started has its own descriptor of it
            match does:
                case keep.Use():
                    self._was_there = True
                    return
                case keep.GiveUp(ended=status):
                    self._give_up(status, seconds)
                case keep.Wait(seconds=pause):
                    self._closed.wait(pause)
        raise AgentError(f"this engine has let its {self._program} go")

    def _look(self, lock: int | None) -> keep.Look:
        starts = None if lock is None else keep.Starts.parse(os.pread(lock, 100, 0).decode())
        ended = self._child.poll() if self._child is not None else None
        return keep.Look(not see(self.socket).why, ended, starts)

    def _start(self, lock: int, starts: keep.Starts) -> None:
        self._remove_old()
        self._hold_pipe()
        self._prepare()
        command = at_port(self._command, self._last_port())
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(starts).encode(), 0)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        log = os.open(self._place.log, flags, 0o600)
        try:
            with _cores_of_the_engine():
                self._child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env=_environment(),
                    pass_fds=(lock,),
                    **_APART,
                )
        except OSError as error:
            raise AgentError(f"{self._command[0]} cannot be started: {error.strerror}") from error
        finally:
            os.close(log)
        self._tell(
            f"kvrail started {self._program} as process {self._child.pid}; its log is "
            f"{self._place.log}"
        )

    def _last_port(self) -> int:
        """Of the agent that this engine had. A file of an engine's last life has no meaning: that
        port may be another's by now."""
        try:
            if self._was_there:
                with open(self._place.port) as file:
                    return int(file.read())
            os.unlink(self._place.port)
        except (FileNotFoundError, ValueError):
            pass
        return 0

    def _reap(self) -> None:
        """An agent of this worker that has ended since it was of use."""
        if self._child is not None and (status := self._child.poll()) is not None:
            self._tell(
                f"{self._program}, process {self._child.pid}, {_end_of(status)}; its log is "
                f"{self._place.log}"
            )
            self._child = None

    def _give_up(self, status: int | None, seconds: float) -> None:
        if status is None:
            raise AgentMissing(
                f"{self._program} does not listen at {self.socket} after {seconds:g} s; its log is "
                f"{self._place.log}"
            )
        self._child = None
        error = AgentError if status == EXIT_USAGE else AgentMissing
        raise error(
            f"{self._program} {_end_of(status)} when it was started: {self._last_line()} (its log "
            f"is {self._place.log})"
        )

    def _last_line(self) -> str:
        """Without its level and time."""
        try:
            with open(self._place.log, errors="replace") as log:
                lines = [line.strip() for line in log if line.strip()]
        except OSError:
            return ""
        return re.sub(r"^<\d>\S+ ", "", lines[-1]) if lines else ""

    def _hold_pipe(self) -> None:
        """Opened for both directions, so that it needs no reader. Another worker may have removed
        it as old."""
        path = self._place.pipe
        try:
            os.mkfifo(path, 0o600)
        except FileExistsError:
            pass
        if self._pipe is not None and os.path.samestat(os.fstat(self._pipe), os.stat(path)):
            return
        self._close_pipe()
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def _remove_old(self) -> None:
        """Files of agents that ended long ago."""
        for place in old_places(self._place.folder):
            if place == self._place:
                continue
            lock = _lock(place.lock)
            if lock is not None:
                place.remove()
                os.close(lock)


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _end_of(status: int) -> str:
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
