"""Goal: two engines of vLLM with agents between them, in every state of a request; every byte that
a step reads is the one that its token made.

Method: vllm_pair.py. After each test both schedulers are empty: no request, no block, nothing that
waits. Skipped without vLLM and without agents.
"""

from __future__ import annotations

import logging
import os
import random
import unittest

import support
from vllm_engine import BLOCK, WHY, vllm

if vllm is not None and "SOURCE_SOCKET" in os.environ:
    from vllm.v1.outputs import KVConnectorOutput
    from vllm.v1.request import RequestStatus
    from vllm_pair import REMOTE_DECODE, Layout, Pair, Side, Warnings
elif vllm is not None:
    WHY = "no agents: SOURCE_SOCKET is not set"


REQUESTS = 300 if os.environ.get("KVRAIL_CAMPAIGN") else 60  # of a test at random


@unittest.skipIf(WHY, WHY)
class Case(unittest.TestCase):
    policy = "recompute"
    loads_all = True

    def layout(self) -> Layout:
        return Layout()

    def sides(self) -> tuple[dict, dict]:
        """What is special about the prefill engine and the decode engine."""
        return {}, {}

    def setUp(self) -> None:
        self.random = random.Random(self.id())
        self.warnings = Warnings()
        self.addCleanup(logging.getLogger("vllm.kvrail").removeHandler, self.warnings)
        source, target = self.sides()
        self.pair = Pair(self.side("kv_producer", **source), self.side("kv_consumer", **target))

    def side(self, role: str, **options) -> Side:
        side = Side(role, self.layout(), policy=self.policy, **options)
        self.addCleanup(side.shutdown)
        return side

    def tearDown(self) -> None:
        for side in (self.pair.prefill, self.pair.decode):
            side.until(lambda side=side: not side.left(), "the scheduler is empty")
            self.assertEqual(side.faults, [])

    @property
    def prefill(self) -> Side:
        return self.pair.prefill

    @property
    def decode(self) -> Side:
        return self.pair.decode

    def prompt(self, length: int) -> list[int]:
        return [self.random.randrange(3, 500) for _ in range(length)]

    def reason(self, name: str) -> str:
        return str(self.decode.ended[name].finish_reason)

    def ended(self, *names: str) -> None:
        self.pair.until(lambda: self.decode.ended.keys() >= set(names), f"{names} have ended")

    def answered(self, *names: str) -> None:
        self.ended(*names)
        self.assertEqual([self.reason(name) for name in names], ["length"] * len(names))

    def hand_off(self, name: str, tokens: list[int]) -> None:
        """The prefill; the decode engine has the request, and has not looked at it."""
        self.prefill.add(f"p-{name}", list(tokens), dict(REMOTE_DECODE), 1)
        self.prefill.until(lambda: f"p-{name}" in self.prefill.ended, "the prefill's end")
        params = self.prefill.ended[f"p-{name}"].kv_transfer_params
        self.decode.add(name, list(tokens), params)

    def loaded(self, lengths: dict[str, int]) -> None:
        """Each request had the KV of its prompt, but that of the last token, when it first ran. What
        the decode engine computed in all says less: the prompts together need about all its blocks,
        and a request that was preempted after its load is computed again."""
        had = {name: self.decode.had.get(name) for name in lengths}
        wanted = {name: length - 1 for name, length in lengths.items()}
        self.assertEqual(had, wanted, self.warnings.texts)

    def loads(self, name: str) -> bool:
        request = self.decode.scheduler.requests.get(name)
        return (
            request is not None and request.status is RequestStatus.WAITING_FOR_REMOTE_KVS
        )


class HandOffs(Case):
    """For every form of the two engines."""

    def test_prompts_of_every_length(self) -> None:
        lengths = (1, 2, 15, 16, 17, 33, 64, 255, 256, 257, 600)  # the longest in chunks
        names = {f"l{length}": length for length in lengths}
        for name, length in names.items():
            self.pair.ask(name, self.prompt(length))
        self.answered(*names)
        if self.loads_all:
            self.loaded(names)

    def test_prefixes_that_the_decode_engine_has(self) -> None:
        long = self.prompt(300)
        self.pair.ask("first", long)
        self.answered("first")
        prompts = {
            "longer": long + self.prompt(100),
            "shorter": long[:200],
            "same": list(long),
            "fork": long[:150] + self.prompt(150),
        }
        for name, tokens in prompts.items():
            self.pair.ask(name, tokens)
        self.answered(*prompts)

    def test_at_random(self) -> None:
        """Shared prefixes, and aborts at both sides in any state."""
        stems = [self.prompt(200) for _ in range(4)]
        asked: list[str] = []
        for number in range(REQUESTS):
            tokens = self.random.choice(stems)[: self.random.randrange(1, 200)]
            tokens = tokens + self.prompt(self.random.randrange(0, 120))
            asked.append(f"r{number}")
            self.pair.ask(asked[-1], tokens, self.random.randrange(1, 30))
            for _ in range(self.random.randrange(5)):
                self.pair.step()
            if self.random.random() < 0.3:
                self.pair.abort(self.random.choice(asked[-4:]))
        self.answered(*(name for name in asked if name not in self.pair.aborted))
        self.assertGreater(len(self.pair.aborted), REQUESTS // 12)


class States(HandOffs):
    """Requests that end early, on either side."""

    def test_aborted_at_the_decode_engine(self) -> None:
        tokens = self.prompt(200)
        self.hand_off("queued", tokens)
        self.decode.abort("queued")
        self.hand_off("loading", tokens)
        self.decode.until(lambda: self.loads("loading"), "it loads")
        self.decode.abort("loading")
        self.hand_off("loaded", self.prompt(100))
        arrived = self.decode.scheduler.finished_recving_kv_req_ids
        self.pair.until(lambda: "loaded" in arrived, "it has loaded")
        self.decode.abort("loaded")
        self.hand_off("running", self.prompt(100))
        self.pair.until(lambda: self.decode.scheduler.running, "it runs")
        self.decode.abort("running")
        self.pair.ask("after", tokens)
        self.answered("after")

    def test_aborted_at_the_prefill_engine(self) -> None:
        self.prefill.add("queued", self.prompt(100), dict(REMOTE_DECODE), 1)
        self.prefill.abort("queued")
        self.prefill.add("chunk", self.prompt(600), dict(REMOTE_DECODE), 1)
        self.prefill.step()
        self.prefill.abort("chunk")
        self.pair.ask("after", self.prompt(100))
        self.answered("after")

    def test_the_prefill_engine_ends(self) -> None:
        """When two requests load, or have loaded, and one is in the queue."""
        names = ("early", "late", "queued")
        for name in names[:2]:
            self.hand_off(name, self.prompt(300))
        self.decode.until(lambda: self.loads("late"), "it loads")
        self.hand_off("queued", self.prompt(300))
        self.prefill.shutdown()
        self.decode.until(lambda: self.decode.ended.keys() >= set(names), "all have ended")
        reasons = [self.reason(name) for name in names]
        self.assertEqual(reasons[-1], self.reason_of_a_failure)
        self.assertLessEqual(set(reasons), {"length", self.reason_of_a_failure})
        self.pair.prefill = self.side("kv_producer", **self.sides()[0])
        self.pair.ask("again", self.prompt(300))
        self.answered("again")

    reason_of_a_failure = "length"


class Small(States):
    """Short chunks at the prefill. The decode engine has few blocks: requests wait for them, and
    are preempted."""

    def sides(self) -> tuple[dict, dict]:
        return {"batch": 64, "hold_s": 2}, {"blocks": 45}

    def test_preempted(self) -> None:
        names = [f"m{number}" for number in range(5)]
        for name in names:
            self.pair.ask(name, self.prompt(100), 60)
        self.answered(*names)
        self.assertGreater(self.decode.preemptions, 0)

    def test_no_decode_engine_asks_for_it(self) -> None:
        self.prefill.add("p", self.prompt(100), dict(REMOTE_DECODE), 1)
        self.prefill.until(lambda: "p" in self.prefill.ended, "the prefill's end")
        self.assertTrue(self.prefill.left(), "the blocks stay for a decode engine")


class PolicyFail(States):
    policy, reason_of_a_failure = "fail", "error"


class Windows(States):
    """A layer of full attention to two with windows."""

    def test_the_prefill_engine_ends(self) -> None:
        if not hasattr(KVConnectorOutput(), "failed_recving"):
            self.skipTest("this vLLM ends when a load of several KV groups fails")
        super().test_the_prefill_engine_ends()

    def layout(self) -> Layout:
        return Layout(windows=(0, 32, 32))


class WindowsAndFewBlocks(Case):
    """In most runs a request is preempted after its load, and computed again."""

    test_prompts_of_every_length = HandOffs.test_prompts_of_every_length

    def layout(self) -> Layout:
        return Layout(windows=(0, 32, 32))

    def sides(self) -> tuple[dict, dict]:
        return {}, {"blocks": 60}


class Latent(HandOffs):
    def layout(self) -> Layout:
        return Layout(latent=True)


class MoreRanksAtThePrefill(HandOffs):
    def sides(self) -> tuple[dict, dict]:
        return {"tp": 2}, {}


class MoreRanksAtTheDecode(HandOffs):
    def sides(self) -> tuple[dict, dict]:
        return {}, {"tp": 2}


class FewerHeadsThanRanks(HandOffs):
    def layout(self) -> Layout:
        return Layout(heads=1)

    def sides(self) -> tuple[dict, dict]:
        return {"tp": 2}, {"tp": 2}


class LatentOnTwoRanks(HandOffs):
    def layout(self) -> Layout:
        return Layout(latent=True)

    def sides(self) -> tuple[dict, dict]:
        return {"tp": 2}, {"tp": 1}


class SmallerBlocksAtThePrefill(HandOffs):
    def sides(self) -> tuple[dict, dict]:
        return {}, {"block": 2 * BLOCK}


class SmallerBlocksAtTheDecode(HandOffs):
    def sides(self) -> tuple[dict, dict]:
        return {"block": 4 * BLOCK}, {}


class WindowsAndLargerBlocksAtThePrefill(HandOffs):
    def layout(self) -> Layout:
        return Layout(windows=(0, 48))

    def sides(self) -> tuple[dict, dict]:
        return {"tp": 2, "block": 2 * BLOCK}, {}


class WindowsAndSmallerBlocksAtThePrefill(HandOffs):
    """The prefill engine may have freed the beginning of a block of the decode engine, which
    computes such a prompt."""

    loads_all = False

    def layout(self) -> Layout:
        return Layout(windows=(0, 48))

    def sides(self) -> tuple[dict, dict]:
        return {"tp": 2}, {"block": 2 * BLOCK}


class BlocksPackedForTheProcessor(Case):
    """vLLM's attention on a CPU packs the tokens of a block together: only whole blocks of the same
    size can be copied."""

    def ask(self, blocks: int) -> None:
        self.pair = Pair(
            self.side("kv_producer", packed=True), self.side("kv_consumer", packed=True, block=blocks)
        )
        self.pair.ask("a", self.prompt(300))
        self.answered("a")

    def test_of_one_size(self) -> None:
        self.ask(BLOCK)
        self.assertLessEqual(self.decode.computed_tokens, 4, self.warnings.texts)

    def test_of_two_sizes(self) -> None:
        self.ask(2 * BLOCK)
        self.assertGreaterEqual(self.decode.computed_tokens, 300)
        (text,) = set(self.warnings.texts)
        self.assertIn("is computed here: its source's pages hold float32, packed for a CPU (", text)
        self.assertIn(f"blocks of {BLOCK})", text)
        self.assertIn(f"blocks of {2 * BLOCK})", text)


if __name__ == "__main__":
    support.main(__file__)
