"""What an ELF file needs, by objdump and ldd."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

# glibc's own, which the tag promises. Everything else that a program needs is carried.
OF_EVERY_HOST = frozenset(
    {
        "ld-linux-x86-64.so.2",
        "ld-linux-aarch64.so.1",
        "libc.so.6",
        "libdl.so.2",
        "libm.so.6",
        "libpthread.so.0",
        "libresolv.so.2",
        "librt.so.1",
    }
)


class Failed(Exception):
    """A command failed: a sentence with its last words."""


@dataclass(frozen=True)
class File:
    soname: str  # "" = a program
    needed: tuple[str, ...]
    search: str  # RPATH or RUNPATH
    glibc: dict[str, tuple[int, ...]]  # "GLIBC_2.34" → (2, 34): versions of symbols that it needs


def run(*command: str | Path) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))} failed: {ran.stderr.strip()}")
    return ran.stdout


def parse(text: str) -> File:
    """The output of objdump -p."""

    def fields(name: str) -> list[str]:
        return re.findall(rf"^  {name} +(\S+)$", text, re.M)

    references = text.partition("Version References:")[2]
    versions = set(re.findall(r"\b(GLIBC_([0-9.]+))$", references, re.M))
    return File(
        soname="".join(fields("SONAME")),
        needed=tuple(fields("NEEDED")),
        search="".join(fields("RPATH") + fields("RUNPATH")),
        glibc={name: tuple(map(int, number.split("."))) for name, number in versions},
    )


def read(path: Path) -> File:
    return parse(run("objdump", "-p", path))


def needs(path: Path) -> dict[str, Path | None]:
    """All libraries that the loader of this host takes for a file; None: it finds none."""
    found: dict[str, Path | None] = {}
    for line in run("ldd", path).splitlines():
        match = re.match(r"\s*(\S+) => (not found|/\S+)", line)
        if match:
            found[match[1]] = None if match[2] == "not found" else Path(match[2])
    return found
