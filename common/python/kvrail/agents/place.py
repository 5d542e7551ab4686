"""Where the files of an agent are that an engine starts: one folder of this user, and in it for
each agent a socket, a lock, a pipe, a log and its port with one beginning.

The folder is not a run directory of agents that people start: an engine that looks for its agent
must not find another engine's.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass

from .find import AgentError, AgentMissing

__all__ = ["Place", "folders_of", "make_again", "make_folder", "old_places"]

SUFFIXES = (".sock", ".lock", ".pipe", ".log", ".port")
CERTIFICATE_SUFFIXES = (".pem", "-key.pem")  # in the folder tls
KEPT_SECONDS = 86400.0  # files of an agent that has ended


@dataclass(frozen=True, slots=True)
class Place:
    folder: str
    stem: str

    @property
    def socket(self) -> str:
        return f"{self.folder}/{self.stem}.sock"

    @property
    def lock(self) -> str:
        """Locked by the agent as long as it lives; its text says when it was started."""
        return f"{self.folder}/{self.stem}.lock"

    @property
    def pipe(self) -> str:
        """The agent's --lifeline, held open by every worker."""
        return f"{self.folder}/{self.stem}.pipe"

    @property
    def log(self) -> str:
        return f"{self.folder}/{self.stem}.log"

    @property
    def port(self) -> str:
        """The agent's --port-file, where it listens for peers."""
        return f"{self.folder}/{self.stem}.port"

    def remove(self) -> None:
        files = [f"{self.folder}/{self.stem}{suffix}" for suffix in SUFFIXES]
        files += [f"{self.folder}/tls/{self.stem}{suffix}" for suffix in CERTIFICATE_SUFFIXES]
        for file in files:
            try:
                os.unlink(file)
            except FileNotFoundError:
                continue


def folders_of(environment: Mapping[str, str], user: int) -> list[str]:
    """Where the folder may be, the best place first. /run is root's, and in containers often the
    one user's. XDG_RUNTIME_DIR is often set, and does not exist."""
    own = environment.get("XDG_RUNTIME_DIR")
    return [
        *([f"{own}/kvrail-engines"] if own else []),
        "/run/kvrail-engines",
        f"{environment.get('TMPDIR') or '/tmp'}/kvrail-engines-{user}",
    ]


def _make(folder: str) -> str:
    """Why not; "": the folder is there. Whoever may write there could put a socket of his own in
    the agent's place."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        return error.strerror or str(error)
    state = os.lstat(folder)
    if stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o022:
        return ""
    return "other users can write to it, or it is theirs"


def make_folder() -> str:
    """The first folder that can be made or is there."""
    why = []
    for folder in folders_of(os.environ, os.getuid()):
        if not (reason := _make(folder)):
            return folder
        why.append(f"{folder} ({reason})")
    raise AgentError(
        f"there is no folder for the agent's files: {', '.join(why)}. Set XDG_RUNTIME_DIR to a "
        "folder of this user"
    )


def make_again(folder: str) -> None:
    """The folder of make_folder, which somebody may have removed since."""
    if reason := _make(folder):
        raise AgentMissing(f"{folder}, the folder of the agent's files, cannot be used: {reason}")


def old_places(folder: str, now: float | None = None) -> list[Place]:
    """Those whose agents were last started more than a day ago. Some may still run."""
    before = (time.time() if now is None else now) - KEPT_SECONDS
    found = []
    for entry in os.scandir(folder):
        if entry.name.endswith(".lock") and entry.stat().st_mtime < before:
            found.append(Place(folder, entry.name.removesuffix(".lock")))
    return found
