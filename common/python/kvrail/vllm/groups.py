"""KV groups of one engine, from vLLM's specifications; and block ids as page tables.

vLLM is not imported. A specification is known by its attributes and the names of its classes, as
0.28 and later have them. A MambaSpec is a state. One with `sliding_window` or
`attention_chunk_size` is a window, and any other is full attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..connector.blocks import Group

NULL_BLOCK = 0  # stands where vLLM keeps no block

__all__ = ["GroupSpec", "Groups", "groups_of"]


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """One KV group that is transferred."""

    index: int  # in vLLM's list of groups
    block_tokens: int
    window: int = 0  # tokens; 0: full attention
    state: bool = False
    scratch: int = 0  # trailing blocks of a state that only hold drafts


def _classes(spec: Any) -> set[str]:
    return {cls.__name__ for cls in type(spec).__mro__}


def _spec_of(index: int, spec: Any) -> GroupSpec:
    if "MambaSpec" in _classes(spec):
        return GroupSpec(
            index, spec.block_size, state=True, scratch=getattr(spec, "num_speculative_blocks", 0)
        )
    window = (
        getattr(spec, "sliding_window", None) or getattr(spec, "attention_chunk_size", None) or 0
    )
    return GroupSpec(index, spec.block_size, window=int(window))


@dataclass(frozen=True, slots=True)
class Groups:
    specs: tuple[GroupSpec, ...]

    @property
    def hybrid(self) -> bool:
        return len(self.specs) > 1

    @property
    def has_state(self) -> bool:
        return any(spec.state for spec in self.specs)

    @property
    def has_window(self) -> bool:
        return any(spec.window for spec in self.specs)

    @property
    def complete_divergent_hits(self) -> bool:
        """Whether a fetch that skips the tokens which full attention has here gives every group
        all that it lacks. A state comes as a whole, but a window loses what it lacks before them."""
        return not self.has_window

    def select(self, block_ids: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
        """The lists of the groups that are transferred."""
        return tuple(tuple(block_ids[spec.index]) for spec in self.specs)

    def tables(
        self, block_ids: Sequence[Sequence[int]], tokens: int, skip: int
    ) -> tuple[Group, ...]:
        """The page tables of a fetch of [skip, tokens). A window group needs only the pages that
        the next token can see; vLLM has a null block in each place before it."""
        return tuple(self._table(spec, block_ids[spec.index], tokens, skip) for spec in self.specs)

    def held(self, block_ids: Sequence[Sequence[int]], tokens: int) -> tuple[int, ...]:
        """For each group the first token of which a source has the KV."""
        return tuple(self._held(spec, block_ids[spec.index], tokens) for spec in self.specs)

    def reach(self, held: Sequence[int], tokens: int, skip: int) -> bool:
        """Whether a source that has held these can fill every page of a fetch of [skip, tokens).
        Where its blocks are smaller it may have freed the beginning of a page that is needed."""
        return all(
            first <= self._first(spec, tokens, skip)
            for spec, first in zip(self.specs, held, strict=False)
            if spec.window
        )

    def published(
        self, block_ids: Sequence[Sequence[int]], tokens: int
    ) -> tuple[tuple[int, ...], ...]:
        """The page ids that a source publishes, from token 0 on. Of tokens before a window any id
        will do. Raises ValueError where a block that a target needs is gone: the prefill has gone
        on after the prompt, and its window with it."""
        tables = self.tables(block_ids, tokens, 0)
        for spec, table in zip(self.specs, tables, strict=True):
            first = (table.skip or 0) // spec.block_tokens
            if NULL_BLOCK in (table.pages if spec.state else table.pages[first:]):
                raise ValueError(f"group {spec.index} has freed blocks of its last {tokens} tokens")
        return tuple(table.pages for table in tables)

    def _table(self, spec: GroupSpec, ids: Sequence[int], tokens: int, skip: int) -> Group:
        if spec.state:
            live = len(ids) - spec.scratch
            if live < 1:
                raise ValueError(
                    f"group {spec.index}: {len(ids)} blocks, {spec.scratch} of them for drafts"
                )
            return Group((ids[live - 1],), 0)
        count = -(-tokens // spec.block_tokens)
        if len(ids) < count:
            raise ValueError(
                f"group {spec.index}: {len(ids)} blocks of {spec.block_tokens} for {tokens} tokens"
            )
        own_skip = self._first(spec, tokens, skip) if spec.window else None
        return Group(tuple(ids[:count]), spec.block_tokens, own_skip)

    def _first(self, spec: GroupSpec, tokens: int, skip: int) -> int:
        """Of a window: the first token of the pages that the token after `tokens` sees, or that
        follow the prefix that is here already."""
        seen_from = max(0, tokens - spec.window + 1, skip)
        return seen_from // spec.block_tokens * spec.block_tokens

    def _held(self, spec: GroupSpec, ids: Sequence[int], tokens: int) -> int:
        if not spec.window:
            return 0
        used = ids[: -(-tokens // spec.block_tokens)]
        gone = max((at + 1 for at, block in enumerate(used) if block == NULL_BLOCK), default=0)
        return gone * spec.block_tokens


def groups_of(kv_cache_config: Any) -> Groups:
    """The groups that vLLM lets connectors transfer: all of them before 0.32."""
    groups = kv_cache_config.kv_cache_groups
    chosen = getattr(kv_cache_config, "transfer_group_ids", range(len(groups)))
    return Groups(tuple(_spec_of(index, groups[index].kv_cache_spec) for index in chosen))
