"""The certificates of an agent that an engine starts.

An agent that serves its own host alone gets one of a CA that lies beside the agents' files
(place.py), made by `kvrail certificates`. All engines of this user on this host have that CA, so
that their agents believe each other, and no other user's. Between hosts the user brings them.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from .command import program
from .find import PROGRAMS, AgentError
from .place import Place

__all__ = ["Credentials", "make_own", "name_in", "own"]

COMMAND_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Credentials:
    """Paths of PEM files."""

    certificate: str
    key: str
    ca: str

    def options(self) -> dict[str, str]:
        """Of the agent."""
        return {
            "tls-certificate": self.certificate,
            "tls-key": self.key,
            "tls-ca": self.ca,
        }


def _role(side: str) -> str:
    return PROGRAMS[side].removesuffix("-agent")


def _run(*words: str, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """(status, output, the last line of errors) of `kvrail certificates`. It reads no option of
    this process' environment."""
    command = [program("kvrail", environment), "certificates", *words]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KVRAIL_")}
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_SECONDS, env=clean
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AgentError(f"{command[0]} cannot be run: {error}") from error
    errors = ended.stderr.strip().splitlines()
    return ended.returncode, ended.stdout, errors[-1] if errors else ""


def _make(path: str, *words: str) -> None:
    """Another worker may have made the file meanwhile."""
    status, _, why = _run(*words)
    if status != 0 and not os.path.exists(path):
        raise AgentError(f"{path} cannot be made: {why}")


def own(place: Place) -> Credentials:
    """Where they are; the agent's name is the place's."""
    folder = f"{place.folder}/tls"
    return Credentials(
        f"{folder}/{place.stem}.pem", f"{folder}/{place.stem}-key.pem", f"{folder}/ca.pem"
    )


def make_own(side: str, place: Place) -> None:
    """Before each start of the agent: what is missing or has expired is made."""
    found, folder = own(place), f"{place.folder}/tls"
    if not os.path.exists(found.ca):
        _make(found.ca, "init", folder, "--fleet", "engines")
    if os.path.exists(found.certificate) and _run("show", found.certificate)[0] == 0:
        return
    more = ["--force"] if os.path.exists(found.certificate) else []
    _make(found.certificate, "issue", folder, _role(side), place.stem, "--days", "3650", *more)


def name_in(side: str, certificate: str) -> str:
    """The agent's name, which its certificate says."""
    status, shown, why = _run("show", certificate)
    if status != 0:
        raise AgentError(why or f"tls_certificate {certificate} has expired")
    if not (found := re.search(rf"^identity +kvrail://[^/\s]+/{_role(side)}/(\S+)$", shown, re.M)):
        raise AgentError(
            f"tls_certificate {certificate} has no identity kvrail://FLEET/{_role(side)}/NAME: "
            f"issue one for a {PROGRAMS[side]}, or name it in agent_options"
        )
    return found[1]
