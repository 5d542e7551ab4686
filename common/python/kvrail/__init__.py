"""kvrail for an inference engine in Python: libkvrail by ctypes, without other dependencies.

common/docs/engines.md explains its use, kvrail.h each call. The library is looked for beside the
package, then under the environment's KVRAIL_LIBRARY, then in the system's library path; it is loaded
with the first call. A connection belongs to the process that opened it: after fork, open another.
"""

from __future__ import annotations

from . import aio
from ._abi import (
    ALLOCATIONS_MAX,
    DETAIL_BYTES,
    GROUPS_MAX,
    HANDLES_MAX,
    LANDED_FAILED,
    NAME_BYTES,
    PAGES_PER_CALL_MAX,
    PARTS_MAX,
    REQUEST_BYTES,
    SECRET_BYTES,
    SOURCES_MAX,
    TAIL_BYTES_MAX,
    WORDS_MAX,
    Digest,
    EventKind,
    MemoryKind,
    Part,
    Status,
    Store,
)
from ._library import LibraryError, event_name, status_name, status_text, version
from .connection import Connection, secret_draw
from .errors import (
    Again,
    AgentLost,
    Closed,
    Full,
    Invalid,
    KvrailError,
    NotFound,
    RegionPending,
    TimedOut,
    Unsupported,
    UsedAfterFork,
)
from .memory import DeviceMemory, Memory
from .values import Allocation, Event, Identity, PageIds, Region, SourceAddress

__all__ = [
    "ALLOCATIONS_MAX",
    "Again",
    "AgentLost",
    "Allocation",
    "Closed",
    "Connection",
    "DETAIL_BYTES",
    "DeviceMemory",
    "Digest",
    "Event",
    "EventKind",
    "Full",
    "GROUPS_MAX",
    "HANDLES_MAX",
    "Identity",
    "Invalid",
    "KvrailError",
    "LANDED_FAILED",
    "LibraryError",
    "Memory",
    "MemoryKind",
    "NAME_BYTES",
    "NotFound",
    "PAGES_PER_CALL_MAX",
    "PARTS_MAX",
    "PageIds",
    "Part",
    "REQUEST_BYTES",
    "Region",
    "RegionPending",
    "SECRET_BYTES",
    "SOURCES_MAX",
    "SourceAddress",
    "Status",
    "Store",
    "TAIL_BYTES_MAX",
    "TimedOut",
    "Unsupported",
    "UsedAfterFork",
    "WORDS_MAX",
    "aio",
    "event_name",
    "secret_draw",
    "status_name",
    "status_text",
    "version",
]
