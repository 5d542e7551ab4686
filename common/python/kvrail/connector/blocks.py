"""Pages of one request: which of them a failure leaves to be computed again."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

__all__ = ["Group", "missing_pages", "whole_tokens"]


@dataclass(frozen=True, slots=True)
class Group:
    """The page table of one KV group. pages[i] holds tokens [i * page_tokens, (i + 1) *
    page_tokens)."""

    pages: tuple[int, ...]
    page_tokens: int  # 0: a state, which has one page for the whole request
    skip: int | None = None  # tokens that this group does not need; None: as the fetch

    def __post_init__(self) -> None:
        if self.page_tokens < 0 or (self.page_tokens == 0 and len(self.pages) > 1):
            raise ValueError(f"a state has one page: {self}")


def whole_tokens(groups: tuple[Group, ...], tokens: int, floor: int) -> int:
    """`tokens` cut to whole pages of every group, but not below `floor`, which was here before.
    With a state it is `floor`: a state is right only at the end of all tokens."""
    if any(group.page_tokens == 0 for group in groups):
        return floor
    step = lcm(*(group.page_tokens for group in groups)) if groups else 1
    return max(floor, tokens // step * step)


def missing_pages(groups: tuple[Group, ...], first: int, end: int) -> tuple[tuple[int, ...], ...]:
    """For each group the page ids of tokens [first, end), without those before the group's own
    skip."""
    missing = []
    for group in groups:
        if group.page_tokens == 0:
            missing.append(group.pages if first < end else ())
            continue
        begin = max(first, group.skip or 0) // group.page_tokens
        missing.append(group.pages[begin : -(-end // group.page_tokens)] if first < end else ())
    return tuple(missing)
