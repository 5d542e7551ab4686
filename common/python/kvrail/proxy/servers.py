"""The servers that a proxy knows, and the next one of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

__all__ = ["Pool", "Server", "UrlError", "parse_url"]


class UrlError(ValueError):
    """A URL that cannot be used; the text is a sentence for a person."""


@dataclass(slots=True, eq=False)
class Server:
    """`down` is the reason for which it gets no requests; empty if it gets some."""

    host: str
    port: int
    path: str = ""  # before /v1/…, without a slash at its end
    down: str = ""
    running: int = 0  # requests of this proxy
    last: int = field(default=0, repr=False)  # the turn in which it was chosen last

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"http://{self.authority}{self.path}"


def parse_url(text: str) -> Server:
    """Raises UrlError."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UrlError(f"{text!r} is not a URL: {error}") from None
    if parts.scheme != "http" or not host:
        raise UrlError(f"{text!r} must be http://HOST:PORT; the proxy speaks no TLS")
    if parts.query or parts.fragment or parts.username is not None:
        raise UrlError(f"{text!r} must be http://HOST:PORT, or with a path, and nothing more")
    path = parts.path.rstrip("/").removesuffix("/v1")
    if not re.fullmatch(r"(/[\x21-\x7e]*)?", path) or not re.fullmatch(r"[\x21-\x7e]+", host):
        raise UrlError(f"{text!r} has a character that a URL cannot have")
    return Server(host, 80 if port is None else port, path)


class Pool:
    """The servers of one role, `prefill` or `decode`."""

    def __init__(self, role: str, servers: Iterable[Server]) -> None:
        self.role, self.servers = role, tuple(servers)
        self._turn = 0

    def choose(self, tried: Collection[Server] = ()) -> Server | None:
        """Of those that are up and were not tried the least busy; of equally busy ones that which
        had no turn for longest."""
        free = [server for server in self.servers if not server.down and server not in tried]
        if not free:
            return None
        chosen = min(free, key=lambda server: (server.running, server.last))
        self._turn += 1
        chosen.last = self._turn
        return chosen

    @property
    def is_up(self) -> bool:
        return any(not server.down for server in self.servers)

    @property
    def reasons(self) -> str:
        """Why each server that is down is."""
        return "; ".join(f"{server}: {server.down}" for server in self.servers if server.down)
