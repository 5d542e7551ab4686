"""A connection of kvrail whose transfers are counted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import kvrail
from .figures import Meter

__all__ = ["MeteredConnection"]


class MeteredConnection(kvrail.Connection):
    """`meter` is set by the one who opens it, before the first transfer."""

    meter: Meter

    def __init__(self, socket_path: str, identity: kvrail.Identity, timeout: float = 10.0) -> None:
        super().__init__(socket_path, identity, timeout)
        self._states: set[int] = set()  # groups whose pages hold a state: they skip no tokens

    def region_add(self, region: kvrail.Region, timeout: float = 60.0) -> int:
        if region.page_tokens == 0:
            self._states.add(region.group)
        return super().region_add(region, timeout)

    def source_open(self, request: str, tokens: int, **options: Any) -> int:
        handle = super().source_open(request, tokens, **options)
        self.meter.opened(handle, tokens, time.monotonic())
        return handle

    def target_open(
        self, request: str, tokens: int, sources: Sequence[kvrail.SourceAddress], **options: Any
    ) -> int:
        handle = super().target_open(request, tokens, sources, **options)
        self.meter.opened(handle, tokens, time.monotonic(), options.get("skip_tokens", 0))
        return handle

    def target_skip(self, target: int, group: int, skip_tokens: int) -> None:
        super().target_skip(target, group, skip_tokens)
        self.meter.skips(target, group, skip_tokens)

    def target_pages(self, target: int, group: int, ids: kvrail.PageIds) -> None:
        super().target_pages(target, group, ids)
        self.meter.begins(target, time.monotonic())
        if group not in self._states:
            self.meter.gets(target, group)

    def poll(self) -> list[kvrail.Event]:
        events = super().poll()
        for event in events:
            if event.terminal:
                now = time.monotonic()
                self.meter.ended(event.handle, event.status_name, event.bytes, now)
        return events
