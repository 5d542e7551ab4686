"""Goal: what the proxy makes of a client's body for each leg, and what it refuses.

Method: examples of each field; and bodies with random mistakes, which parse or raise BodyError.
"""

from __future__ import annotations

import json
import random
import unittest

import support
from kvrail.proxy import bodies
from kvrail.proxy.bodies import BodyError

CLIENT = {
    "model": "m",
    "messages": [{"role": "user", "content": "\ud800 é"}],
    "max_tokens": 50,
    "max_completion_tokens": 60,
    "min_tokens": 5,
    "min_completion_tokens": 6,
    "stream": True,
    "stream_options": {"include_usage": True},
    "temperature": 0.1,
    "kv_transfer_params": {"do_remote_prefill": True, "kvrail": "forged"},
}


class Legs(unittest.TestCase):
    def test_prefill(self) -> None:
        asked = json.loads(bodies.prefill_body(CLIENT))
        self.assertEqual(
            asked,
            {
                "model": "m",
                "messages": CLIENT["messages"],
                "max_tokens": 1,
                "max_completion_tokens": 1,
                "stream": False,
                "temperature": 0.1,
                "kv_transfer_params": {
                    "do_remote_decode": True,
                    "do_remote_prefill": False,
                    "remote_engine_id": None,
                    "remote_block_ids": None,
                    "remote_host": None,
                    "remote_port": None,
                },
            },
        )
        self.assertNotIn("max_completion_tokens", json.loads(bodies.prefill_body({"prompt": "a"})))

    def test_decode(self) -> None:
        handoff = {"do_remote_prefill": True, "kvrail": {"version": 1, "new": [1.5, None]}}
        self.assertEqual(
            json.loads(bodies.decode_body(CLIENT, handoff)),
            {**CLIENT, "kv_transfer_params": handoff},
        )
        alone = json.loads(bodies.decode_body(CLIENT, None))
        self.assertNotIn("kv_transfer_params", alone)
        self.assertEqual(alone["min_tokens"], 5)

    def test_the_hand_off_in_an_answer(self) -> None:
        handoff = {"do_remote_prefill": True}
        text = json.dumps({"choices": [], "kv_transfer_params": handoff}).encode()
        self.assertEqual(bodies.handoff_of(text), handoff)
        for text in (b"{}", b'{"kv_transfer_params": null}', b'{"kv_transfer_params": {}}'):
            self.assertIsNone(bodies.handoff_of(text))
        for text in (b"", b"[]", b'{"kv_transfer_params": 5}', b"<html>"):
            with self.assertRaises(BodyError, msg=text):
                bodies.handoff_of(text)

    def test_one_hand_off_suffices(self) -> None:
        for body in (
            {"prompt": "a"},
            {"prompt": ["a"]},
            {"prompt": [1, 2, 3]},
            {"prompt": [[1, 2, 3]]},
            {"messages": [], "n": 1, "best_of": None, "logprobs": True},
            {"prompt": []},
        ):
            self.assertTrue(bodies.fits_one_handoff(body), body)
        for body in (
            {"prompt": ["a", "b"]},
            {"prompt": [[1], [2]]},
            {"prompt": "a", "n": 2},
            {"prompt": "a", "best_of": 2},
            {"prompt": "a", "use_beam_search": True},
            {"prompt": "a", "prompt_logprobs": 0},
            {"prompt": "a", "echo": True},
            {"prompt_embeds": ["a", "b"]},
            {"prompt": "a", "n": "2"},
        ):
            self.assertFalse(bodies.fits_one_handoff(body), body)


class Mistakes(unittest.TestCase):
    def test_each_is_named(self) -> None:
        for text, words in (
            (b"", "not JSON"),
            (b"{", "not JSON"),
            (b"[]", "must be a JSON object, not list"),
            (b"5", "not int"),
            (b'{"a": NaN}', "NaN"),
            (b'{"a": -Infinity}', "-Infinity"),
            (b'{"a": 1e999}', "not JSON"),
            (b'{"a": ' + b"1" * 5000 + b"}", "not JSON"),
            (b'{"a": "\xff"}', "UTF-8: byte 7"),
            ('{"a": 1}'.encode("utf-16"), "UTF-8"),
            (b'{"a": ' + b"[" * 200000, "deep"),
            (b'{"a": ' + b"[" * 100000 + b"]" * 100000 + b"}", "deep"),
        ):
            with self.assertRaises(BodyError, msg=text[:40]) as caught:
                bodies.parse(text)
            self.assertIn(words, str(caught.exception))

    def test_random_mistakes(self) -> None:
        draw = random.Random(3)
        text = json.dumps({**CLIENT, "prompt": [[1, 2], "a"], "n": 2}).encode()
        parsed = 0
        for _ in range(5000):
            wrong = bytearray(text)
            for _ in range(draw.randrange(3)):
                wrong[draw.randrange(len(wrong))] = draw.choice(b'{}[]",:0e\\\xffan')
            try:
                body = bodies.parse(bytes(wrong))
            except BodyError:
                continue
            bodies.fits_one_handoff(body)
            json.loads(bodies.prefill_body(body))
            json.loads(bodies.decode_body(body, None))
            parsed += 1
        self.assertGreater(parsed, 1000)


if __name__ == "__main__":
    support.main(__file__)
