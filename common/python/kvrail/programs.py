"""The programs that the wheel carries: the scripts that pip makes of its entry points run them."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def _become(name: str) -> None:
    own = Path(__file__).parent / "bin" / name
    try:
        os.execv(own, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {own} cannot be run: {error.strerror}. Install kvrail from its wheel")


def prefill_agent() -> None:
    _become("prefill-agent")


def decode_agent() -> None:
    _become("decode-agent")


def kvrail_scheduler() -> None:
    _become("kvrail-scheduler")


def kvrail() -> None:
    os.environ.setdefault("KVRAIL_PYTHON", sys.executable)  # for `kvrail bench connector`
    _become("kvrail")
