"""Where the proxy may listen, and the certificate that its clients see.

A certificate that is renewed serves the next connections: the files are read again on SIGHUP and
when one of them has changed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Sequence

from .client import log

__all__ = ["Certificate", "SecureError", "check"]

LOOK_SECONDS = 10.0  # between two looks at the files


class SecureError(Exception):
    """The text is a sentence for a person."""


def _is_loopback(host: str) -> bool:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False  # listening on it will say why
    addresses = [str(one[4][0]) for one in found]
    return all(one == "::1" or one.startswith("127.") for one in addresses)


def check(host: str, certificate: str, key: str, insecure: bool) -> None:
    """Raises SecureError."""
    if bool(certificate) != bool(key):
        raise SecureError("--tls-certificate and --tls-key belong together: give both")
    if certificate and insecure:
        raise SecureError("--insecure and --tls-certificate contradict each other: give one")
    if not certificate and not insecure and not _is_loopback(host):
        raise SecureError(
            f"--listen {host} can be reached from other hosts, and without a certificate everyone "
            "there reads prompts and answers: give --tls-certificate and --tls-key, or --insecure"
        )


class Certificate:
    """`context` is for asyncio's server. Raises SecureError where the files are of no use."""

    def __init__(self, certificate: str, key: str) -> None:
        self._files = (certificate, key)
        self._seen = self._changed()
        self.context = self._load()

    def renew(self) -> None:
        """Files of no use change nothing."""
        self._seen = self._changed()
        try:
            self._load()
            self.context.load_cert_chain(*self._files)
        except (SecureError, OSError) as error:
            log.warning("%s; the proxy goes on with the certificate that it has", error)
        else:
            log.info("the certificate was read again")

    async def watch(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._changed() != self._seen:
                self.renew()

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(*self._files, password=_no_password)
        except OSError as error:  # ssl.SSLError is one
            names = " and ".join(self._files)
            why = error.strerror or str(error)
            raise SecureError(f"{names} are no certificate and its key: {why}") from None
        return context

    def _changed(self) -> Sequence[tuple[int, int]]:
        found = []
        for path in self._files:
            try:
                state = os.stat(path)
                found.append((state.st_mtime_ns, state.st_ino))
            except OSError:
                found.append((0, 0))
        return found


def _no_password() -> str:
    """Else OpenSSL would ask at the terminal."""
    raise OSError("the key is encrypted")
