"""kv_transfer_params: the dict by which a prefill engine names a request to a decode engine.

Routers pass it on verbatim. Its keys are those of vLLM's NIXL connector, so that routers made for
that one work unchanged, and one more, "kvrail", with all that this connector reads:

    version   2; a reader refuses another one
    request   the id that both engines know
    attempt   drawn by the prefill engine
    secret    64 hexadecimal digits: only an engine that names them is given the pages
    tokens    that the source offers, from token 0 on
    engine    the source engine's id, 32 hexadecimal digits
    sources   a list of [agent, generation, tp, pp], one for each source rank
    tenant    for whom it is published, and so fetched; absent: the first of either engine's agent
    held      for each KV group the first token of which the source has the KV; absent: 0
    pages     how bytes lie inside a page, where regions do not tell; absent: empty

The dict comes back through a client or a router, so nothing in it is believed: `parse` checks every
field. Who has the dict may fetch the request: it belongs into no log, and no answer of a decode engine
carries it. A request to a prefill engine may name a secret of the router's own, and a tenant.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from typing import Any

__all__ = ["HandOff", "HandOffError", "SourceAddress", "build", "parse", "request_id", "secret_of", "tenant_of"]

VERSION = 2  # 1 had no secret
REQUEST_BYTES_MAX = 127  # KVRAIL_REQUEST_BYTES without the NUL
AGENT_BYTES_MAX = 127
PAGES_BYTES_MAX = 1024
SOURCES_MAX = 64  # KVRAIL_SOURCES_MAX
GROUPS_MAX = 32
ATTEMPT_MAX = 2**32 - 1
TOKENS_MAX = 2**40


class HandOffError(ValueError):
    """The dict cannot be used; the text is a sentence for a person."""


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """One source rank: where its agent is dialed, and which start of which engine it is."""

    agent: str
    engine: str
    generation: int
    tp: int
    pp: int


@dataclass(frozen=True, slots=True)
class HandOff:
    request: str
    attempt: int
    tokens: int
    sources: tuple[SourceAddress, ...]
    held: tuple[int, ...] = ()
    pages: str = ""
    secret: str = field(default="", repr=False)
    tenant: str = ""


def request_id(name: str) -> str:
    """A request id that kvrail takes. One that is too long or not printable keeps its readable
    beginning, for `kvrail why`, and ends in a hash of the whole."""
    if (
        0 < len(name.encode("utf-8", "replace")) <= REQUEST_BYTES_MAX
        and name.isprintable()
        and name.isascii()
    ):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return re.sub(r"[^\x21-\x7e]", "_", name)[: REQUEST_BYTES_MAX - 33] + "." + digest


def build(
    handoff: HandOff, block_ids: tuple[tuple[int, ...], ...], engine_name: str
) -> dict[str, Any]:
    """The dict for the answer of a prefill. `block_ids` and `engine_name` only fill the older keys:
    readers of those take an empty list of blocks for "nothing to fetch"."""
    first = handoff.sources[0]
    host, _, port = first.agent.rpartition(":")
    return {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_block_ids": [list(group) for group in block_ids],
        "remote_engine_id": engine_name,
        "remote_request_id": handoff.request,
        "remote_host": host.strip("[]"),
        "remote_port": int(port) if port.isdigit() else 0,
        "tp_size": 1 + max(source.tp for source in handoff.sources),
        "remote_num_tokens": handoff.tokens,
        "kvrail": {
            "version": VERSION,
            "request": handoff.request,
            "attempt": handoff.attempt,
            "secret": handoff.secret,
            "tokens": handoff.tokens,
            "engine": first.engine,
            "sources": [[s.agent, s.generation, s.tp, s.pp] for s in handoff.sources],
            **({"tenant": handoff.tenant} if handoff.tenant else {}),
            **({"held": list(handoff.held)} if any(handoff.held) else {}),
            **({"pages": handoff.pages} if handoff.pages else {}),
        },
    }


def _text(value: Any, name: str, longest: int) -> str:
    if (
        not isinstance(value, str)
        or not value
        or len(value.encode("utf-8", "replace")) > longest
        or not value.isprintable()
    ):
        raise HandOffError(
            f"kv_transfer_params: {name} must be printable text of 1 to {longest} bytes, "
            f"not {value!r:.80}"
        )
    return value


def _number(value: Any, name: str, largest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise HandOffError(
            f"kv_transfer_params: {name} must be a number from 0 to {largest}, not {value!r:.80}"
        )
    return value


def _secret(value: Any) -> str:
    """The sentence shows nothing of it: a wrong secret may be nearly a right one."""
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{64}", value):
        raise HandOffError("kv_transfer_params: secret must be 64 hexadecimal digits in lower case")
    return value


def secret_of(params: dict[str, Any]) -> str:
    """That of a request to a prefill engine: the router's, or a new one."""
    ours = params.get("kvrail")
    if isinstance(ours, dict) and "secret" in ours:
        return _secret(ours["secret"])
    return secrets.token_hex(32)


def _tenant(value: Any) -> str:
    """As the agents' --tenant takes it."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", value):
        raise HandOffError(
            "kv_transfer_params: tenant must have 1 to 63 letters, digits, dots, hyphens and "
            f"underscores, and begin with a letter or digit, not {value!r:.80}"
        )
    return value


def tenant_of(params: dict[str, Any], own: str) -> str:
    """That of a request to a prefill engine: the router's, or the engine's own. "": none."""
    ours = params.get("kvrail")
    if isinstance(ours, dict) and "tenant" in ours:
        return _tenant(ours["tenant"])
    return own


def _source(value: Any, engine: str) -> SourceAddress:
    if not isinstance(value, (list, tuple)) or len(value) != 4:
        raise HandOffError(
            f"kv_transfer_params: a source must be [agent, generation, tp, pp], not {value!r:.80}"
        )
    return SourceAddress(
        _text(value[0], "a source's agent", AGENT_BYTES_MAX),
        engine,
        _number(value[1], "a source's generation", 2**64 - 1),
        _number(value[2], "a source's tp", 65535),
        _number(value[3], "a source's pp", 65535),
    )


def parse(params: dict[str, Any] | None) -> HandOff | None:
    """The hand-off of a request that another engine has prefilled; None for any other request.
    Raises HandOffError where the request asks for a remote prefill and its dict cannot be used."""
    if not params or not params.get("do_remote_prefill"):
        return None
    ours = params.get("kvrail")
    if not isinstance(ours, dict):
        raise HandOffError(
            'kv_transfer_params has no key "kvrail": the prefill engine runs another connector'
        )
    version = _number(ours.get("version"), "version", 2**31)
    if version != VERSION:
        older = "this one" if version > VERSION else "the prefill engine's"
        raise HandOffError(
            f"kv_transfer_params has version {version}, and this kvrail reads {VERSION}: update {older}"
        )
    engine = ours.get("engine")
    if not isinstance(engine, str) or not re.fullmatch(r"[0-9a-f]{32}", engine):
        raise HandOffError(
            f"kv_transfer_params: engine must be 32 hexadecimal digits, not {engine!r:.80}"
        )
    sources = ours.get("sources")
    if not isinstance(sources, (list, tuple)) or not 1 <= len(sources) <= SOURCES_MAX:
        raise HandOffError(f"kv_transfer_params: sources must be a list of 1 to {SOURCES_MAX}")
    held = ours.get("held", ())
    if not isinstance(held, (list, tuple)) or len(held) > GROUPS_MAX:
        raise HandOffError(f"kv_transfer_params: held must be a list of at most {GROUPS_MAX}")
    return HandOff(
        _text(ours.get("request"), "request", REQUEST_BYTES_MAX),
        _number(ours.get("attempt"), "attempt", ATTEMPT_MAX),
        _number(ours.get("tokens"), "tokens", TOKENS_MAX),
        tuple(_source(source, engine) for source in sources),
        tuple(_number(first, "held", TOKENS_MAX) for first in held),
        _text(ours["pages"], "pages", PAGES_BYTES_MAX) if "pages" in ours else "",
        _secret(ours.get("secret")),
        _tenant(ours["tenant"]) if "tenant" in ours else "",
    )
