"""Goal: engines of vLLM act for tenants. A fetch of one tenant meets no publish of another, though its engine
has the whole hand-off; an engine acts for no tenant that its agent does not let it act for; and the tenant
comes from the extra config, or from a request. Each refusal has its sentence in vLLM's log, and the request is
computed. Method: vllm_pair.py, with agents of the tenants red, blue and green (run.sh --tenants), and the
scheduler's metrics. Skipped without vLLM and without agents."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Any

import scheduler
import support
from test_vllm_pair import Case
from vllm_engine import vllm

if vllm is not None and "SOURCE_SOCKET" in os.environ:
    from vllm_pair import PATIENCE, REMOTE_DECODE

Test = Callable[[Any], None]
LENGTH = 100
MAY_NOT = (
    "the engine may not act for the tenant 'green': this agent's --tenant lets it act for red, blue"
)
NEVER = "did not come (expired)"  # as of a request that nobody publishes
LOAD_S = 5  # a fetch that meets nothing ends


def counter(name: str, agent: str, tenant: str = "") -> int:
    labels = f'{{agent="{agent}"' + (f',tenant="{tenant}"' if tenant else "") + "}"
    text = scheduler.ask(os.environ["SCHEDULER"], "/metrics", 10).read().decode()
    found = re.search(rf"^kvrail_{name}{re.escape(labels)} (\d+)$", text, re.M)
    return int(found[1]) if found else 0


def tenants(source: str, target: str) -> Callable[[Test], Test]:
    """Of the engines of a test, in their extra configs; "": none."""

    def noted(test: Test) -> Test:
        own = [{"tenant": name} if name else {} for name in (source, target)]
        test.sides = {"extra": own[0]}, {"extra": {**own[1], "load_s": LOAD_S}}
        return test

    return noted


class Tenants(Case):
    def sides(self) -> tuple[dict, dict]:
        return getattr(getattr(self, self._testMethodName), "sides", ({}, {}))

    def prefilled(self, name: str, tokens: list[int], **ours: str) -> dict:
        """What the router gets. `ours`: it names them in the request."""
        params = {**REMOTE_DECODE, "kvrail": ours} if ours else dict(REMOTE_DECODE)
        self.prefill.add(name, list(tokens), params, 1)
        self.prefill.until(lambda: name in self.prefill.ended, "the prefill's end")
        return self.prefill.ended[name].kv_transfer_params

    def loaded(self, name: str, tokens: list[int], params: dict) -> None:
        before = self.decode.computed_tokens
        self.decode.add(name, list(tokens), params)
        self.answered(name)
        self.assertLessEqual(self.decode.computed_tokens - before, 4, self.warnings.texts)

    def computed(self, name: str, tokens: list[int], params: dict | None) -> None:
        before = self.decode.computed_tokens
        self.decode.add(name, list(tokens), params)
        self.answered(name)
        self.assertGreaterEqual(self.decode.computed_tokens - before, len(tokens))

    def warned(self, *parts: str) -> None:
        self.pair.until(lambda: self.warnings.texts, "a warning")
        self.assertEqual(len(self.warnings.texts), 1, self.warnings.texts)
        text = self.warnings.texts[0]
        for part in parts:
            self.assertIn(part, text)

    def rises(self, before: int, name: str, agent: str, tenant: str = "") -> None:
        end = time.monotonic() + PATIENCE
        while counter(name, agent, tenant) <= before:
            self.assertLess(time.monotonic(), end, f"{name} of {agent} does not rise")
            time.sleep(0.1)

    @tenants("blue", "blue")
    def test_of_the_extra_config(self) -> None:
        before = counter("tenant_posted_bytes_total", "prefill-0", "blue")
        tokens = self.prompt(LENGTH)
        params = self.prefilled("p", tokens)
        self.assertEqual(params["kvrail"]["tenant"], "blue")
        self.loaded("d", tokens, params)
        self.rises(before, "tenant_posted_bytes_total", "prefill-0", "blue")
        self.assertEqual(self.warnings.texts, [])

    def test_without_a_name_it_is_the_first(self) -> None:
        before = counter("tenant_posted_bytes_total", "prefill-0", "red")
        tokens = self.prompt(LENGTH)
        params = self.prefilled("p", tokens)
        self.assertNotIn("tenant", params["kvrail"])
        self.loaded("d", tokens, params)
        self.rises(before, "tenant_posted_bytes_total", "prefill-0", "red")

    @tenants("red", "red")
    def test_of_a_request(self) -> None:
        """Before that of the extra config, at either engine."""
        before = counter("tenant_posted_bytes_total", "prefill-0", "blue")
        tokens = self.prompt(LENGTH)
        params = self.prefilled("p", tokens, tenant="blue")
        self.assertEqual(params["kvrail"]["tenant"], "blue")
        self.loaded("d", tokens, params)
        self.rises(before, "tenant_posted_bytes_total", "prefill-0", "blue")
        self.assertEqual(self.warnings.texts, [])

    @tenants("red", "blue")
    def test_a_fetch_meets_no_publish_of_another_tenant(self) -> None:
        """Though it has the secret. Its own tenant's fetch gets the pages afterwards."""
        before = counter("wants_of_other_tenants_total", "prefill-0")
        tokens = self.prompt(LENGTH)
        params = self.prefilled("p", tokens)
        self.assertEqual(params["kvrail"]["tenant"], "red")
        stolen = {**params, "kvrail": {**params["kvrail"], "tenant": "blue"}}
        self.computed("thief", self.prompt(LENGTH), stolen)
        self.warned(f"the KV of request thief {NEVER}")
        self.assertNotRegex(self.warnings.texts[0], r"\bred\b")
        self.rises(before, "wants_of_other_tenants_total", "prefill-0")
        self.loaded("owner", tokens, params)

    @tenants("", "blue")
    def test_the_fetch_of_an_engine_with_another_tenant(self) -> None:
        """The prefill engine names none, so its hand-off does not: each side takes its own."""
        tokens = self.prompt(LENGTH)
        params = self.prefilled("p", tokens)
        self.assertNotIn("tenant", params["kvrail"])
        self.computed("d", self.prompt(LENGTH), params)
        self.warned(f"the KV of request d {NEVER}")
        self.loaded("e", tokens, {**params, "kvrail": {**params["kvrail"], "tenant": "red"}})

    def test_nothing_is_published_for_a_tenant_that_is_not_the_engines(self) -> None:
        before = counter("tenants_refused_total", "prefill-0")
        tokens = self.prompt(LENGTH)
        params = self.prefilled("p", tokens, tenant="green")
        self.warned("the publish of request p ended as not_authorized", MAY_NOT)
        self.rises(before, "tenants_refused_total", "prefill-0")
        self.warnings.texts.clear()
        self.computed("d", tokens, params)
        self.warned("the KV of request d did not come (not_authorized)", MAY_NOT)

    @tenants("red", "green")
    def test_nothing_is_fetched_for_a_tenant_that_is_not_the_engines(self) -> None:
        before = counter("tenants_refused_total", "decode-0")
        tokens = self.prompt(LENGTH)
        params = self.prefilled("p", tokens)
        ours = {key: value for key, value in params["kvrail"].items() if key != "tenant"}
        self.computed("d", self.prompt(LENGTH), {**params, "kvrail": ours})
        self.warned("the KV of request d did not come (not_authorized)", MAY_NOT)
        self.rises(before, "tenants_refused_total", "decode-0")
        self.loaded("e", tokens, params)

    def test_two_tenants_side_by_side(self) -> None:
        """Requests of both, over one pair of agents and engines: all load, each its own."""
        before = {t: counter("tenant_posted_bytes_total", "prefill-0", t) for t in ("red", "blue")}
        for number in range(8):
            tenant = ("red", "blue")[number % 2]
            tokens = self.prompt(LENGTH)
            self.decode.add(f"d{number}", tokens, self.prefilled(f"p{number}", tokens, tenant=tenant))
        self.answered(*(f"d{number}" for number in range(8)))
        self.assertLessEqual(self.decode.computed_tokens, 8 * 4, self.warnings.texts)
        for tenant, bytes_then in before.items():
            self.rises(bytes_then, "tenant_posted_bytes_total", "prefill-0", tenant)


if __name__ == "__main__":
    support.main(__file__)
