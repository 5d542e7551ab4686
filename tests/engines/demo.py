"""Prompts through kvrail.proxy, a prefill server and a decode server of vLLM, beside the answers of
one server alone. tests/demo.sh starts the agents and runs it:

    demo.py COUNT [--stay]

The environment has SOURCE_SOCKET, TARGET_SOCKET, KVRAIL_SCHEDULER (host:port), KVRAIL_BIN_DIR and
WORK_FOLDER. Writes the verdict to WORK_FOLDER/verdict; with --stay the servers and the proxy go on,
and WORK_FOLDER/groups has their process groups. Exit status: 0 if all answers are equal.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from servers import Pair, Proxy, new_prompt, stream_of, wait_until

TOKENS = Pair.TOKENS  # of an answer
AT_ONCE = 4
SHOWN = 6  # tokens of a line
ROW = "{:>3}  {:41} {:29} {:29} {}"

Answer = list[int] | Exception


def streamed(proxy: Proxy, number: int, prompt: list[int]) -> list[int]:
    """The tokens of an answer that comes as a stream of events."""
    with contextlib.closing(proxy.open(prompt, TOKENS, f"demo-{number}", stream=True)) as answer:
        return [token for event in stream_of(answer) for token in event]


def tried(ask, *arguments) -> Answer:
    try:
        return ask(*arguments)
    except Exception as error:
        return error


def ask_all(proxy: Proxy, pair: Pair, prompts: list[list[int]]) -> tuple[list[Answer], ...]:
    """The answers through the proxy, then those of one server."""
    numbers = range(1, len(prompts) + 1)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        through = list(
            pool.map(lambda n: tried(streamed, proxy, n, prompts[n - 1]), numbers)
        )
        return through, list(pool.map(lambda prompt: tried(pair.alone, prompt), prompts))


def words(tokens: Answer) -> str:
    if isinstance(tokens, Exception):
        return str(tokens)
    return " ".join(map(str, tokens[:SHOWN])) + (" …" if len(tokens) > SHOWN else "")


def show(prompts: list[list[int]], through: list[Answer], alone: list[Answer]) -> int:
    """Prints a line for each prompt; returns how many answers are equal."""
    print(ROW.format("", "prompt", "prefill → decode", "one engine", ""))
    equal = 0
    for number, (prompt, got, wanted) in enumerate(zip(prompts, through, alone, strict=True), 1):
        same = isinstance(got, list) and len(got) == TOKENS and got == wanted
        equal += same
        asked = f"{len(prompt)} tokens: {words(prompt)}"
        print(ROW.format(number, asked, words(got), words(wanted), "equal" if same else "DIFFERS"))
    return equal


def show_one_transfer(number: int) -> None:
    """The timeline of a request's transfer, once both agents have reported it."""
    command = [os.environ["KVRAIL_BIN_DIR"] + "/kvrail", "why", f"cmpl-demo-{number}-"]
    command += ["--scheduler", os.environ["KVRAIL_SCHEDULER"]]
    tls = os.environ["SCHEDULER_TLS"]
    command += ["--tls-ca", f"{tls}/ca.pem", "--tls-certificate", f"{tls}/operator.pem"]
    command += ["--tls-key", f"{tls}/operator-key.pem"]
    answers: list[str] = []

    def known() -> bool:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        answers.append(done.stdout or done.stderr)
        return done.returncode == 0

    wait_until(known, 30, f"the scheduler knows the transfer of request {number}")
    print(f"\nThe transfer of prompt {number} ({' '.join(command[1:3])}):\n\n{answers[-1]}")


def stay(work: pathlib.Path, proxy: Proxy, pair: Pair) -> None:
    servers = (pair.prefill, pair.decode)
    for each in (proxy, *servers):
        atexit.unregister(each.stop)
    pids = [proxy.process.pid, *(server.pid for server in servers)]
    (work / "groups").write_text(" ".join(map(str, pids)))
    body = '{"model": "model", "prompt": [5, 6, 7], "max_tokens": 8, "return_token_ids": true}'
    print(f"The proxy: curl http://{proxy.address}/v1/completions \\")
    print(f"    -H 'Content-Type: application/json' -d '{body}'")


def main(count: int, stays: bool) -> int:
    work = pathlib.Path(os.environ["WORK_FOLDER"])
    print("Starting two servers of vLLM on the CPU, which takes about a minute ...", flush=True)
    pair = Pair(
        work,
        {
            "kv_producer": {"socket": os.environ["SOURCE_SOCKET"]},
            "kv_consumer": {"socket": os.environ["TARGET_SOCKET"]},
        },
    )
    proxy = Proxy(work, pair)
    draw = random.Random(1)
    prompts = [new_prompt(draw) for _ in range(count)]
    through, alone = ask_all(proxy, pair, prompts)
    equal = show(prompts, through, alone)
    show_one_transfer(count)
    came = int(pair.decode.metric("kvrail_tokens_total"))
    offered = sum(map(len, prompts))
    print(f"{came} of {offered} tokens of the prompts came to the decode server over kvrail.")
    if stays:
        stay(work, proxy, pair)
    verdict = f"{count} prompts, {equal} answers equal to one engine's, {count - equal} failed"
    (work / "verdict").write_text(f"demo: vllm: {verdict}\n")
    # The decode server computes the last token of each prompt itself.
    return 0 if equal == count and came >= offered - count else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the servers are stopped at exit
    sys.stdout.reconfigure(line_buffering=True)
    try:
        sys.exit(main(int(sys.argv[1]), "--stay" in sys.argv[2:]))
    except KeyboardInterrupt:
        sys.exit(130)
