"""Goal: a prefill server and a decode server of vLLM with kvrail between them, behind kvrail.proxy,
answer as one server does, also when clients go away, and when an agent or the prefill server is
killed.

    two_servers.py full       all cases
    two_servers.py windows    answers of a model with windows
    two_servers.py ranks      answers with two ranks at the prefill server
    two_servers.py blocks     answers where block sizes differ: the decode server computes all

Method: two real servers on the CPU, greedy decoding, a small model. The expected tokens are those
of the prefill server alone, without a transfer. After each case both servers must be idle, with no
block held, as vLLM's own counters have it. run.sh starts the agents and gives SOURCE_SOCKET,
TARGET_SOCKET, KVRAIL_SCHEDULER (host:port) and WORK_FOLDER. It restarts an agent when its role is
written to descriptor 3, and answers with a line on descriptor 4.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import sys
import unittest
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import harness
from servers import BLOCK, Pair, Proxy, metric_of_scheduler, new_prompt, not_done, tokens_of, wait_until

AT_ONCE = 8
# A third of the prompts, unless this is a campaign.
CAMPAIGN = bool(os.environ.get("KVRAIL_CAMPAIGN"))
IDLE_SECONDS = 90
AGAIN_SECONDS = 120

scheduler = os.environ["KVRAIL_SCHEDULER"]
asks = os.fdopen(3, "w", buffering=1)
answers = os.fdopen(4)


def setUpModule() -> None:
    global pair, proxy
    work = pathlib.Path(os.environ["WORK_FOLDER"])
    options = {"kv_producer": "SOURCE_SOCKET", "kv_consumer": "TARGET_SOCKET"}
    pair = Pair(
        work,
        {role: {"socket": os.environ[socket]} for role, socket in options.items()},
        form,
    )
    proxy = Proxy(work, pair)


def tearDownModule() -> None:
    proxy.stop()
    pair.stop()


def through_both(prompt: list[int]) -> list[int]:
    return tokens_of(proxy.post(prompt, Pair.TOKENS))


def restart(agent: str) -> None:
    """Kills the agent, `prefill` or `decode`, and returns when it has started again."""
    asks.write(agent + "\n")
    if answers.readline() != agent + "\n":
        raise AssertionError(f"the {agent}-agent did not start again")


def moved() -> float:
    """Transfers that kvrail's agents have completed, at both ends."""
    return metric_of_scheduler(scheduler, "kvrail_transfer_sides_done_total")


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.random = random.Random(self.id())
        self.addCleanup(pair.wait_idle, IDLE_SECONDS)

    def prompt(self, length: int = 0) -> list[int]:
        return new_prompt(self.random, length)

    def compare(self, prompts: list[list[int]], at_once: int) -> None:
        with ThreadPoolExecutor(at_once) as pool:
            got = list(pool.map(through_both, prompts))
            self.assertEqual(got, list(pool.map(pair.alone, prompts)))


class Answers(Case):
    """Two hundred prompts in a campaign, and those that must be there before others."""

    def test_answers_depend_on_the_whole_prompt(self) -> None:
        end = self.prompt(300)
        self.assertNotEqual(pair.alone(self.prompt(16) + end), pair.alone(self.prompt(16) + end))

    def test_new_prompts(self) -> None:
        prompts = [self.prompt() for _ in range(60 if CAMPAIGN else 20)]
        hits_before, moved_before = pair.hits(), moved()
        alone = len(prompts) // 3
        self.compare(prompts[:alone], 1)
        self.compare(prompts[alone:], 4)
        loaded = sum(len(prompt) - 1 for prompt in prompts)  # the last token is computed
        self.assertGreaterEqual(pair.hits() - hits_before, loaded)
        wait_until(
            lambda: moved() - moved_before >= 2 * len(prompts),
            30,
            "each was a transfer of kvrail",
            lambda: f", but {moved() - moved_before:g} ends of one{not_done(scheduler)}",
        )

    def test_prompts_that_begin_like_another(self) -> None:
        begins = [self.prompt(self.random.randrange(BLOCK, 4 * BLOCK)) for _ in range(10)]
        self.compare(begins, 4)
        hits_before, local_before = pair.hits(), pair.local_hits()
        prompts = [begin + self.prompt(BLOCK + number) for number in range(6 if CAMPAIGN else 2) for begin in begins]
        self.compare(prompts, 4)
        self.assertGreaterEqual(pair.local_hits() - local_before, len(prompts) * BLOCK)
        self.assertGreaterEqual(pair.hits() - hits_before, len(prompts) * BLOCK)

    def test_prompts_that_are_there_already(self) -> None:
        prompts = [self.prompt(blocks * BLOCK + 1) for blocks in range(1, 6)] * (4 if CAMPAIGN else 2)
        self.compare(prompts[:5], 1)
        hits_before, local_before = pair.hits(), pair.local_hits()
        self.compare(prompts, 4)
        self.assertEqual(pair.hits(), hits_before)
        self.assertEqual(pair.local_hits() - local_before, sum(map(len, prompts)) - len(prompts))

    def test_twenty_at_once(self) -> None:
        """More than the servers compute at once: the others wait in their queues."""
        prompts = [self.prompt() for _ in range(40 if CAMPAIGN else 20)]
        prompts += [prompt[:BLOCK] + self.prompt() for prompt in prompts[: len(prompts) // 2]]
        self.compare(self.random.sample(prompts, len(prompts)), 20)


class OtherBlocks(Case):
    """vLLM's attention on a CPU packs the tokens of a block together: a block of another size cannot
    be made of it."""

    def test_nothing_is_loaded(self) -> None:
        prompts = [self.prompt() for _ in range(10)]
        hits_before = pair.hits()
        self.compare(prompts, 4)
        self.assertEqual(pair.hits(), hits_before)


class Ends(Case):
    """Clients, agents and servers that go away."""

    def test_clients_that_go_away(self) -> None:
        def sent() -> None:
            pass

        def running() -> None:
            wait_until(lambda: not pair.decode.idle(), 30, "the decode server has the request")

        for reached in (sent, running, sent, running):
            prompt = self.prompt(600)
            connection = pair.decode.open(prompt, 1000, kv_transfer_params=pair.hand_off(prompt))
            reached()
            connection.close()
            pair.wait_idle(IDLE_SECONDS)
        for _ in range(2):  # a router that goes away during the prefill, or after it
            prompt = self.prompt(600)
            pair.prefill.open(prompt, 1, kv_transfer_params={"do_remote_decode": True}).close()
            pair.hand_off(prompt)
        connection = proxy.open(self.prompt(600), 1000)
        running()
        connection.close()
        pair.wait_idle(IDLE_SECONDS)
        prompt = self.prompt()
        self.assertEqual(through_both(prompt), pair.alone(prompt))

    def restart_under_load(self, agent: str) -> None:
        prompts = [self.prompt() for _ in range(24)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            futures = [pool.submit(through_both, prompt) for prompt in prompts]
            wait(futures, return_when=FIRST_COMPLETED)
            restart(agent)
            got = [future.result() for future in futures]
        self.assertEqual(got, [pair.alone(prompt) for prompt in prompts])
        self.await_transfers(f"the {agent}-agent's restart")

    def await_transfers(self, what: str) -> None:
        hits_before, moved_before = pair.hits(), moved()

        def moves_again() -> bool:
            prompt = self.prompt()
            self.assertEqual(through_both(prompt), pair.alone(prompt))
            return pair.hits() > hits_before and moved() > moved_before

        wait_until(moves_again, AGAIN_SECONDS, f"kvrail moves KV after {what}")

    def test_decode_agent_is_killed(self) -> None:
        self.restart_under_load("decode")

    def test_prefill_agent_is_killed(self) -> None:
        self.restart_under_load("prefill")

    def test_prefill_server_is_killed(self) -> None:
        """Requests that it had handed off end with the right tokens, and so do those that the proxy
        has to give to the decode server alone."""
        prompts = [self.prompt() for _ in range(16)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            handed = list(pool.map(pair.hand_off, prompts))
        with ThreadPoolExecutor(2 * AT_ONCE) as pool:
            decoded = [
                pool.submit(pair.decode.post, prompt, Pair.TOKENS, kv_transfer_params=params)
                for prompt, params in zip(prompts, handed, strict=True)
            ]
            more = [self.prompt() for _ in range(AT_ONCE)]
            whole = [pool.submit(through_both, prompt) for prompt in more]
            wait(decoded, return_when=FIRST_COMPLETED)
            pair.prefill.stop(signal.SIGKILL)
            got = [tokens_of(future.result()) for future in decoded]
            wait(whole)
        pair.prefill.start()
        pair.prefill.wait_healthy()
        self.assertEqual(got, [pair.alone(prompt) for prompt in prompts])
        got = [future.result() for future in whole]
        self.assertEqual(got, [pair.alone(prompt) for prompt in more])
        self.await_transfers("the prefill server's restart")


if __name__ == "__main__":
    form = sys.argv[1]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the servers are stopped at exit
    cases = {"full": [Answers, Ends], "blocks": [OtherBlocks]}.get(form, [Answers])
    harness.main(f"two_servers_{form}", cases)
