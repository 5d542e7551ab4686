"""Goal: a prefill server and a decode server of vLLM with kvrail between them answer as one server
does, also when clients go away and when an agent is killed.

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
import unittest
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import harness
import model
from servers import Server, metric, wait_until

TOKENS = 16  # of an answer
AT_ONCE = 8
IDLE_SECONDS = 90
AGAIN_SECONDS = 120

asks = os.fdopen(3, "w", buffering=1)
answers = os.fdopen(4)


def setUpModule() -> None:
    global prefill, decode
    work = pathlib.Path(os.environ["WORK_FOLDER"])
    cores = sorted(os.sched_getaffinity(0))
    model.make(work / "model")
    prefill, decode = (
        Server(role, os.environ[agent], work / "model", core, f"{work}/{role}.log")
        for role, agent, core in (
            ("kv_producer", "SOURCE_SOCKET", cores[0]),
            ("kv_consumer", "TARGET_SOCKET", cores[-1]),
        )
    )
    for server in (prefill, decode):
        server.wait_healthy()


def tearDownModule() -> None:
    for server in (prefill, decode):
        server.stop()


def restart(agent: str) -> None:
    """Kills the agent, `prefill` or `decode`, and returns when it has started again."""
    asks.write(agent + "\n")
    if answers.readline() != agent + "\n":
        raise AssertionError(f"the {agent}-agent did not start again")


def tokens_of(answer: dict) -> list[int]:
    return answer["choices"][0]["token_ids"]


def alone(prompt: list[int]) -> list[int]:
    return tokens_of(prefill.post(prompt, TOKENS))


def hand_off(prompt: list[int]) -> dict:
    """The prefill, as a router asks for it. The result goes to the decode server."""
    wish = {"do_remote_decode": True, "do_remote_prefill": False}
    return prefill.post(prompt, 1, kv_transfer_params=wish)["kv_transfer_params"]


def through_both(prompt: list[int]) -> list[int]:
    return tokens_of(decode.post(prompt, TOKENS, kv_transfer_params=hand_off(prompt)))


def hits() -> float:
    """Prompt tokens that the decode server took from kvrail instead of computing them."""
    return decode.metric("external_prefix_cache_hits_total")


def moved() -> float:
    """Transfers that kvrail's agents have completed, at both ends."""
    return metric(os.environ["KVRAIL_SCHEDULER"], "kvrail_path_transfers_total")


class TwoServers(unittest.TestCase):
    def setUp(self) -> None:
        self.random = random.Random(self.id())
        self.addCleanup(self.wait_idle)

    def wait_idle(self) -> None:
        for name, server in (("prefill", prefill), ("decode", decode)):
            wait_until(server.idle, IDLE_SECONDS, f"the {name} server holds no block")

    def prompt(self, length: int = 0) -> list[int]:
        """One that no server has in its cache."""
        length = length or self.random.randrange(200, 700)
        return [self.random.randrange(3, model.TOKENS) for _ in range(length)]

    def test_answers_depend_on_the_whole_prompt(self) -> None:
        end = self.prompt(300)
        self.assertNotEqual(alone(self.prompt(16) + end), alone(self.prompt(16) + end))

    def test_each_prompt_alone(self) -> None:
        prompts = [self.prompt() for _ in range(16)]
        prompts += [prompt + self.prompt(60) for prompt in prompts[:4]]  # a prefix is there already
        hits_before, moved_before = hits(), moved()
        for prompt in prompts:
            self.assertEqual(through_both(prompt), alone(prompt))
        fewest = sum(map(len, prompts[:16]))
        self.assertGreaterEqual(hits() - hits_before, fewest - 16)  # the last token is computed
        wait_until(
            lambda: moved() - moved_before >= 2 * len(prompts), 30, "each was a transfer of kvrail"
        )

    def test_eight_at_once(self) -> None:
        prompts = [self.prompt() for _ in range(24)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            got = list(pool.map(through_both, prompts))
        self.assertEqual(got, [alone(prompt) for prompt in prompts])

    def test_clients_that_go_away(self) -> None:
        def sent() -> None:
            pass

        def running() -> None:
            wait_until(lambda: not decode.idle(), 30, "the decode server has the request")

        for reached in (sent, running, sent, running):
            prompt = self.prompt(600)
            connection = decode.open(prompt, 1000, kv_transfer_params=hand_off(prompt))
            reached()
            connection.close()
            self.wait_idle()
        for _ in range(2):  # a router that goes away during the prefill, or after it
            prompt = self.prompt(600)
            prefill.open(prompt, 1, kv_transfer_params={"do_remote_decode": True}).close()
            hand_off(prompt)
        self.wait_idle()
        prompt = self.prompt()
        self.assertEqual(through_both(prompt), alone(prompt))

    def restart_under_load(self, agent: str) -> None:
        prompts = [self.prompt() for _ in range(24)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            futures = [pool.submit(through_both, prompt) for prompt in prompts]
            wait(futures, return_when=FIRST_COMPLETED)
            restart(agent)
            got = [future.result() for future in futures]
        self.assertEqual(got, [alone(prompt) for prompt in prompts])
        hits_before, moved_before = hits(), moved()

        def moves_again() -> bool:
            prompt = self.prompt()
            self.assertEqual(through_both(prompt), alone(prompt))
            return hits() > hits_before and moved() > moved_before

        wait_until(moves_again, AGAIN_SECONDS, f"kvrail moves KV after the {agent}-agent's restart")

    def test_decode_agent_is_killed(self) -> None:
        self.restart_under_load("decode")

    def test_prefill_agent_is_killed(self) -> None:
        self.restart_under_load("prefill")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the servers are stopped at exit
    harness.main("two_servers")
