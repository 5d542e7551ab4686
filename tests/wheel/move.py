"""Runs what a wheel has installed, with nothing but Python's own library: a scheduler, both agents and two
engines. Pages move over tcp, and every byte is compared. Arguments: the folder of the programs, and
options for both agents. Prints the agents' start-up lines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import kvrail

BIN, OPTIONS = Path(sys.argv[1]), sys.argv[2:]
PATIENCE = 30 * int(os.environ.get("KVRAIL_SCALE", "1"))
LAYERS, PAGES, TOKENS = 4, 64, 48
SOURCE_PAGES, TARGET_PAGES = [7, 3, 60], [0, 50, 51]


class Program:
    def __init__(self, work: Path, name: str, *options: str) -> None:
        self.log = work / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([BIN / name, *options], stdout=log, stderr=log)

    def wait_for(self, file: Path) -> str:
        for _ in range(PATIENCE * 20):
            if file.exists() and (file.is_socket() or file.stat().st_size > 0):
                return "" if file.is_socket() else file.read_text().strip()
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise SystemExit(f"{self.log.stem} did not make {file}: {self.log.read_text()}")

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        if status != 0:
            raise SystemExit(f"{self.log.stem} ended with {status}: {self.log.read_text()}")


class Engine:
    def __init__(self, name: str, socket: Path) -> None:
        self.region = kvrail.Region(
            layer_count=LAYERS, head_count=2, page_tokens=16, page_count=PAGES, head_bytes=64
        )
        self.memory = kvrail.Memory(name, self.region.dense().bytes)
        self.region.fd = self.memory.fd
        self.identity = kvrail.Identity(
            os.urandom(16),
            time.time_ns(),
            layers_total=LAYERS,
            kv_heads_total=2,
            head_dim=32,
            model="tiny",
            dtype="bfloat16",
            name=name,
        )
        self.connection = kvrail.Connection(str(socket), self.identity)
        self.connection.region_add(self.region)

    def page(self, layer: int, part: int, page: int) -> memoryview:
        region = self.region
        at = layer * region.layer_stride + part * region.part_stride + page * region.page_stride
        return self.memory.view[at : at + region.page_stride]

    def pages(self, ids: list[int]) -> list[bytes]:
        return [
            bytes(self.page(layer, part, page))
            for layer in range(LAYERS)
            for part in range(2)
            for page in ids
        ]

    def finish(self, handle: int) -> str:
        last = ""
        while handle in self.connection.handles:
            for event in self.connection.wait():
                last = f"{event.kind.name} {event.status_name} {event.detail}".strip()
        return last


def move(run: Path, port: str) -> None:
    source, target = Engine("source", run / "p.sock"), Engine("target", run / "d.sock")
    source.memory.view[:] = os.urandom(len(source.memory.view))
    publish = source.connection.source_open("request", tokens=TOKENS)
    source.connection.source_pages(publish, 0, SOURCE_PAGES)
    source.connection.source_watch(publish, word=0, base=0, token_first=0, token_end=TOKENS)
    source.connection.ready(0, LAYERS)
    source.connection.source_end(publish)
    address = kvrail.SourceAddress(
        f"127.0.0.1:{port}", source.identity.engine, source.identity.generation
    )
    secret = source.connection.source_secret(publish)
    fetch = target.connection.target_open("request", TOKENS, [address], secret=secret)
    target.connection.target_pages(fetch, 0, TARGET_PAGES)
    ends = [target.finish(fetch), source.finish(publish)]
    if ends != ["DONE ok", "SOURCE_FREE ok"]:
        raise SystemExit(f"the request ended so: {ends}")
    if target.pages(TARGET_PAGES) != source.pages(SOURCE_PAGES):
        raise SystemExit("bytes are wrong")
    target.connection.close()
    source.connection.close()


def certificates(work: Path) -> None:
    folder = str(work / "tls")
    pairs = ["prefill", "p", "decode", "d", "scheduler", "s", "client", "c"]
    for words in (["init", folder], ["issue", folder, *pairs, "--host", "127.0.0.1"]):
        subprocess.run([BIN / "kvrail", "certificates", *words], check=True, stdout=subprocess.DEVNULL)


def credentials(work: Path, name: str) -> list[str]:
    tls = work / "tls"
    return [
        "--tls-certificate", str(tls / f"{name}.pem"), "--tls-key", str(tls / f"{name}-key.pem"),
        "--tls-ca", str(tls / "ca.pem"),
    ]  # fmt: skip


def main(work: Path) -> None:
    certificates(work)
    state = work / "state"
    scheduler = Program(
        work, "kvrail-scheduler", *credentials(work, "s"), "--listen", "127.0.0.1:0", "--state-dir", str(state),
        "--port-file", str(work / "scheduler.port"),
    )  # fmt: skip
    address = "127.0.0.1:" + scheduler.wait_for(work / "scheduler.port")
    common = ["--provider", "tcp", "--scheduler", address, *OPTIONS]
    prefill = Program(
        work, "prefill-agent", "--name", "p", "--engine-socket", str(work / "p.sock"), "--listen",
        "127.0.0.1:0", "--port-file", str(work / "p.port"), *credentials(work, "p"), *common,
    )  # fmt: skip
    port = prefill.wait_for(work / "p.port")
    decode = Program(
        work, "decode-agent", "--name", "d", "--engine-socket", str(work / "d.sock"),
        *credentials(work, "d"), *common,
    )  # fmt: skip
    decode.wait_for(work / "d.sock")
    move(work, port)
    command = [BIN / "kvrail", "status", "--scheduler", address, *credentials(work, "c")]
    status = subprocess.run(command, capture_output=True, text=True, check=True)
    if "prefill" not in status.stdout or "decode" not in status.stdout:
        raise SystemExit(f"kvrail status lacks an agent: {status.stdout}")
    for program in (decode, prefill, scheduler):
        program.end()
        for line in program.log.read_text().splitlines():
            if " is ready: " in line:
                print(line)
    version = subprocess.run([BIN / "kvrail", "--version"], capture_output=True, text=True, check=True)
    print(version.stdout.strip())


with tempfile.TemporaryDirectory() as folder:
    main(Path(folder))
