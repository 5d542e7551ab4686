"""The scheduler's side of vLLM's connector: KVConnectorBase_V1's calls become events of
connector/prefill.py and connector/decode.py, and their commands travel to the workers with the next
step's metadata.

    vLLM's call                             here
    on_new_request                          arrived
    get_num_new_matched_tokens              tokens_to_load
    update_state_after_alloc                allocated
    request_finished(_all_groups)           finished
    update_connector_output                 reported
    build_connector_meta                    scheduled, then take_commands
    set_xfer_handshake_metadata_pp_aware    set_sources

vLLM is not imported: a request is known by the attributes that 0.28 and later have. A call without
a transfer costs a look into a dict.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..connector import decode, prefill
from ..connector.handoff import (
    HandOff,
    HandOffError,
    SourceAddress,
    build,
    parse,
    request_id,
    secret_of,
    tenant_of,
)
from ..connector.machine import Impossible
from ..connector.target import Offer
from .groups import Groups
from .growing import Growing, growth

__all__ = ["Scheduler"]

ATTEMPTS = 1 << 32
COMPLETE = frozenset({"FINISHED_LENGTH_CAPPED", "FINISHED_STOPPED"})  # of vLLM's RequestStatus

Command = prefill.Action | decode.Queue | decode.Fetch | decode.Release


class Scheduler:
    """One for each engine. `warn` takes a sentence. `backoff` is the number of prompt tokens at the
    end that the decode engine always computes itself (1 with a recurrent state or a window), so
    that the prefill stops before them. `pages` says how bytes lie inside a page where regions do not
    tell: engines that differ in it exchange nothing. `final_after_step` says that a step's bytes are final when
    the workers take its results: prefills are then published with their last step."""

    def __init__(
        self,
        groups: Groups,
        engine_name: str,
        *,
        threshold: int = 0,
        backoff: int = 0,
        pages: str = "",
        tenant: str = "",
        final_after_step: bool = False,
        warn: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._groups, self._engine_name = groups, engine_name
        self._threshold, self._backoff, self._warn = threshold, backoff, warn
        self._pages, self._tenant = pages, tenant
        # vLLM takes blocks back from a window or a state while it computes.
        self._follows = final_after_step and not (groups.has_window or groups.has_state)
        self._growing: dict[str, Growing] = {}  # prefills whose last step is still to come
        self._attempts = itertools.count(1)
        self._sources: tuple[SourceAddress, ...] = ()
        self._prefills: dict[str, prefill.Prefill] = {}
        self._decodes: dict[str, decode.Decode] = {}
        self._computed: dict[str, int] = {}  # tokens of the local prefix, at the last look
        self._handoffs: dict[str, HandOff] = {}  # of requests in _decodes
        self._commands: list[Command] = []
        self._hold = True  # a fetch is opened before vLLM has named its tokens
        self._agents: dict[Any, tuple[bool, bool]] = {}  # of each rank: source, target
        self._source_up = self._target_up = True

    def __len__(self) -> int:
        return len(self._prefills) + len(self._decodes)

    # ---- what vLLM calls ------------------------------------------------------------------------

    def set_sources(self, sources: Iterable[SourceAddress]) -> None:
        """The addresses of all ranks of this engine: every hand-off names them."""
        self._sources = tuple(sources)

    def arrived(self, request: Any) -> None:
        params = request.kv_transfer_params
        if not params:
            return
        key = request.request_id
        if params.get("do_remote_decode") and key not in self._prefills:
            tenant = self._tenant_of(key, params)
            if tenant is None:
                return
            self._leave_the_end(request)
            attempt, secret = next(self._attempts) % ATTEMPTS, self._secret(key, params)
            self._prefills[key] = prefill.Prefill(
                key, request_id(key), attempt, secret, tenant=tenant
            )
            if self._follows and request.max_tokens == 1:
                self._growing[key] = Growing(request)
        elif params.get("do_remote_prefill") and key not in self._decodes:
            handoff = self._parse(key, params)
            if (
                handoff is not None
                and (tokens := min(handoff.tokens, self._wanted_tokens(request))) > 0
            ):
                tenant = handoff.tenant or self._tenant
                offer = Offer(handoff.attempt, handoff.sources, handoff.secret, tenant)
                self._decodes[key], commands = decode.decode(
                    key, handoff.request, offer, tokens, hold=self._hold
                )
                self._commands += commands
                self._handoffs[key] = handoff

    def tokens_to_load(self, request: Any, computed: int) -> tuple[int, bool]:
        """Without side effects that a second call would notice. vLLM computes the last token of a
        prompt in any case, so a local prefix of all the others needs nothing from outside."""
        record = self._decodes.get(request.request_id)
        if record is None or computed >= request.num_prompt_tokens - 1:
            return 0, False
        count = decode.tokens_to_load(
            record, computed, self._threshold, agent_is_up=self._target_up
        )
        if count and not self._is_of_use(request.request_id, computed + count, computed):
            return 0, False
        self._computed[request.request_id] = computed
        return count, count > 0

    def allocated(
        self, request: Any, block_ids: Sequence[Sequence[int]], external_tokens: int
    ) -> None:
        """vLLM may call once more after a load. Where it cuts the tokens that were promised, later
        fetches are opened when it has named them."""
        key = request.request_id
        record = self._decodes.get(key)
        if record is None:
            return
        if external_tokens == 0 or record.state is not decode.State.WAITING:
            self._decode(key, decode.Event(decode.On.COVERED))
            return
        skip = self._computed.pop(key, 0)
        tokens = skip + external_tokens
        if tokens < record.tokens:
            self._hold = False
        tables = self._groups.tables(block_ids, tokens, skip)
        self._decode(key, decode.Event(decode.On.ALLOCATED, tokens, skip, tables))

    def scheduled(self, output: Any) -> None:
        """vLLM's SchedulerOutput: prefills that the step completes are published after it."""
        if not self._growing:
            return
        for key, computed in growth(self._growing, output):
            tokens = self._growing[key].request.num_prompt_tokens
            if computed + output.num_scheduled_tokens[key] < tokens:
                continue
            pages = self._pages_to_publish(key, self._growing.pop(key).block_ids, tokens)
            if pages is not None:
                self._prefill(key, prefill.Event(prefill.On.ENDS, tokens, pages))

    def finished(
        self, request: Any, block_ids: Sequence[Sequence[int]]
    ) -> tuple[bool, dict[str, Any] | None]:
        """(blocks stay until every worker has sent, the dict for the router)."""
        key = request.request_id
        self._computed.pop(key, None)
        self._handoffs.pop(key, None)
        self._growing.pop(key, None)
        if key in self._decodes:
            self._decode(key, decode.Event(decode.On.FINISHED))
            return False, None
        record = self._prefills.get(key)
        if record is None:
            return False, None
        tokens = min(request.num_computed_tokens, request.num_prompt_tokens)
        complete = request.status.name in COMPLETE and tokens > 0 and any(block_ids)
        pages = self._pages_to_publish(key, block_ids, tokens) if complete else None
        if pages is None or record.published not in (None, (tokens, pages)):
            self._prefill(key, prefill.Event(prefill.On.DROPPED))
            return record.published is not None, None
        self._prefill(key, prefill.Event(prefill.On.FINISHED, tokens, pages))
        held = self._groups.held(block_ids, tokens)
        handoff = HandOff(
            record.request,
            record.attempt,
            tokens,
            self._sources,
            held,
            self._pages,
            record.secret,
            record.tenant,
        )
        return True, build(handoff, self._groups.select(block_ids), self._engine_name)

    def reported(
        self,
        sent: Iterable[str] | None,
        received: Iterable[str] | None,
        agents: Mapping[Any, tuple[bool, bool]] | None = None,
    ) -> None:
        """What all workers have ended, and which ranks have lost or found their agents."""
        for key in sent or ():
            if key in self._prefills:
                self._prefill(key, prefill.Event(prefill.On.SENT))
        for key in received or ():
            if key in self._decodes:
                self._decode(key, decode.Event(decode.On.ARRIVED))
        if agents:
            self._agents.update(agents)
            self._source_up = all(source for source, _ in self._agents.values())
            self._target_up = all(target for _, target in self._agents.values())

    def take_commands(self) -> tuple[Command, ...]:
        """The commands for every worker since the last call, in order."""
        if not self._commands:
            return ()
        commands, self._commands = tuple(self._commands), []
        return commands

    # ---- parts ----------------------------------------------------------------------------------

    def _secret(self, key: str, params: dict[str, Any]) -> str:
        """A router's that cannot be used is replaced: then its target gets nothing, as it should."""
        try:
            return secret_of(params)
        except HandOffError as error:
            self._warn(f"request {key} gets a secret of its own: {error}")
            return secret_of({})

    def _tenant_of(self, key: str, params: dict[str, Any]) -> str | None:
        """Nothing is published for a tenant whose name cannot be used: not for another either."""
        try:
            return tenant_of(params, self._tenant)
        except HandOffError as error:
            self._warn(f"request {key} is not handed off: {error}")
            return None

    def _parse(self, key: str, params: dict[str, Any]) -> HandOff | None:
        try:
            return parse(params)
        except HandOffError as error:
            self._warn(f"request {key} is computed here: {error}")
            return None

    def _is_of_use(self, key: str, tokens: int, skip: int) -> bool:
        """Whether the source's pages of [skip, tokens) can become this engine's."""
        handoff = self._handoffs[key]
        if handoff.pages != self._pages:
            self._warn(
                f"request {key} is computed here: its source's pages hold "
                f"{handoff.pages or 'what it did not say'}, and this engine's {self._pages}; give "
                "both engines the same block size, KV cache type and kind of processor"
            )
            return False
        held = handoff.held
        if self._groups.reach(held, tokens, skip):
            return True
        self._warn(
            f"request {key} is computed here: its source has freed blocks that [{skip}, {tokens}) "
            f"needs, and has the KV groups from tokens {list(held)} on; with a sliding window the "
            "prefill engine's blocks must not be smaller than the decode engine's"
        )
        return False

    def _wanted_tokens(self, request: Any) -> int:
        tokens: int = request.num_prompt_tokens
        return tokens - self._backoff if tokens > self._backoff else tokens

    def _leave_the_end(self, request: Any) -> None:
        """Takes the last tokens of a prompt away that the decode engine computes itself. The prompt
        is only as long as the prefill sees it; the answer of a prefill is not used."""
        count = self._backoff
        if not count or request.num_prompt_tokens <= count or request.prompt_token_ids is None:
            return
        del request.prompt_token_ids[-count:]
        del request._all_token_ids[-count:]
        request.num_prompt_tokens -= count
        request.max_tokens = 1

    def _pages_to_publish(
        self, key: str, block_ids: Sequence[Sequence[int]], tokens: int
    ) -> tuple[tuple[int, ...], ...] | None:
        if not self._sources:
            self._warn(f"request {key} is not published: no worker has named its agent")
        elif not self._source_up:
            self._warn(f"request {key} is not published: a worker has lost its agent")
        else:
            try:
                return self._groups.published(block_ids, tokens)
            except ValueError as error:
                self._warn(f"request {key} is not published: {error}")
        return None

    def _prefill(self, key: str, event: prefill.Event) -> None:
        try:
            record, commands = prefill.step(self._prefills[key], event, 0.0)
        except Impossible as error:
            self._warn(f"request {key}: {error}")
            return
        self._commands += commands
        if record.over:
            del self._prefills[key]
        else:
            self._prefills[key] = record

    def _decode(self, key: str, event: decode.Event) -> None:
        try:
            record, commands = decode.step(self._decodes[key], event, 0.0)
        except Impossible as error:
            self._warn(f"request {key}: {error}")
            return
        self._commands += commands
        if record.over:
            del self._decodes[key]
        else:
            self._decodes[key] = record
