"""Finds and loads libkvrail."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from . import _abi

SONAME = "libkvrail.so.1"

_loaded: Any = None


class LibraryError(ImportError):
    """libkvrail cannot be found, or is of another ABI."""


def places() -> list[str]:
    """What is tried, in order: beside the package, KVRAIL_LIBRARY, the system's library path."""
    package = Path(__file__).parent
    found = [str(place) for place in (package / SONAME, package / "lib" / SONAME) if place.exists()]
    named = os.environ.get("KVRAIL_LIBRARY")
    if named:
        found.append(named)
    return found + [SONAME]


def _declare(library: Any, path: str) -> None:
    for name, (result, *parameters) in _abi.PROTOTYPES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise LibraryError(
                f"{path} has no {name}: it is older than this package; install the libkvrail that "
                "belongs to it"
            ) from None
        function.restype = result
        function.argtypes = parameters


def library() -> Any:
    """The library, loaded once. Errors: LibraryError."""
    global _loaded
    if _loaded is None:
        path = places()[0]
        try:
            loaded = ctypes.CDLL(path)
        except OSError as error:
            raise LibraryError(
                f"libkvrail cannot be loaded: {error}. Set KVRAIL_LIBRARY to the path of {SONAME}"
            ) from error
        _declare(loaded, path)
        _loaded = loaded
    return _loaded


def text(value: bytes | None) -> str:
    """A string of the library."""
    return value.decode("utf-8", "replace") if value else ""


def version() -> str:
    """The library's version, "0.1.0"."""
    return text(library().kvrail_version())


def status_name(status: int) -> str:
    """ "peer_lost": for logs and metrics. "?" for a value that the library does not know."""
    return text(library().kvrail_status_name(status))


def status_text(status: int) -> str:
    """One sentence."""
    return text(library().kvrail_status_text(status))


def event_name(kind: int) -> str:
    """ "layer_in"."""
    return text(library().kvrail_event_name(kind))
