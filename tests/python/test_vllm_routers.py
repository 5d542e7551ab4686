"""Goal: routers that were not made for kvrail work unchanged: what they wrote to vLLM's servers, and
what the servers answered, still means the same to the connector.

Method: HTTP exchanges in recorded/*.json, replayed against both halves of the connector with
stand-in requests. Each file says how it was made. An exchange is {"to": "client", "prefill" or
"decode", "request": {"line", "headers", "body"}, "answer": {"status", "type", "body"}}; "client"
is what the client asked the router.
"""

from __future__ import annotations

import json
import pathlib
import unittest

import support
from kvrail.connector.handoff import parse, request_id
from kvrail.proxy import bodies
from stand_in_vllm import Request, RequestStatus
from test_vllm_states import PUBLISH, Engine

FOLDER = pathlib.Path(__file__).parent / "recorded"
BLOCK = 16
PARAMS = "kv_transfer_params"


# vLLM's server adds these to the connector's dict.
OF_VLLM = {"remote_prefill_cached_tokens"}


def flows() -> list[tuple[str, dict, dict, dict]]:
    """(file, client, prefill, decode) of each request that was recorded."""
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        exchanges = json.loads(path.read_text())["exchanges"]
        for each in range(0, len(exchanges), 3):
            client, prefill, decode = exchanges[each : each + 3]
            assert (client["to"], prefill["to"], decode["to"]) == ("client", "prefill", "decode")
            found.append((path.stem, client, prefill, decode))
    return found


def arrived(engine: Engine, name: str, asked: dict) -> tuple[Request, tuple[list[int], ...]]:
    """The request of a body, as vLLM's server hands it to its scheduler."""
    tokens = len(asked["prompt"])
    request = Request(name, tokens, asked[PARAMS], max_tokens=asked["max_tokens"])
    engine.scheduler.arrived(request)
    return request, (list(range(1, 1 + -(-tokens // BLOCK))),)


def prefilled(engine: Engine, asked: dict) -> dict:
    """kv_transfer_params of the answer to a prefill, as they come through HTTP."""
    request, blocks = arrived(engine, "cmpl-7-0-p", asked)
    engine.scheduler.allocated(request, blocks, 0)
    engine.step()
    request.num_computed_tokens = request.num_prompt_tokens
    request.status = RequestStatus.FINISHED_LENGTH_CAPPED
    stay, params = engine.scheduler.finished(request, blocks)
    assert stay, "the blocks stay until a decode server has them"
    engine.step()
    return json.loads(json.dumps(params))


def shape(value):
    """The keys and the types of a dict."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    return type(value).__name__


class Recorded(unittest.TestCase):
    def test_there_are_some(self) -> None:
        self.assertGreaterEqual({name for name, *_ in flows()}, {"vllm_toy_proxy", "llm_d_sidecar"})

    def test_the_router_passes_the_dict_on_verbatim(self) -> None:
        for name, _, prefill, decode in flows():
            with self.subTest(name):
                params = prefill["answer"]["body"][PARAMS]
                self.assertEqual(decode["request"]["body"][PARAMS], params)

    def test_a_prefill_makes_such_a_dict_still(self) -> None:
        for name, _, prefill, _ in flows():
            with self.subTest(name):
                engine = Engine()
                made = prefilled(engine, prefill["request"]["body"])
                recorded = shape(prefill["answer"]["body"][PARAMS])
                self.assertEqual(
                    shape(made), {k: v for k, v in recorded.items() if k not in OF_VLLM}
                )
                self.assertEqual(engine.calls(), PUBLISH)
                self.assertEqual(engine.warnings, [])

    def test_the_decode_server_fetches_what_the_dict_names(self) -> None:
        for name, _, prefill, decode in flows():
            asked = decode["request"]["body"]
            with self.subTest(name, dict="of that day"):
                self.fetch(asked, asked[PARAMS])
            with self.subTest(name, dict="of today"):
                self.fetch(asked, prefilled(Engine(), prefill["request"]["body"]))

    def fetch(self, asked: dict, params: dict) -> None:
        engine = Engine()
        request, blocks = arrived(engine, "cmpl-7-0-d", {**asked, PARAMS: params})
        tokens = request.num_prompt_tokens
        self.assertEqual(engine.scheduler.tokens_to_load(request, 0), (tokens, True))
        engine.scheduler.allocated(request, blocks, tokens)
        request.status = RequestStatus.WAITING_FOR_REMOTE_KVS
        engine.step()
        handoff = parse(params)
        self.assertEqual(
            engine.connection.calls[0][:4],
            ("target_open", handoff.request, tokens, handoff.sources),
        )
        self.assertEqual(engine.connection.calls[-1][-1], tuple(blocks[0]))
        self.assertEqual(engine.calls()[-1], "target_pages")
        engine.connection.event("DONE", engine.connection.handles, token_end=tokens)
        self.assertEqual(engine.step()[1], {"cmpl-7-0-d"})
        self.assertEqual(engine.warnings, [])

    def test_servers_know_the_request_by_the_routers_id(self) -> None:
        """For `kvrail why`: a router's X-Request-Id is the beginning of kvrail's id."""
        for name, _, prefill, decode in flows():
            with self.subTest(name):
                id_ = dict(prefill["request"]["headers"])["x-request-id"]
                self.assertEqual(dict(decode["request"]["headers"])["x-request-id"], id_)
                known = decode["request"]["body"][PARAMS]["kvrail"]["request"]
                self.assertTrue(known.startswith(f"cmpl-{id_}-0-"), known)
                self.assertEqual(request_id(known), known)

    def test_the_proxy_writes_what_they_write(self) -> None:
        for name, client, prefill, decode in flows():
            with self.subTest(name):
                asked = client["request"]["body"]
                theirs = dict(prefill["request"]["body"])
                if "max_completion_tokens" not in asked:  # llm-d's sidecar always sets it
                    theirs.pop("max_completion_tokens", None)
                self.assertEqual(json.loads(bodies.prefill_body(asked)), theirs)
                answer = json.dumps(prefill["answer"]["body"]).encode()
                ours = json.loads(bodies.decode_body(asked, bodies.handoff_of(answer)))
                self.assertEqual(ours, decode["request"]["body"])


if __name__ == "__main__":
    support.main(__file__)
