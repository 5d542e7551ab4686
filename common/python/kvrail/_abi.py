"""kvrail.h for ctypes: its constants, statuses, event kinds and structs. The test python.abi compares
each of them with the header. Structs and fields have the header's names."""

from __future__ import annotations

import ctypes
import enum
from ctypes import c_char, c_char_p, c_int, c_int32, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any

WORDS_MAX = 512
GROUPS_MAX = 32
PARTS_MAX = 6
SOURCES_MAX = 64
TAIL_BYTES_MAX = 65536 - 1024
REQUEST_BYTES = 128
NAME_BYTES = 64
SECRET_BYTES = 65
HANDLES_MAX = 8192
PAGES_PER_CALL_MAX = 1 << 20
DETAIL_BYTES = 240
ALLOCATIONS_MAX = 16384
LANDED_FAILED = 1 << 20


class _Open(enum.IntEnum):
    """An enumeration to which later libraries add values: one that is not known has a name too."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_ = f"UNKNOWN_{value}".replace("-", "MINUS_")
        member._value_ = value
        return member


class Status(_Open):
    """0 is success, positive is back-pressure, negative is a failure."""

    OK = 0
    AGAIN = 1
    INVALID = -1
    NO_MEMORY = -2
    NOT_FOUND = -3
    EXISTS = -4
    TOO_LARGE = -5
    UNSUPPORTED = -6
    SYSTEM = -7
    TIMED_OUT = -8
    MALFORMED = -9
    VERSION_MISMATCH = -10
    STALE = -11
    CANCELLED = -20
    EXPIRED = -21
    NO_SOURCE = -22
    INCOMPATIBLE = -23
    PLAN_MISMATCH = -24
    DIGEST_MISMATCH = -25
    ABORTED = -26
    FULL = -27
    REVOKED = -28
    UNKNOWN_TRANSFER = -30
    DRAINING = -32
    COPY_FAILED = -33
    RAIL_FAILED = -40
    EPOCH_ENDED = -41
    NO_RAIL = -42
    PEER_LOST = -50
    PEER_RESTARTED = -51
    REFUSED = -52
    NOT_AUTHORIZED = -53
    ENGINE_LOST = -60
    AGENT_LOST = -61
    INTERNAL = -99


class EventKind(_Open):
    """Ignore kinds that you do not know: a later version may add some."""

    REFUSED = 2
    REGION_READY = 3
    REGION_GONE = 4
    ACCEPTED = 5
    LAYER_IN = 6
    TAIL_IN = 7
    DONE = 8
    FAILING = 9
    FAILED = 10
    CANCELLED = 11
    EXPIRED = 12
    SOURCE_FREE = 13
    WHY = 14
    AGENT_LOST = 15
    LEASE_LOW = 17
    LEASE_END = 18
    PEER_DOWN = 19
    PEER_UP = 20
    RAIL_DOWN = 21
    RAIL_UP = 22
    TARGET_REFUSED = 23
    PEER_WARM = 24
    AGENT_SILENT = 27
    AGENT_BACK = 28


class MemoryKind(enum.IntEnum):
    """Where the bytes of a region are, and by which handle the agent opens them."""

    MEMFD = 0
    DMABUF = 1
    CUDA_IPC = 2
    CUDA_VMM = 3


class Part(enum.IntEnum):
    """A part of a layer's pages."""

    K = 1
    V = 2
    KV = 3
    MLA = 4
    STATE = 5


class Store(enum.IntEnum):
    """How a stream raises a word or waits for one."""

    GPU = 1
    HOST = 2


class Digest(enum.IntEnum):
    """Which writes both agents hash before a fetch is done."""

    DEFAULT = 0
    SAMPLE = 1
    FULL = 2


class kvrail_error(ctypes.Structure):
    _fields_ = [
        ("status", c_int),
        ("os_errno", c_int),
        ("detail", c_char * DETAIL_BYTES),
        ("reserved", c_uint64 * 4),
    ]


class kvrail_identity(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("layers_total", c_uint32),
        ("kv_heads_total", c_uint32),
        ("head_dim", c_uint32),
        ("tp", c_uint32),
        ("tp_size", c_uint32),
        ("pp", c_uint32),
        ("pp_size", c_uint32),
        ("model", c_char_p),
        ("dtype", c_char_p),
        ("name", c_char_p),
        ("engine", c_uint8 * 16),
        ("generation", c_uint64),
    ]


class kvrail_memory(ctypes.Structure):
    _fields_ = [
        ("fd", c_int),
        ("address", c_void_p),
        ("bytes", c_uint64),
        ("reserved", c_uint64 * 4),
    ]


class kvrail_device_memory(ctypes.Structure):
    _fields_ = [
        ("address", c_uint64),
        ("bytes", c_uint64),
        ("device", c_int32),
        ("pad", c_uint32),
        ("reserved", c_uint64 * 4),
    ]


class kvrail_allocation(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("fd", c_int), ("bytes", c_uint64)]


class kvrail_region(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("memory", c_int),
        ("name", c_char_p),
        ("fd", c_int),
        ("device", c_int32),
        ("fd_offset", c_uint64),
        ("ipc", c_uint8 * 64),
        ("allocation_count", c_uint32),
        ("allocations", ctypes.POINTER(kvrail_allocation)),
        ("address", c_uint64),
        ("group", c_uint32),
        ("layer_first", c_uint32),
        ("layer_count", c_uint32),
        ("part_count", c_uint32),
        ("parts", c_uint8 * PARTS_MAX),
        ("replicated", c_int),
        ("head_first", c_uint32),
        ("head_count", c_uint32),
        ("page_tokens", c_uint32),
        ("page_count", c_uint32),
        ("bytes", c_uint64),
        ("base", c_uint64),
        ("layer_stride", c_uint64),
        ("part_stride", c_uint64),
        ("page_stride", c_uint64),
        ("token_stride", c_uint64),
        ("head_stride", c_uint64),
        ("head_bytes", c_uint64),
        ("memory_of", c_uint64),
    ]


class kvrail_source_options(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("attempt", c_uint32),
        ("request", c_char_p),
        ("tokens", c_uint64),
        ("consumers", c_uint32),
        ("lease_ms", c_uint32),
        ("priority", c_int32),
        ("reserved", c_uint32),
        ("secret", c_char_p),
        ("tenant", c_char_p),
    ]


class kvrail_source_address(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("tp", c_uint32),
        ("pp", c_uint32),
        ("agent", c_char_p),
        ("engine", c_uint8 * 16),
        ("generation", c_uint64),
    ]


class kvrail_target_options(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("attempt", c_uint32),
        ("digest", c_int),
        ("request", c_char_p),
        ("tokens", c_uint64),
        ("skip_tokens", c_uint64),
        ("deadline_ms", c_uint32),
        ("priority", c_int32),
        ("reserved", c_uint32),
        ("source_count", c_uint32),
        ("sources", ctypes.POINTER(kvrail_source_address)),
        ("secret", c_char_p),
        ("tenant", c_char_p),
    ]


class kvrail_event(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("kind", c_int),
        ("terminal", c_int),
        ("status", c_int),
        ("handle", c_uint64),
        ("status_name", c_char_p),
        ("layer_first", c_uint32),
        ("layer_count", c_uint32),
        ("token_first", c_uint64),
        ("token_end", c_uint64),
        ("bytes", c_uint64),
        ("writes", c_uint32),
        ("retries", c_uint32),
        ("payload", c_void_p),
        ("payload_bytes", c_uint32),
        ("name", c_char * NAME_BYTES),
        ("time_ns", c_uint64),
        ("detail", c_char * DETAIL_BYTES),
    ]


STRUCTS: dict[str, type[ctypes.Structure]] = {
    struct.__name__: struct
    for struct in (
        kvrail_error,
        kvrail_identity,
        kvrail_memory,
        kvrail_device_memory,
        kvrail_allocation,
        kvrail_region,
        kvrail_source_options,
        kvrail_source_address,
        kvrail_target_options,
        kvrail_event,
    )
}

# A connection is an opaque pointer; so are pointers to plain bytes and ids.
_CONNECTION = c_void_p
_u32_out = ctypes.POINTER(c_uint32)
_u64_out = ctypes.POINTER(c_uint64)
_error_out = ctypes.POINTER(kvrail_error)

# Of each function: the result, then the parameters.
PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "kvrail_status_name": (c_char_p, c_int),
    "kvrail_status_text": (c_char_p, c_int),
    "kvrail_last_error": (_error_out, _CONNECTION),
    "kvrail_version": (c_char_p,),
    "kvrail_open": (
        c_int,
        c_char_p,
        ctypes.POINTER(kvrail_identity),
        c_uint32,
        ctypes.POINTER(_CONNECTION),
        _error_out,
    ),
    "kvrail_close": (None, _CONNECTION),
    "kvrail_agent_name": (c_char_p, _CONNECTION),
    "kvrail_agent_address": (c_char_p, _CONNECTION),
    "kvrail_memory_create": (c_int, c_char_p, c_uint64, ctypes.POINTER(kvrail_memory), _error_out),
    "kvrail_memory_destroy": (None, ctypes.POINTER(kvrail_memory)),
    "kvrail_device_memory_create": (
        c_int,
        c_int32,
        c_uint64,
        ctypes.POINTER(kvrail_device_memory),
        _error_out,
    ),
    "kvrail_device_memory_destroy": (None, ctypes.POINTER(kvrail_device_memory)),
    "kvrail_region_dense": (None, ctypes.POINTER(kvrail_region)),
    "kvrail_region_of_device": (c_int, ctypes.POINTER(kvrail_region), c_uint64, _error_out),
    "kvrail_region_dmabuf_of_device": (c_int, ctypes.POINTER(kvrail_region), c_uint64, _error_out),
    "kvrail_region_add": (c_int, _CONNECTION, ctypes.POINTER(kvrail_region), c_uint32, _u32_out),
    "kvrail_region_drop": (c_int, _CONNECTION, c_uint32),
    "kvrail_secret_draw": (None, c_char_p),
    "kvrail_source_open": (c_int, _CONNECTION, ctypes.POINTER(kvrail_source_options), _u64_out),
    "kvrail_source_secret": (c_int, _CONNECTION, c_uint64, c_char_p),
    "kvrail_source_pages": (c_int, _CONNECTION, c_uint64, c_uint32, c_void_p, ctypes.c_size_t),
    "kvrail_source_watch": (
        c_int,
        _CONNECTION,
        c_uint64,
        c_uint32,
        c_uint64,
        c_uint64,
        c_uint64,
    ),
    "kvrail_ready": (c_int, _CONNECTION, c_uint32, c_uint64),
    "kvrail_words_on_device": (c_int, _CONNECTION, _u64_out),
    "kvrail_ready_on_stream": (
        c_int,
        _CONNECTION,
        c_uint32,
        c_uint64,
        c_void_p,
        ctypes.POINTER(c_int),
    ),
    "kvrail_source_tail": (c_int, _CONNECTION, c_uint64, c_char_p, ctypes.c_size_t),
    "kvrail_source_end": (c_int, _CONNECTION, c_uint64, c_int),
    "kvrail_target_open": (c_int, _CONNECTION, ctypes.POINTER(kvrail_target_options), _u64_out),
    "kvrail_target_skip": (c_int, _CONNECTION, c_uint64, c_uint32, c_uint64),
    "kvrail_target_hold": (c_int, _CONNECTION, c_uint64),
    "kvrail_target_pages": (c_int, _CONNECTION, c_uint64, c_uint32, c_void_p, ctypes.c_size_t),
    "kvrail_target_watch": (c_int, _CONNECTION, c_uint64, c_uint32, c_uint64),
    "kvrail_landed": (c_uint64, _CONNECTION, c_uint32),
    "kvrail_landed_on_device": (c_int, _CONNECTION, _u64_out),
    "kvrail_landed_on_stream": (
        c_int,
        _CONNECTION,
        c_uint32,
        c_uint64,
        c_void_p,
        ctypes.POINTER(c_int),
    ),
    "kvrail_cancel": (c_int, _CONNECTION, c_uint64, c_int),
    "kvrail_renew": (c_int, _CONNECTION, c_uint64, c_uint32),
    "kvrail_why": (c_int, _CONNECTION, c_uint64),
    "kvrail_event_name": (c_char_p, c_int),
    "kvrail_event_fd": (c_int, _CONNECTION),
    "kvrail_poll_sized": (
        c_int,
        _CONNECTION,
        ctypes.POINTER(kvrail_event),
        c_int,
        ctypes.c_size_t,
    ),
}
