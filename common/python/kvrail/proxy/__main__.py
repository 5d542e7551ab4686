"""python -m kvrail.proxy: options, start and end."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import resource
import signal
import sys

from .client import log
from .listener import Bounds, Listener, watch
from .metrics import Metrics
from .relay import Relay, Settings
from .secure import Certificate, SecureError, check
from .servers import Pool, Server, UrlError, parse_url
from .upstream import Limits

EPILOG = """
Each request goes to a prefill server first, with max_tokens 1. The hand-off of its answer goes with
the request to a decode server, whose answer the client gets, piece by piece. The least busy server
is next. A prefill that fails is tried again, at another server if there is one. Without a hand-off
the decode server computes the prompt itself.

SIGTERM: no new requests; those that run have --grace seconds.
"""


def _server(text: str) -> Server:
    try:
        return parse_url(text)
    except UrlError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} must be HOST:PORT, for example 127.0.0.1:8000")
    return host.strip("[]"), int(port)


def _number(text: str, least: float, kind: type[float]) -> float:
    try:
        value = kind(text)
    except ValueError:
        value = -1
    if not least <= value < 1e12:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number from {least:g}")
    return value


def _count(text: str) -> int:
    return int(_number(text, 1, int))


def _seconds(text: str) -> float:
    return _number(text, 0.05, float)


def options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kvrail.proxy",
        description="A small router for prefill servers and decode servers of vLLM.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    for name, text in (
        ("--prefill", "prefill servers, http://HOST:PORT each"),
        ("--decode", "decode servers"),
    ):
        add(
            name,
            nargs="+",
            action="extend",
            type=_server,
            required=True,
            metavar="URL",
            help=text,
        )
    add(
        "--listen",
        type=_address,
        default=("127.0.0.1", 8000),
        metavar="HOST:PORT",
        help="where clients connect (127.0.0.1:8000); port 0 takes a free one",
    )
    add("--tls-certificate", default="", metavar="FILE", help="certificate for clients, in PEM")
    add("--tls-key", default="", metavar="FILE", help="its key, in PEM")
    add(
        "--insecure",
        action="store_true",
        help="listen beyond this host although nothing is encrypted",
    )
    add("--port-file", metavar="FILE", help="write the port there once clients can connect")
    add(
        "--attempts",
        type=_count,
        default=2,
        metavar="N",
        help="prefills for one hand-off, and decodes for one request (2)",
    )
    add(
        "--require-prefill",
        action="store_true",
        help="without a hand-off answer with an error, instead of a decode server alone",
    )
    for name, default, text in (
        ("--connect-timeout", 5, "seconds to connect to a server"),
        ("--timeout", 600, "seconds that a server or a client may be silent"),
        ("--health-interval", 2, "seconds between two looks at /health of each server"),
        ("--health-timeout", 10, "seconds that the answer may take; a busy server's comes late"),
        ("--grace", 30, "seconds that running requests have at the end"),
    ):
        add(name, type=_seconds, default=default, metavar="S", help=f"{text} ({default})")
    add("--clients-max", type=_count, default=1024, metavar="N", help="connections (1024)")
    add(
        "--body-max",
        type=_count,
        default=64 << 20,
        metavar="BYTES",
        help="of a request (64 MiB)",
    )
    add("--quiet", action="store_true", help="log warnings only, not each request")
    chosen = parser.parse_args(arguments)
    try:
        host = chosen.listen[0]
        check(host, chosen.tls_certificate, chosen.tls_key, chosen.insecure)
        chosen.certificate = None
        if chosen.tls_certificate:
            chosen.certificate = Certificate(chosen.tls_certificate, chosen.tls_key)
    except SecureError as error:
        parser.error(str(error))
    return chosen


def _raise_file_limit(clients: int) -> None:
    """Each client may need two connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * clients + 64
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        if most < wanted:
            log.warning("%d open files are allowed; %d clients may need %d", most, clients, wanted)


def _write_port(path: str, port: int) -> None:
    """As a whole: a reader never sees a part of it."""
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(f"{port}\n")
    os.replace(path + ".new", path)


async def run(chosen: argparse.Namespace) -> None:
    prefill, decode = Pool("prefill", chosen.prefill), Pool("decode", chosen.decode)
    limits = Limits(chosen.connect_timeout, chosen.timeout)
    settings = Settings(chosen.attempts, chosen.require_prefill, limits)
    relay = Relay(prefill, decode, settings, Metrics())
    bounds = Bounds(chosen.clients_max, chosen.body_max)
    certificate: Certificate | None = chosen.certificate
    context = certificate.context if certificate else None
    listener = Listener(relay, bounds, chosen.timeout, context)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    host, port = chosen.listen
    port = await listener.start(host, port)
    if chosen.port_file:
        _write_port(chosen.port_file, port)
    scheme = "https" if certificate else "http"
    log.info("listening on %s://%s:%d", scheme, f"[{host}]" if ":" in host else host, port)
    if chosen.insecure:
        log.warning("--insecure: prompts and answers cross the network as plain text")
    of_health = Limits(chosen.connect_timeout, chosen.health_timeout)
    watching = [asyncio.ensure_future(watch((prefill, decode), of_health, chosen.health_interval))]
    if certificate:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, certificate.renew)
        watching.append(asyncio.ensure_future(certificate.watch()))
    await ended.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(number)  # a second one ends at once
    await listener.end(chosen.grace)
    for each in watching:
        each.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await each


def main(arguments: list[str]) -> int:
    chosen = options(arguments)
    level = logging.WARNING if chosen.quiet else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(message)s", stream=sys.stderr)
    _raise_file_limit(chosen.clients_max)
    try:
        asyncio.run(run(chosen))
    except OSError as error:
        host, port = chosen.listen
        print(f"kvrail.proxy: cannot listen on {host}:{port}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
