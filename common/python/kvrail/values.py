"""What an engine says: its identity, its regions, the sources of a fetch; and what it hears: events.
kvrail.h explains each field."""

from __future__ import annotations

import builtins
import ctypes
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Union

from . import _abi
from ._abi import Digest, EventKind, MemoryKind, Part, Status
from ._library import library, text
from .errors import Invalid, check

# Page ids: an array("I") or another buffer of 32-bit unsigned numbers is the fastest.
PageIds = Union[Sequence[int], Iterable[int], memoryview, "array[int]"]


def encoded(value: str | None, name: str) -> bytes | None:
    """A name as the library takes it; it would end at the first NUL."""
    if value is not None and "\0" in value:
        raise Invalid(Status.INVALID, f"{name} has a NUL, and must be printable UTF-8")
    return value.encode("utf-8", "surrogatepass") if value is not None else None


def u32(value: int, name: str) -> int:
    """ctypes would cut it silently."""
    if not 0 <= value < 1 << 32:
        raise Invalid(Status.INVALID, f"{name} is {value}, which is not in [0, 2^32)")
    return value


def u64(value: int, name: str) -> int:
    """ctypes would cut it silently."""
    if not 0 <= value < 1 << 64:
        raise Invalid(Status.INVALID, f"{name} is {value}, which is not in [0, 2^64)")
    return value


def fill(struct: ctypes.Structure, **values: int) -> None:
    """Sets whole numbers, each of which must fit its field."""
    for name, value in values.items():
        setattr(struct, name, value)
        if getattr(struct, name) != value:
            raise Invalid(Status.INVALID, f"{name} is {value}, which its field cannot hold")


def engine_id(value: bytes) -> Any:
    """The 16 bytes of an engine's id."""
    if len(value) != 16:
        raise Invalid(Status.INVALID, f"an engine's id has 16 bytes, not {len(value)}")
    return (ctypes.c_uint8 * 16)(*value)


def page_ids(ids: PageIds) -> array[int]:
    """The ids in memory that the library can read."""
    if isinstance(ids, array) and ids.typecode == "I":
        return ids
    own: array[int] = array("I")
    try:
        view = memoryview(ids)  # type: ignore[arg-type]
    except TypeError:
        view = None
    if view is not None and view.format == "I" and view.contiguous:
        own.frombytes(view.cast("B"))
        return own
    try:
        own.extend(iter(ids))
    except OverflowError:
        raise Invalid(Status.INVALID, "a page id is not in [0, 2^32)") from None
    return own


@dataclass
class Identity:
    """The engine rank that connects. layers_total, kv_heads_total, head_dim, model and dtype must be
    equal on both sides of a transfer."""

    engine: bytes
    generation: int
    layers_total: int
    kv_heads_total: int
    head_dim: int
    model: str = ""
    dtype: str = ""
    name: str = ""
    tp: int = 0
    tp_size: int = 1
    pp: int = 0
    pp_size: int = 1

    def to_c(self) -> _abi.kvrail_identity:
        """For kvrail_open."""
        own = _abi.kvrail_identity(
            size=ctypes.sizeof(_abi.kvrail_identity),
            model=encoded(self.model, "model"),
            dtype=encoded(self.dtype, "dtype"),
            name=encoded(self.name, "name"),
            engine=engine_id(self.engine),
        )
        numbers = "generation layers_total kv_heads_total head_dim tp tp_size pp pp_size"
        fill(own, **{number: getattr(self, number) for number in numbers.split()})
        return own


@dataclass
class SourceAddress:
    """One source rank that holds a part of the request; the router passes it to the target."""

    agent: str
    engine: bytes
    generation: int
    tp: int = 0
    pp: int = 0

    def set_c(self, own: _abi.kvrail_source_address) -> None:
        """For kvrail_target_open."""
        own.size = ctypes.sizeof(_abi.kvrail_source_address)
        own.agent = encoded(self.agent, "a source's agent")
        own.engine = engine_id(self.engine)
        fill(own, generation=self.generation, tp=self.tp, pp=self.pp)


@dataclass
class Allocation:
    """One of several VMM allocations of a region."""

    fd: int
    bytes: int


_REGION_NUMBERS = (
    "fd device fd_offset address group layer_first layer_count head_first head_count page_tokens "
    "page_count bytes base layer_stride part_stride page_stride token_stride head_stride head_bytes "
    "memory_of"
).split()


@dataclass
class Region:
    """Registered memory and where pages lie in it: the formula of kvrail.h."""

    name: str = ""
    memory: MemoryKind = MemoryKind.MEMFD
    fd: int = -1
    device: int = -1
    fd_offset: int = 0
    ipc: builtins.bytes = builtins.bytes(64)
    allocations: Sequence[Allocation] | None = None
    allocation_count: int = 0
    address: int = 0
    group: int = 0
    layer_first: int = 0
    layer_count: int = 0
    parts: Sequence[Part] = field(default_factory=lambda: (Part.K, Part.V))
    replicated: bool = False
    head_first: int = 0
    head_count: int = 0
    page_tokens: int = 0
    page_count: int = 0
    bytes: int = 0
    base: int = 0
    layer_stride: int = 0
    part_stride: int = 0
    page_stride: int = 0
    token_stride: int = 0
    head_stride: int = 0
    head_bytes: int = 0
    memory_of: int = 0  # a region of the connection whose memory this is; 0: it brings its own

    def to_c(self) -> _abi.kvrail_region:
        """For the library; keeps alive what it points to."""
        if len(self.ipc) != 64:
            raise Invalid(Status.INVALID, f"ipc has 64 bytes, not {len(self.ipc)}")
        if len(self.parts) > _abi.PARTS_MAX:
            raise Invalid(Status.INVALID, f"a region has at most {_abi.PARTS_MAX} parts")
        own = _abi.kvrail_region(
            size=ctypes.sizeof(_abi.kvrail_region),
            memory=self.memory,
            name=encoded(self.name, "a region's name"),
            ipc=(ctypes.c_uint8 * 64)(*self.ipc),
            part_count=len(self.parts),
            parts=(ctypes.c_uint8 * _abi.PARTS_MAX)(*self.parts),
            replicated=self.replicated,
        )
        fill(own, **{number: getattr(self, number) for number in _REGION_NUMBERS})
        own.allocation_count = self.allocation_count
        if self.allocations is not None:
            own.allocation_count = len(self.allocations)
            own.allocations = (_abi.kvrail_allocation * len(self.allocations))()
            for to, allocation in zip(own.allocations, self.allocations):
                to.size = ctypes.sizeof(_abi.kvrail_allocation)
                fill(to, fd=allocation.fd, bytes=allocation.bytes)
        return own

    def _take(self, own: _abi.kvrail_region) -> None:
        for number in _REGION_NUMBERS:
            setattr(self, number, getattr(own, number))
        self.memory = MemoryKind(own.memory)
        self.ipc = bytes(own.ipc)
        self.allocation_count = own.allocation_count

    def dense(self) -> Region:
        """Sets base, strides and bytes for the densest layout, [layer][part][page][token][head]."""
        own = self.to_c()
        library().kvrail_region_dense(own)
        self._take(own)
        return self

    def of_device(self, address: int, *, dmabuf: bool = False) -> Region:
        """Describes device memory: sets memory, device, fd or ipc, and fd_offset, from a CUDA device
        pointer to byte 0 of the region. bytes must be set. Close fd, if it is not -1, after
        Connection.region_add."""
        own, error = self.to_c(), _abi.kvrail_error()
        describe = (
            library().kvrail_region_dmabuf_of_device
            if dmabuf
            else library().kvrail_region_of_device
        )
        check(describe(own, u64(address, "address"), error), error)
        self._take(own)
        return self


class Event(NamedTuple):
    """One event. `terminal`: the pages of `handle` are yours again, and the handle has ended."""

    kind: EventKind
    terminal: bool
    handle: int
    status: Status
    status_name: str
    layer_first: int
    layer_count: int
    token_first: int
    token_end: int
    bytes: int
    writes: int
    retries: int
    payload: builtins.bytes
    name: str
    time_ns: int
    detail: str


def event_of(own: _abi.kvrail_event) -> Event:
    """A copy, of the payload too."""
    return Event(
        EventKind(own.kind),
        own.terminal != 0,
        own.handle,
        Status(own.status),
        text(own.status_name),
        own.layer_first,
        own.layer_count,
        own.token_first,
        own.token_end,
        own.bytes,
        own.writes,
        own.retries,
        ctypes.string_at(own.payload, own.payload_bytes) if own.payload else b"",
        text(own.name),
        own.time_ns,
        text(own.detail),
    )


__all__ = [
    "Allocation",
    "Digest",
    "Event",
    "Identity",
    "PageIds",
    "Region",
    "SourceAddress",
]
