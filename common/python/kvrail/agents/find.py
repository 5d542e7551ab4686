"""Finds an agent of this host by its socket.

An agent puts NAME.sock into its run directory. `run_folders` are those that it chooses without
--run-dir. The kernel knows which process listens at a socket, and the process' name says which
agent it is. Nothing is sent: an engine that attached only to look would be announced to the agent's
peers.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from .._abi import Status

__all__ = [
    "AgentError",
    "AgentMissing",
    "PROGRAMS",
    "Seen",
    "check",
    "choose",
    "find",
    "run_folders",
    "wait_for",
    "wrong_side",
]

PROGRAMS = {"source": "prefill-agent", "target": "decode-agent"}  # by side
ACCEPT_SECONDS = 5.0
LOOK_SECONDS = 0.5  # between two looks, while an agent is waited for


class AgentError(RuntimeError):
    """The agent that is needed cannot be used; the text is a sentence for a person. `status` is as
    of a connection that cannot be opened, so that it is tried again where one was there before."""

    status = Status.AGENT_LOST


class AgentMissing(AgentError):
    """It may come later."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A socket, and the side whose agent listens there: "" for a process that cannot be seen, as in
    another container. `why`: none listens."""

    path: str
    side: str = ""
    why: str = ""

    def __str__(self) -> str:
        kind = f"a {PROGRAMS[self.side]}" if self.side else "an agent of another container"
        return f"{self.path} ({self.why or kind})"


def run_folders(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Where agents put their sockets without --run-dir."""
    user = environment.get("XDG_RUNTIME_DIR")
    return (f"{user}/kvrail", "/run/kvrail") if user else ("/run/kvrail",)


def sockets_in(folders: Iterable[str]) -> list[str]:
    """A folder that is missing or closed to this user has none."""
    found = []
    for folder in folders:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        found += [f"{folder}/{name}" for name in names if name.endswith(".sock")]
    return found


def side_of(process: int) -> str:
    """By the process' name, as the kernel has it; 0 is a process of another container."""
    try:
        with open(f"/proc/{process}/comm") as file:
            name = file.read().strip()
    except OSError:
        return ""
    return next((side for side, program in PROGRAMS.items() if program == name), "")


def see(path: str) -> Seen:
    """Connects, and sends nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.settimeout(ACCEPT_SECONDS)
        try:
            probe.connect(path)
        except OSError as error:
            return Seen(path, why=error.strerror or str(error))
        peer = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return Seen(path, side_of(struct.unpack("3i", peer)[0]))


def choose(side: str, folders: Sequence[str], seen: Sequence[Seen]) -> str:
    """The socket of the one agent of that side. An agent that cannot be seen is taken if there is
    no other: when the engine attaches it is known."""
    program = PROGRAMS[side]
    of_side = [one.path for one in seen if one.side == side]
    of_side = of_side or [one.path for one in seen if not one.side and not one.why]
    if len(of_side) == 1:
        return of_side[0]
    if of_side:
        raise AgentError(
            f"several agents may be this engine's {program}: {', '.join(of_side)}. Name one of "
            "them as socket in kv_connector_extra_config"
        )
    found = f" Found: {', '.join(map(str, seen))}." if seen else ""
    raise AgentMissing(
        f"no {program} has its socket in {' or '.join(folders)}.{found} Start one, or name its "
        'socket in kv_connector_extra_config, or let the engine start it with "agent": "start"'
    )


def check(side: str, seen: Seen) -> str:
    """The socket that was named, if the agent that is needed answers there."""
    program = PROGRAMS[side]
    if seen.why:
        raise AgentMissing(f"no {program} listens at {seen.path}: {seen.why}")
    if seen.side not in ("", side):
        raise wrong_side(seen.path, side)
    return seen.path


def wrong_side(path: str, side: str) -> AgentError:
    """`side` is the one that is needed."""
    found = next(program for other, program in PROGRAMS.items() if other != side)
    return AgentError(
        f"the agent at {path} is a {found}, and this engine needs a {PROGRAMS[side]}: name that "
        "one's socket"
    )


def find(side: str, path: str = "", folders: Sequence[str] | None = None) -> str:
    """The socket of the agent of that side: the one at `path`, else the only one in the folders.
    Raises AgentError."""
    if path:
        return check(side, see(path))
    if folders is None:
        folders = run_folders(os.environ)
    return choose(side, folders, [see(one) for one in sockets_in(folders)])


def wait_for(
    look: Callable[[], str],
    most: float,
    warn: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> str:
    """What `look` returns, tried for so many seconds while it raises AgentMissing."""
    end, warned = clock() + most, False
    while True:
        try:
            return look()
        except AgentMissing as error:
            if clock() >= end:
                raise
            if not warned:
                warn(f"kvrail waits up to {most:g} s for its agent: {error}")
                warned = True
        wait(LOOK_SECONDS)
