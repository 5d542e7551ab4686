"""The command line of an agent that an engine starts.

Without `advertise` it serves this host alone: it listens on loopback. With it, hosts that reach the
address reach the agent. Over tcp its card is then the one of that address; over verbs and efa the
agent itself takes all cards that can be used. Ports are free ones unless `advertise` names one.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fcntl import ioctl
from typing import Any

from .find import PROGRAMS, AgentError
from .place import Place

__all__ = ["Advertised", "advertised", "at_port", "command", "flags", "program"]

SIOCGIFADDR = 0x8915


@dataclass(frozen=True, slots=True)
class Advertised:
    """`host` is what peers dial. `address` is this host's own, or "" where the network translates
    it."""

    host: str
    port: int = 0
    address: str = ""

    @property
    def text(self) -> str:
        """As --advertise takes it. Without a port the agent adds the one that it listens on."""
        return f"{_bracketed(self.host)}:{self.port}" if self.port else _bracketed(self.host)

    @property
    def listen(self) -> str:
        return f"{_bracketed(self.address or '0.0.0.0')}:{self.port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _split(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if colon and (host.startswith("[") or ":" not in host) and not text.endswith("]"):
        if not port.isdigit() or not 0 < int(port) < 65536 or not host:
            raise AgentError(f"advertise is {text!r}: it must be a host, or HOST:PORT")
        return host.strip("[]"), int(port)
    return text.strip("[]"), 0


def _address_of_interface(name: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = ioctl(any_socket, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError as error:
            raise AgentError(
                f"advertise names the interface {name}, which has no IPv4 address: name an address"
            ) from error
    return socket.inet_ntoa(answer[20:24])


def _is_ours(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def advertised(text: str) -> Advertised:
    """`text` is an address, a name or an interface of this host, with a port or without."""
    host, port = _split(text)
    if host in (name for _, name in socket.if_nameindex()):
        host = _address_of_interface(host)
    try:
        address = str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise AgentError(
            f"advertise is {text!r}, and {host} is neither an interface of this host nor a name "
            f"with an address: {error.strerror}"
        ) from error
    return Advertised(host, port, address if _is_ours(address) else "")


def program(name: str, environment: Mapping[str, str] | None = None) -> str:
    """The path of an agent: in the folder KVRAIL_BIN_DIR, else beside this package, beside Python,
    or in PATH."""
    environment = os.environ if environment is None else environment
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [f"{package}/bin", os.path.dirname(sys.executable), *os.get_exec_path()]
    if named := environment.get("KVRAIL_BIN_DIR"):
        folders = [named]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if found is None:
        where = named or "the kvrail package or in PATH"
        raise AgentError(
            f"there is no program {name} in {where}: install kvrail's agents, or set "
            "KVRAIL_BIN_DIR to their folder"
        )
    return found


def flags(options: Mapping[str, Any]) -> list[str]:
    """{"rail": ["eth0", "eth1"], "insecure": True} as arguments."""
    words: list[str] = []
    for name, value in options.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
            continue
        values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        for one in values:
            words += [f"--{name}", str(one)]
    return words


def _needs_rail(options: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """The agent reads its environment too; what its command line says wins."""
    cards = {"rail", "group"} & options.keys() or {"KVRAIL_RAIL", "KVRAIL_GROUP"} & environment.keys()
    provider = options.get("provider", environment.get("KVRAIL_PROVIDER", "tcp"))
    return not cards and str(provider).split("+")[0] == "tcp"


def command(
    side: str,
    name: str,
    place: Place,
    to: Advertised | None,
    options: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    tls: Mapping[str, str] | None = None,
) -> list[str]:
    """The agent's arguments. `options` are the user's, and win. `tls` are those of its certificate;
    without them the options or the environment have some, or say insecure."""
    environment = os.environ if environment is None else environment
    own: dict[str, Any] = {"name": name, "engine-socket": place.socket, "lifeline": place.pipe}
    own |= tls or {}
    if side == "source":
        own["listen"] = to.listen if to else "127.0.0.1:0"
        own["port-file"] = place.port
    if to:
        if side == "source":
            own["advertise"] = to.text
        if _needs_rail(options, environment):
            if not to.address:
                raise AgentError(
                    f"advertise is {to.text}, which is no address of this host: name the cards "
                    'too, as "agent_options": {"rail": "eth0"}'
                )
            own["rail"] = to.address
    return flags(own | dict(options))


def at_port(arguments: Sequence[str], port: int) -> list[str]:
    """`command`'s arguments, with the port in the place of a free one; 0 changes nothing."""
    words = list(arguments)
    if port and "--listen" in words:
        value = words.index("--listen") + 1
        if words[value].endswith(":0"):
            words[value] = words[value].removesuffix("0") + str(port)
    return words


def name_of(side: str, engine: str) -> str:
    """Unique among the agents of a fleet, for people too."""
    role = PROGRAMS[side].removesuffix("-agent")
    return f"{socket.gethostname()[:24]}-{engine}-{role}"
