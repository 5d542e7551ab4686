"""Goal: every option of kv_connector_extra_config is read, and a wrong one ends in a sentence."""

from __future__ import annotations

import unittest

import support
from kvrail.vllm.settings import SettingsError, StartSettings, settings_of

TLS = {"agent": "start", "tls_certificate": "/c", "tls_key": "/k", "tls_ca": "/a"}


class Options(unittest.TestCase):
    def test_sockets_of_each_role(self) -> None:
        for role, socket, wanted in (
            ("kv_producer", "/p", {"source": "/p"}),
            ("kv_consumer", "/d", {"target": "/d"}),
            ("kv_both", {"source": "/p", "target": "/d"}, {"source": "/p", "target": "/d"}),
            ("kv_producer", {"source": "/p", "target": "/d"}, {"source": "/p"}),
            ("kv_consumer", None, {"target": ""}),
            ("kv_both", None, {"source": "", "target": ""}),
        ):
            self.assertEqual(settings_of(role, {"socket": socket}).sockets, wanted)

    def test_values(self) -> None:
        settings = settings_of(
            "kv_producer",
            {"hold_s": 60, "lease_s": 1.5, "park_s": 0, "name": "a", "model": "m", "tenant": "t-1"}
            | {"agent_wait_s": 7, "kv_recompute_threshold": 64},
        )
        limits = settings.limits
        self.assertEqual((limits.hold, limits.lease_ms, limits.park), (60.0, 1500, 0.0))
        self.assertEqual((settings.name, settings.model, settings.tenant), ("a", "m", "t-1"))
        self.assertEqual((settings.agent_wait, settings.threshold), (7.0, 64))
        self.assertEqual(settings_of("kv_producer", {"socket": "/p"}).limits.hold, 60)

    def test_an_agent_that_the_engine_starts(self) -> None:
        settings = settings_of("kv_both", {"agent": "start"})
        self.assertEqual(settings.sockets, {"source": "", "target": ""})
        self.assertEqual(settings.start, StartSettings())
        options = {"rail": ["eth0", "eth1"], "insecure": True, "libfabric": "/opt/amazon/efa"}
        settings = settings_of(
            "kv_producer", {"agent": "start", "advertise": "eth0:9480", "agent_options": options}
        )
        self.assertEqual(settings.start, StartSettings("eth0:9480", options))
        settings = settings_of("kv_producer", {"agent": "start", "libfabric": "/opt/amazon/efa/lib"})
        self.assertEqual(settings.start, StartSettings("", {"libfabric": "/opt/amazon/efa/lib"}))
        self.assertIsNone(settings_of("kv_producer", {}).start)

    def test_certificates_of_such_an_agent(self) -> None:
        own = {"tls_certificate": "/c", "tls_key": "/k", "tls_ca": "/a", "agent": "start"}
        start = settings_of("kv_consumer", own).start
        assert start is not None
        self.assertEqual(start.tls, {"target": ("/c", "/k", "/a")})
        of_both = {
            "tls_certificate": {"source": "/c", "target": "/d"},
            "tls_key": {"source": "/k", "target": "/l"},
        }
        start = settings_of("kv_both", own | of_both).start
        assert start is not None
        self.assertEqual(start.tls, {"source": ("/c", "/k", "/a"), "target": ("/d", "/l", "/a")})

    def test_mistakes_are_named(self) -> None:
        for role, extra, words in (
            ("kv_producer", {"socket": ""}, "socket must be a path"),
            ("kv_producer", {"agent": "stop"}, "agent must be \"start\", not 'stop'"),
            ("kv_producer", {"agent": "start", "socket": "/p"}, "leave one of them away"),
            ("kv_producer", {"advertise": "eth0"}, "advertise belong to an agent that the engine"),
            ("kv_producer", {"libfabric": "/usr/lib"}, "libfabric belong to an agent that"),
            ("kv_producer", {"agent": "start", "libfabric": "lib"}, "the root on, as /opt/"),
            ("kv_producer", {"agent": "start", "agent_options": []}, "{OPTION: VALUE}"),
            ("kv_producer", {"agent": "start", "agent_options": {"--rail": "x"}}, "'--rail'"),
            ("kv_producer", {"agent": "start", "agent_options": {"lifeline": "x"}}, "itself"),
            ("kv_producer", {"agent": "start", "agent_options": {"rail": None}}, "as None"),
            ("kv_producer", {"agent": "start", "agent_options": {"rail": [{}]}}, "as [{}]"),
            ("kv_producer", {"tls_ca": "/a"}, "tls_ca belong to an agent that the engine"),
            ("kv_producer", {"agent": "start", "tls_ca": "/a"}, "has tls_ca, but needs all of"),
            ("kv_producer", TLS | {"tls_key": "k"}, "tls_key must be a path from the root"),
            ("kv_both", TLS, 'tls_certificate must be {"source": PATH, "target": PATH}'),
            ("kv_producer", {"agent_wait_s": -1}, "agent_wait_s must be 0 or more"),
            ("kv_both", {"socket": "/p"}, '{"source": PATH, "target": PATH}'),
            ("kv_both", {"socket": {"source": "/p"}}, '{"source": PATH'),
            ("kv_producer", {"socket": 5}, "not 5"),
            ("producer", {"socket": "/p"}, "kv_role"),
            ("kv_producer", {"socket": "/p", "sockets": 1}, "has sockets; kvrail knows"),
            ("kv_producer", {"socket": "/p", "hold_s": 0}, "hold_s must be"),
            ("kv_producer", {"socket": "/p", "hold_s": True}, "hold_s must be"),
            ("kv_producer", {"socket": "/p", "lease_s": float("nan")}, "lease_s must be"),
            ("kv_producer", {"socket": "/p", "park_s": "1"}, "park_s must be"),
            ("kv_producer", {"socket": "/p", "name": "x" * 64}, "name must be"),
        ):
            with self.subTest(words), self.assertRaises(SettingsError) as caught:
                settings_of(role, extra)
            self.assertIn(words, str(caught.exception))


if __name__ == "__main__":
    support.main(__file__)
