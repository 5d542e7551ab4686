"""The JSON bodies of one request: the client's, and those of the two legs that are made of it.

The prefill server gets the client's body with one token to make, without streaming, and with
kv_transfer_params that ask for a hand-off. It answers with the hand-off, and the decode server
gets that with the client's body. A hand-off is a dict that nobody here looks into.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["BodyError", "decode_body", "fits_one_handoff", "handoff_of", "parse", "prefill_body"]

PARAMS = "kv_transfer_params"
ASKED: dict[str, Any] = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
# A prefill makes one token: a least number of tokens could not be kept, and nothing is streamed.
NOT_FOR_PREFILL = ("min_tokens", "min_completion_tokens", "stream_options")

Body = dict[str, Any]


class BodyError(ValueError):
    """A body that cannot be used; the text is a sentence for a person."""


def _no_constant(name: str) -> None:
    raise BodyError(f"the body has the number {name}, which JSON does not have")


def parse(body: bytes) -> Body:
    """The client's body. Raises BodyError."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
        json.dumps(value, allow_nan=False)  # a number may be too large for a double
    except BodyError:
        raise
    except UnicodeDecodeError as error:
        raise BodyError(f"the body is not UTF-8: byte {error.start} is wrong") from None
    except RecursionError:
        raise BodyError("the body nests too deep") from None
    except ValueError as error:
        raise BodyError(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BodyError(f"the body must be a JSON object, not {type(value).__name__}")
    return value


def _several(value: Any) -> bool:
    """More than one prompt. A list of numbers is one prompt of token ids."""
    return (
        isinstance(value, list)
        and len(value) != 1
        and not all(isinstance(item, (int, float)) for item in value)
    )


def fits_one_handoff(body: Body) -> bool:
    """One hand-off is one prompt's KV, fetched once. Several prompts or several answers need more.
    With logits of the prompt the decode server must compute the prompt itself."""
    many = any(body.get(name) not in (None, 1) for name in ("n", "best_of"))
    many = many or bool(body.get("use_beam_search"))
    prompts = _several(body.get("prompt")) or _several(body.get("prompt_embeds"))
    logits = body.get("prompt_logprobs") is not None or bool(body.get("echo"))
    return not (many or prompts or logits)


def prefill_body(body: Body) -> bytes:
    asked = {name: value for name, value in body.items() if name not in NOT_FOR_PREFILL}
    asked.update({"stream": False, "max_tokens": 1, PARAMS: ASKED})
    if "max_completion_tokens" in body:
        asked["max_completion_tokens"] = 1
    return json.dumps(asked).encode()


def handoff_of(answer: bytes) -> Body | None:
    """The hand-off in a prefill server's answer; None if it made none. Raises BodyError."""
    params = parse(answer).get(PARAMS)
    if params is not None and not isinstance(params, dict):
        raise BodyError(f"{PARAMS} must be an object, not {type(params).__name__}")
    return params or None


def decode_body(body: Body, handoff: Body | None) -> bytes:
    """A client's own kv_transfer_params never reach a server."""
    asked = {name: value for name, value in body.items() if name != PARAMS}
    if handoff is not None:
        asked[PARAMS] = handoff
    return json.dumps(asked).encode()
