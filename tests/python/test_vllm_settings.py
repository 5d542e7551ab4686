"""Goal: every option of kv_connector_extra_config is read, and a wrong one ends in a sentence."""

from __future__ import annotations

import unittest

import support
from kvrail.vllm.settings import SettingsError, settings_of


class Options(unittest.TestCase):
    def test_sockets_of_each_role(self) -> None:
        for role, socket, wanted in (
            ("kv_producer", "/p", {"source": "/p"}),
            ("kv_consumer", "/d", {"target": "/d"}),
            ("kv_both", {"source": "/p", "target": "/d"}, {"source": "/p", "target": "/d"}),
            ("kv_producer", {"source": "/p", "target": "/d"}, {"source": "/p"}),
        ):
            self.assertEqual(settings_of(role, {"socket": socket}).sockets, wanted)

    def test_the_scheduler_needs_no_socket(self) -> None:
        settings = settings_of("kv_both", {"kv_recompute_threshold": 64}, sockets=False)
        self.assertEqual((settings.sockets, settings.threshold), ({}, 64))

    def test_values(self) -> None:
        settings = settings_of(
            "kv_producer",
            {"socket": "/p", "hold_s": 60, "lease_s": 1.5, "park_s": 0, "name": "a", "model": "m"},
        )
        limits = settings.limits
        self.assertEqual((limits.hold, limits.lease_ms, limits.park), (60.0, 1500, 0.0))
        self.assertEqual((settings.name, settings.model), ("a", "m"))
        self.assertEqual(settings_of("kv_producer", {"socket": "/p"}).limits.hold, 480)

    def test_mistakes_are_named(self) -> None:
        for role, extra, words in (
            ("kv_producer", {}, "socket must be a path"),
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
