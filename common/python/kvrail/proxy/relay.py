"""One request of a client: through prefill and decode as route.py says, and its answer.

The decode server's answer goes through piece by piece, as it comes. When the client goes away the
task is cancelled; that closes the connection to the server, and so ends the request there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass

from . import bodies
from .client import JSON_TYPE, Client, log
from .message import AnswerHead, Headers, RequestHead, end_to_end, value_of
from .metrics import Metrics
from .route import Decode, PassOn, Prefill, Refuse, Route, Step
from .servers import Pool, Server
from .stream import Stream
from .upstream import Failed, Limits, Reply, Unreached, ask

__all__ = ["Relay", "Settings"]

GENERATE = ("/v1/completions", "/v1/chat/completions")
ANSWER_BYTES_MAX = 64 << 20  # of an answer that is read as a whole
# A server may act on these again, with the same request: 408, 429, and what a proxy or an engine
# that restarts says.
MAY_PASS = frozenset({408, 429, 500, 502, 503, 504})
# The proxy writes these itself.
OWN_HEADERS = (
    "host",
    "content-length",
    "content-type",
    "expect",
    "accept-encoding",
    "x-request-id",
)


@dataclass(frozen=True, slots=True)
class Settings:
    attempts: int = 2
    require_prefill: bool = False
    limits: Limits = Limits()


class Relay:
    def __init__(self, prefill: Pool, decode: Pool, settings: Settings, metrics: Metrics) -> None:
        self.prefill, self.decode = prefill, decode
        self.metrics = metrics
        self.ending = False
        self._settings = settings

    async def handle(self, head: RequestHead, body: bytes, stream: Stream) -> bool:
        """Answers one request; whether the connection stays open. Raises StreamError where the
        client is gone."""
        client = Client(head, stream, value_of(head.headers, "x-request-id") or uuid.uuid4().hex)
        client.keep = client.keep and not self.ending
        begin = asyncio.get_running_loop().time()
        self.metrics.running += 1
        try:
            await self._answer(client, body)
        finally:
            self.metrics.running -= 1
            if client.status:
                self.metrics.count("answers", "status", client.status)
            seconds = asyncio.get_running_loop().time() - begin
            log.info(
                "%s: %s %s:%s %s in %.3f s",
                *(client.id, head.method, head.path, client.way, client.status or "gone", seconds),
            )
        return client.keep and not self.ending

    async def _answer(self, client: Client, body: bytes) -> None:
        path, method = client.head.path, client.head.method
        if path in GENERATE:
            if method != "POST":
                return await client.refuse(405, f"{path} takes POST, not {method}", "POST")
            return await self._generate(client, body)
        if path not in ("/health", "/metrics", "/v1/models"):
            served = ", ".join((*GENERATE, "/v1/models", "/health", "/metrics"))
            return await client.refuse(404, f"the proxy serves {served}, not {path[:80]}")
        if method not in ("GET", "HEAD"):
            return await client.refuse(405, f"{path} takes GET, not {method}", "GET, HEAD")
        if path == "/health":
            return await self._health(client)
        if path == "/metrics":
            page = self.metrics.page((self.prefill, self.decode)).encode()
            return await client.answer(200, page, (("content-type", "text/plain; version=0.0.4"),))
        route = Route(self.prefill, self.decode, one_handoff=False, attempts=1)
        await self._follow(route, client, {}, "GET")

    async def _health(self, client: Client) -> None:
        """200 as long as a decode server is up: requests are answered then."""
        ready = self.decode.is_up and not self.ending
        page = {
            "status": "ok" if ready else "ending" if self.ending else "no decode server is up",
            **{
                pool.role: [
                    {"server": str(server), "up": not server.down, "why": server.down}
                    for server in pool.servers
                ]
                for pool in (self.prefill, self.decode)
            },
        }
        await client.answer(200 if ready else 503, json.dumps(page).encode() + b"\n", (JSON_TYPE,))

    async def _generate(self, client: Client, text: bytes) -> None:
        try:
            body = bodies.parse(text)
        except bodies.BodyError as error:
            return await client.refuse(400, str(error))
        route = Route(
            self.prefill,
            self.decode,
            one_handoff=bodies.fits_one_handoff(body),
            attempts=self._settings.attempts,
            require_prefill=self._settings.require_prefill,
        )
        await self._follow(route, client, body, "POST")

    async def _follow(self, route: Route, client: Client, body: bodies.Body, method: str) -> None:
        kept: list[tuple[AnswerHead, bytes]] = []  # servers' answers that were not used
        step: Step | None = route.start()
        while step is not None:
            if isinstance(step, (Prefill, Decode)) and step.pause:
                await asyncio.sleep(step.pause)
            if isinstance(step, Prefill):
                step = await self._prefill(route, client, step, body, kept)
            elif isinstance(step, Decode):
                step = await self._decode(route, client, step, body, method, kept)
            elif isinstance(step, PassOn):
                await client.whole(*kept[-1])
                step = None
            else:
                assert isinstance(step, Refuse)
                await client.refuse(step.status, step.sentence)
                step = None

    @contextlib.asynccontextmanager
    async def _ask(
        self, server: Server, method: str, client: Client, text: bytes
    ) -> AsyncIterator[Reply]:
        passed = end_to_end(client.head.headers, OWN_HEADERS)
        headers: Headers = (*passed, JSON_TYPE, ("x-request-id", client.id))
        target, limits = client.head.target, self._settings.limits
        server.running += 1
        try:
            async with ask(server, method, target, headers, text, limits) as reply:
                yield reply
        finally:
            server.running -= 1

    async def _prefill(
        self,
        route: Route,
        client: Client,
        step: Prefill,
        body: bodies.Body,
        kept: list[tuple[AnswerHead, bytes]],
    ) -> Step:
        server = step.server
        client.way += f" prefill {server},"
        text = bodies.prefill_body(body)
        try:
            async with self._ask(server, "POST", client, text) as reply:
                answer = await reply.whole(ANSWER_BYTES_MAX)
                status = reply.head.status
                handoff = bodies.handoff_of(answer) if status == 200 else None
        except (Unreached, Failed) as error:
            return self._prefill_failed(route, client, step, str(error), error)
        except bodies.BodyError as error:
            return self._prefill_failed(route, client, step, f"sent a wrong answer: {error}")
        if status in MAY_PASS:
            return self._prefill_failed(route, client, step, f"answered with status {status}")
        if status != 200:
            self.metrics.count("prefills", "outcome", "refused")
            log.warning("%s: %s refused the prefill with status %d", client.id, server, status)
            kept.append((reply.head, answer))
            return route.prefill_refused()
        if handoff is None:
            self.metrics.count("prefills", "outcome", "not_handed_off")
            log.warning("%s: %s answered without kv_transfer_params", client.id, server)
            return route.not_handed_off(server)
        self.metrics.count("prefills", "outcome", "handed_off")
        return route.handed_off(handoff)

    def _prefill_failed(
        self,
        route: Route,
        client: Client,
        step: Prefill,
        reason: str,
        error: Exception | None = None,
    ) -> Step:
        self.metrics.count("prefills", "outcome", "failed")
        log.warning("%s: prefill: %s %s", client.id, step.server, reason)
        status = error.status if isinstance(error, Failed) else 502
        return route.prefill_failed(step.server, reason, status)

    async def _decode(
        self,
        route: Route,
        client: Client,
        step: Decode,
        body: bodies.Body,
        method: str,
        kept: list[tuple[AnswerHead, bytes]],
    ) -> Step | None:
        """None when the client has its answer."""
        server = step.server
        client.way += f" decode {server},"
        text = bodies.decode_body(body, step.handoff) if method == "POST" else b""
        if method == "POST":
            self.metrics.count("decodes", "with", "handoff" if step.handoff else "nothing")
        reason, status, answered = "", 502, False
        try:
            async with self._ask(server, method, client, text) as reply:
                if reply.head.status not in MAY_PASS:
                    await self._pass(client, reply)
                    return None
                reason = f"answered with status {reply.head.status}"
                kept.append((reply.head, await reply.whole(ANSWER_BYTES_MAX)))
                answered = True
        except Unreached as error:
            self.metrics.count("decode_failures")
            log.warning("%s: decode: %s %s", client.id, server, error)
            return route.decode_unreached(server, str(error))
        except Failed as error:
            reason, status = str(error), error.status
        self.metrics.count("decode_failures")
        log.warning("%s: decode: %s %s", client.id, server, reason)
        return route.decode_failed(server, reason, status, answered=answered)

    async def _pass(self, client: Client, reply: Reply) -> None:
        """Passes an answer on as it comes. Where it ends too early, so does the client's."""
        await client.begin(reply.head, reply.framing)
        try:
            async for data in reply.pieces():
                await client.piece(data)
        except Failed as error:
            self.metrics.count("broken_answers")
            await client.break_off(
                error.status, f"the decode server {error} before its answer's end"
            )
        else:
            await client.end()
