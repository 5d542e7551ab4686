"""Goal: vLLM has the right figures of kvrail's transfers, source and target apart.

Method: a meter and its sums alone; a publish and a fetch on the agents that SOURCE_SOCKET and
TARGET_SOCKET name; vLLM's own classes with a registry of Prometheus. Each is skipped without what
it needs."""

from __future__ import annotations

import json
import os
import time
import unittest
import unittest.mock

import support
from kvrail.vllm import figures
from kvrail.vllm.figures import Meter

try:
    import kvrail
    from engines import PAGE_TOKENS, Engine
    from kvrail.vllm.metered import MeteredConnection
except (ImportError, KeyError, OSError) as error:
    NO_AGENTS = f"no kvrail library: {error}"
else:
    NO_AGENTS = "" if "SOURCE_SOCKET" in os.environ else "no agents: SOURCE_SOCKET is not set"

try:
    import prometheus_client
    from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorLogging
except ImportError as error:
    NO_VLLM = f"no vLLM: {error}"
else:
    NO_VLLM = ""


def some() -> figures.Figures:
    """Three transfers that ended well, and three that did not."""
    found = figures.empty()
    source, target = Meter("source", found), Meter("target", found)
    for handle, (seconds, moved) in enumerate(((0.25, 4_000_000), (0.5, 2_000_000))):
        source.opened(handle, 100, 10.0)
        source.ended(handle, "ok", moved, 10.0 + seconds)
    source.opened(7, 100, 10.0)
    source.ended(7, "expired", 0, 40.0)
    target.opened(0, 50, 20.0)
    target.ended(0, "ok", 1_000_000, 20.125)
    for handle, status in ((1, "peer_lost"), (2, "peer_lost")):
        target.opened(handle, 50, 20.0)
        target.ended(handle, status, 0, 21.0)
    return found


class Sums(unittest.TestCase):
    def test_source_and_target_apart(self) -> None:
        self.assertEqual(
            some(),
            {
                "source": {
                    "seconds": [0.25, 0.5],
                    "bytes": [4_000_000, 2_000_000],
                    "tokens": [100, 100],
                    "failures": {"expired": 1},
                },
                "target": {
                    "seconds": [0.125],
                    "bytes": [1_000_000],
                    "tokens": [50],
                    "failures": {"peer_lost": 2},
                },
            },
        )

    def test_what_moved_nothing_is_no_transfer(self) -> None:
        found = figures.empty()
        meter = Meter("target", found)
        meter.opened(1, 0, 1.0)
        meter.ended(1, "ok", 0, 2.0)
        self.assertTrue(figures.is_empty(found))

    def test_a_fetch_that_waits_for_its_blocks(self) -> None:
        found = figures.empty()
        meter = Meter("target", found)
        meter.opened(1, 64, 1.0)
        for group, skip in ((0, 16), (1, 48)):
            meter.skips(1, group, skip)
        for group, now in ((0, 10.0), (1, 10.25)):
            meter.begins(1, now)
            meter.gets(1, group)
        meter.ended(1, "ok", 8, 10.5)
        self.assertEqual(found["target"]["seconds"], [0.5])
        self.assertEqual(found["target"]["tokens"], [48])

    def test_a_group_that_skips_nothing_gets_all_tokens(self) -> None:
        found = figures.empty()
        meter = Meter("target", found)
        for handle, open_skip, tokens in ((1, 0, 64), (2, 32, 32)):
            meter.opened(handle, 64, 1.0, open_skip)
            meter.skips(handle, 1, 48)
            meter.begins(handle, 1.0)
            for group in (0, 1):
                meter.gets(handle, group)
            meter.ended(handle, "ok", 8, 2.0)
            self.assertEqual(found["target"]["tokens"].pop(), tokens)

    def test_handles_are_forgotten(self) -> None:
        meter = Meter("target", figures.empty())
        for handle in range(100):
            meter.opened(handle, 1, 1.0)
            meter.ended(handle, "ok", 1, 2.0)
        self.assertEqual(meter._open, {})

    def test_workers_are_added(self) -> None:
        found = some()
        figures.add(found, json.loads(json.dumps(some())))  # as it comes from another process
        self.assertEqual(found["source"]["seconds"], [0.25, 0.5] * 2)
        self.assertEqual(found["target"]["failures"], {"peer_lost": 4})
        self.assertFalse(figures.is_empty(found))
        self.assertTrue(figures.is_empty(figures.empty()))

    def test_a_failure_alone_is_not_nothing(self) -> None:
        found = figures.empty()
        Meter("source", found).ended(1, "agent_lost", 0, 1.0)
        self.assertFalse(figures.is_empty(found))

    def test_what_was_taken_is_gone(self) -> None:
        found = some()
        meter = Meter("source", found)
        self.assertEqual(figures.take(found), some())
        self.assertIsNone(figures.take(found))
        meter.opened(9, 1, 0.0)
        meter.ended(9, "ok", 8, 1.0)  # a connection goes on after it
        self.assertEqual(figures.take(found)["source"]["bytes"], [8])

    def test_a_line(self) -> None:
        self.assertEqual(
            figures.summary(some()),
            {
                "source transfers": 2,
                "source MB": 6.0,
                "source tokens": 200,
                "source mean ms": 375.0,
                "source p90 ms": 500.0,
                "source failed (expired)": 1,
                "target transfers": 1,
                "target MB": 1.0,
                "target tokens": 50,
                "target mean ms": 125.0,
                "target p90 ms": 125.0,
                "target failed (peer_lost)": 2,
            },
        )
        self.assertEqual(figures.summary(figures.empty()), {})


@unittest.skipIf(NO_AGENTS, NO_AGENTS)
class RealTransfers(unittest.TestCase):
    def setUp(self) -> None:
        own = kvrail.Connection
        kvrail.Connection = MeteredConnection  # type: ignore[misc]
        self.addCleanup(setattr, kvrail, "Connection", own)
        self.found = figures.empty()
        self.source, self.target = Engine("source"), Engine("target")
        for side, engine in (("source", self.source), ("target", self.target)):
            engine.connection.meter = Meter(side, self.found)
            self.addCleanup(engine.close)

    def test_a_publish_and_a_fetch(self) -> None:
        pages, skip = [1, 2, 3, 4], PAGE_TOKENS
        publish = self.source.publish("counted", pages)
        self.source.connection.source_end(publish)
        fetch = self.target.connection.target_open(
            "counted", 4 * PAGE_TOKENS, [self.source.address()], skip_tokens=skip
        )
        self.target.connection.target_pages(fetch, 0, pages)
        self.assertEqual(self.target.end_of(fetch).status_name, "ok")
        self.assertEqual(self.source.end_of(publish).status_name, "ok")
        moved = self.source.region.bytes // self.source.region.page_count * 3
        self.assertEqual(self.found["target"]["bytes"], [moved])
        self.assertEqual(self.found["source"]["bytes"], [moved])
        self.assertEqual(self.found["target"]["tokens"], [3 * PAGE_TOKENS])
        for side in figures.SIDES:
            (seconds,) = self.found[side]["seconds"]
            self.assertTrue(0 < seconds < 60, seconds)
            self.assertEqual(self.found[side]["failures"], {})

    def test_a_fetch_that_is_held(self) -> None:
        pages, tokens = [1, 2, 3, 4], 4 * PAGE_TOKENS
        publish = self.source.publish("held", pages)
        self.source.connection.source_end(publish)
        connection = self.target.connection
        opened = time.monotonic()
        fetch = connection.target_open("held", tokens, [self.source.address()], deadline_ms=60000)
        connection.target_hold(fetch)
        time.sleep(0.05)
        waited = time.monotonic() - opened
        connection.target_skip(fetch, 0, PAGE_TOKENS)
        connection.target_pages(fetch, 0, pages)
        self.assertEqual(self.target.end_of(fetch).status_name, "ok")
        whole = time.monotonic() - opened
        self.assertEqual(self.found["target"]["tokens"], [3 * PAGE_TOKENS])
        (seconds,) = self.found["target"]["seconds"]
        self.assertTrue(0 < seconds <= whole - waited, (seconds, whole, waited))

    def test_failures(self) -> None:
        publish = self.source.publish("cancelled", [1], ready=False)
        self.source.connection.cancel(publish)
        self.source.end_of(publish)
        nowhere = kvrail.SourceAddress("127.0.0.1:1", bytes(16), 1)
        fetch = self.target.connection.target_open("nowhere", 16, [nowhere], deadline_ms=500)
        self.target.connection.target_pages(fetch, 0, [0])
        status = self.target.end_of(fetch).status_name
        self.assertEqual(self.found["source"]["failures"], {"cancelled": 1})
        self.assertEqual(self.found["target"]["failures"], {status: 1})


@unittest.skipIf(NO_AGENTS, NO_AGENTS)
class States(unittest.TestCase):
    def test_a_state_comes_as_a_whole_and_counts_no_tokens(self) -> None:
        calls = {"__init__": None, "region_add": 1, "target_open": 7}
        calls |= {"target_skip": None, "target_pages": None}
        for name, answer in calls.items():
            patch = unittest.mock.patch.object(kvrail.Connection, name, return_value=answer)
            patch.start()
            self.addCleanup(patch.stop)
        found = figures.empty()
        connection = MeteredConnection("/socket", kvrail.Identity(bytes(16), 1, 1, 1, 1))
        connection.meter = Meter("target", found)
        for group, page_tokens in ((0, PAGE_TOKENS), (1, 0)):
            connection.region_add(kvrail.Region(name="r", group=group, page_tokens=page_tokens))
        fetch = connection.target_open("r", 64, [])
        connection.target_skip(fetch, 0, 48)
        for group in (0, 1):
            connection.target_pages(fetch, group, [1])
        connection.meter.ended(fetch, "ok", 8, time.monotonic())
        self.assertEqual(found["target"]["tokens"], [16])


@unittest.skipIf(NO_VLLM, NO_VLLM)
class InVllm(unittest.TestCase):
    def test_the_line_of_the_log(self) -> None:
        from vllm.config import KVTransferConfig

        logging = KVConnectorLogging(
            KVTransferConfig(
                kv_connector="KvrailConnector",
                kv_connector_module_path="kvrail.vllm",
                kv_role="kv_producer",
            )
        )
        lines: list[str] = []

        def log(text: str, *arguments: object) -> None:
            lines.append(text % arguments)

        logging.log(log)
        for _ in range(2):
            logging.observe(json.loads(json.dumps(some())))
        logging.log(log)
        logging.log(log)
        (line,) = lines
        for words in ("source transfers=4", "target MB=2.0", "target failed (peer_lost)=4"):
            self.assertIn(words, line)

    def test_workers_of_one_engine(self) -> None:
        from kvrail.vllm.connector import KvrailConnector
        from vllm.v1.outputs import KVConnectorOutput

        one = KvrailConnector.build_kv_connector_stats(some())
        two = KvrailConnector.build_kv_connector_stats(some())
        both = one.aggregate(two)
        self.assertEqual(len(both.to_dict()["source"]["bytes"]), 4)
        self.assertFalse(KVConnectorOutput(kv_connector_stats=both).is_empty())
        self.assertTrue(KvrailConnector.build_kv_connector_stats().is_empty())

    def test_prometheus(self) -> None:
        from kvrail.vllm.connector import KvrailConnector

        registry = prometheus_client.CollectorRegistry()

        def of(kind):
            return lambda **arguments: kind(registry=registry, **arguments)

        kinds = (prometheus_client.Gauge, prometheus_client.Counter, prometheus_client.Histogram)

        class Config:
            kv_transfer_config = None

        metrics = KvrailConnector.build_prom_metrics(
            Config(),
            {kind: of(kind) for kind in kinds},
            ["model_name", "engine"],
            {0: ["m", "0"], 1: ["m", "1"]},
        )

        def value(name: str, engine: int, **labels: str) -> float | None:
            labels = {"model_name": "m", "engine": str(engine), **labels}
            return registry.get_sample_value(f"vllm:kvrail_{name}", labels)

        self.assertEqual(value("tokens_total", 1, side="source"), 0)
        for _ in range(2):
            metrics.observe(json.loads(json.dumps(some())), 1)
        self.assertEqual(value("transfer_seconds_count", 1, side="source"), 4)
        self.assertEqual(value("transfer_seconds_sum", 1, side="source"), 1.5)
        self.assertEqual(value("transfer_bytes_sum", 1, side="target"), 2_000_000)
        self.assertEqual(value("tokens_total", 1, side="target"), 100)
        failed = "failed_transfers_total"
        self.assertEqual(value(failed, 1, side="target", status="peer_lost"), 4)
        self.assertEqual(value(failed, 1, side="source", status="expired"), 2)
        self.assertIsNone(value(failed, 0, side="source", status="expired"))
        self.assertEqual(value("transfer_seconds_count", 0, side="source"), 0)


if __name__ == "__main__":
    support.main(__file__)
