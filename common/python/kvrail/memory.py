"""Memory that an agent can map: of the host, or of a GPU."""

from __future__ import annotations

import mmap

from . import _abi
from ._closing import Closing
from ._library import library
from .errors import check
from .values import encoded, u32, u64


class Memory(Closing):
    """Zeroed memory of an engine: a memfd that cannot shrink, mapped here.

    `view` is the memory as a writable buffer; numpy.frombuffer and torch.frombuffer take it. `fd` is
    for Region.fd, `address` is where the library mapped it. An agent that has the region keeps its own
    mapping when this one is closed."""

    def __init__(self, name: str, size: int) -> None:
        """`name` is shown in /proc; `bytes` is `size`, rounded up to whole pages of the system."""
        self._own = _abi.kvrail_memory()
        error = _abi.kvrail_error()
        check(
            library().kvrail_memory_create(
                encoded(name, "name"), u64(size, "size"), self._own, error
            ),
            error,
        )
        self._map = mmap.mmap(self._own.fd, self._own.bytes)
        self.fd: int = self._own.fd
        self.address: int = self._own.address
        self.bytes: int = self._own.bytes

    @property
    def view(self) -> memoryview:
        """The bytes. It must be released before close."""
        return memoryview(self._map)

    def close(self) -> None:
        """Unmaps and closes. BufferError while a view of it is in use."""
        self._map.close()
        library().kvrail_memory_destroy(self._own)
        self.fd = -1


class DeviceMemory(Closing):
    """Memory of a GPU that an agent can open, from another container too, and that cards can reach.

    `address` is a device pointer, for Region.of_device; `bytes` is the size, rounded up to what the
    GPU allocates. An agent that has the region keeps the memory when this one is closed."""

    def __init__(self, device: int, size: int) -> None:
        """`device` is a CUDA ordinal of this process."""
        self._own = _abi.kvrail_device_memory()
        error = _abi.kvrail_error()
        check(
            library().kvrail_device_memory_create(
                u32(device, "device"), u64(size, "size"), self._own, error
            ),
            error,
        )
        self.address: int = self._own.address
        self.bytes: int = self._own.bytes

    def close(self) -> None:
        """Frees it; no work of the GPU may use it any more."""
        library().kvrail_device_memory_destroy(self._own)
        self.address = 0
