"""Puts the wheel together: the Python package, the programs, the libraries that a host may lack and the
licences of all of it. CMakeLists.txt beside it calls this for the target `wheel`.

The same inputs make the same bytes: files are sorted and have the time of SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import elf

GLIBC = (2, 34)  # the tag says it, and no file may need a later one
PROGRAMS = ("prefill-agent", "decode-agent", "kvrail-scheduler", "kvrail")
DOCS = Path("/usr/share/doc")
COMMON_LICENCES = Path("/usr/share/common-licenses")
# Debian packages whose code is inside the programs and libfabric, and is no file of the wheel.
COMPILED_IN = ("uthash-dev",)


class Refused(Exception):
    """A sentence: why there can be no wheel."""


def python_version(version: str) -> str:
    """The programs' version in the form that Python asks for: 0.1.0+g1a2b3c4-dirty becomes
    0.1.0+g1a2b3c4.dirty, and 0.1.0-5-g1a2b3c4, five commits after a tag, 0.1.0+5.g1a2b3c4."""
    public, *local = re.split("[-+]", version)
    return public + ("+" + ".".join(local) if local else "")


def package_of(file: Path) -> str:
    """The Debian package that a file of the system belongs to."""
    real = file.resolve()
    for path in (real, Path(str(real).removeprefix("/usr"))):
        found = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    raise Refused(f"{real} belongs to no Debian package, so its licence is not known")


@dataclass(frozen=True)
class Part:
    """Code of others: a row of the metadata's table."""

    file: str
    package: str
    version: str
    licence: Path


def debian_part(file: str, package: str) -> Part:
    version = elf.run("dpkg-query", "-W", "-f", "${Version}", package)
    return Part(file, package, version, DOCS / package / "copyright")


def libfabric_part(options: argparse.Namespace) -> Part:
    """libfabric of Debian, or of a prefix that says under which licence it is."""
    file, archive = "libfabric/libfabric.so.1", options.libfabric_archive
    licence = options.libfabric_prefix / "share/doc/libfabric/copyright"
    if licence.exists():
        return Part(file, "libfabric", options.libfabric_version, licence)
    try:
        return debian_part(file, package_of(archive))
    except Refused as error:
        raise Refused(f"{error}: copy the file COPYING of that libfabric's source to {licence}") from error


def licences(parts: list[Part]) -> dict[str, bytes]:
    """Each package's licence, and the texts that these refer to."""
    files: dict[str, bytes] = {}
    for part in sorted(parts, key=lambda part: part.package):
        if not part.licence.exists():
            raise Refused(
                f"{part.licence} is missing: the wheel carries {part.package}, and must carry its licence"
            )
        files[f"{part.package}/copyright"] = part.licence.read_bytes()
    named = re.findall(rb"/usr/share/common-licenses/([A-Za-z0-9.-]+)", b"\n".join(files.values()))
    for name in sorted({text.decode().rstrip(".") for text in named}):
        path = COMMON_LICENCES / name
        if path.exists():
            files[f"common-licenses/{name}"] = path.read_bytes()
    return files


class Wheel:
    """The files of a wheel, by their path in it."""

    def __init__(self, version: str) -> None:
        self.files: dict[str, tuple[bytes, bool]] = {}  # path → bytes, executable
        self.version = version
        self.info = f"kvrail-{version}.dist-info"
        self.tag = f"py3-none-manylinux_{GLIBC[0]}_{GLIBC[1]}_{os.uname().machine}"

    def add(self, path: str, content: bytes | str, executable: bool = False) -> None:
        self.files[path] = (content.encode() if isinstance(content, str) else content, executable)

    def _record(self) -> str:
        lines = []
        for path, (content, _) in sorted(self.files.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{path},sha256={digest},{len(content)}\n")
        return "".join(lines) + f"{self.info}/RECORD,,\n"

    def write(self, folder: Path) -> Path:
        self.add(f"{self.info}/RECORD", self._record())
        made = max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315619200)  # a zip begins in 1980
        path = folder / f"kvrail-{self.version}-{self.tag}.whl"
        partial = path.with_suffix(".part")
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            # Metadata last, as the format recommends.
            for name in sorted(self.files, key=lambda name: (name.startswith(self.info), name)):
                content, executable = self.files[name]
                entry = zipfile.ZipInfo(name, time.gmtime(made)[:6])
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.create_system = 3
                entry.external_attr = (0o100755 if executable else 0o100644) << 16
                archive.writestr(entry, content)
        for old in folder.glob("kvrail-*.whl"):
            old.unlink()
        return partial.rename(path)


class Binaries:
    """Programs and libraries as they go into the wheel: stripped, and looking for each other there."""

    def __init__(self, wheel: Wheel) -> None:
        self.wheel = wheel
        self.carried: dict[str, Path] = {}  # SONAME → where the system has it
        self.own: set[str] = set()

    def add(self, source: Path, path: str, search: str = "") -> None:
        """search: where it looks for libraries, before all other places."""
        with tempfile.TemporaryDirectory() as work:
            copy = Path(work) / source.name
            shutil.copyfile(source, copy)
            if search:
                elf.run("strip", "--strip-unneeded", copy)
                elf.run("patchelf", "--force-rpath", "--set-rpath", search, copy)
            file = elf.read(copy)
            late = {name: version for name, version in file.glibc.items() if version > GLIBC}
            if late:
                raise Refused(
                    f"{source} needs {', '.join(sorted(late))} of a glibc later than "
                    f"{GLIBC[0]}.{GLIBC[1]}: build on an older system"
                )
            self.wheel.add(path, copy.read_bytes(), executable=path.startswith("kvrail/bin/"))
        self.own.add(file.soname)

    def need(self, source: Path) -> None:
        """Carries what that file needs, and what those libraries need, but not the C library."""
        for name, place in elf.needs(source).items():
            if name in elf.OF_EVERY_HOST or name in self.own or name in self.carried:
                continue
            if place is None:
                raise Refused(f"{source} needs {name}, which this host does not have")
            self.carried[name] = place
            self.add(place, f"kvrail/lib/{name}")


def metadata(wheel: Wheel, parts: list[Part]) -> str:
    rows = "".join(f"| {part.file} | {part.package} | {part.version} |\n" for part in parts)
    names = sorted(path for path in wheel.files if path.startswith(f"{wheel.info}/licenses/"))
    files = "".join(f"License-File: {path.removeprefix(wheel.info + '/licenses/')}\n" for path in names)
    return f"""Metadata-Version: 2.4
Name: kvrail
Version: {wheel.version}
Summary: Moves the KV cache of a language model from prefill to decode over every network card
License: Apache-2.0, and the licences of the libraries that it carries
{files}Requires-Python: >=3.10
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: System :: Distributed Computing
Description-Content-Type: text/markdown

# kvrail

The package `kvrail` with `libkvrail`, and the programs {', '.join(f'`{name}`' for name in PROGRAMS)}.

kvrail is under Apache-2.0. The wheel carries these libraries, unchanged, under the licences in the folder
`licenses` of its metadata. Those beside libfabric are Debian's packages. libfabric is linked from its own
objects for tcp alone; the option `--libfabric DIR` of the programs loads another, as new or newer.

| file | package | version |
|---|---|---|
{rows}"""


def entry_points() -> str:
    lines = [f"{name} = kvrail.programs:{name.replace('-', '_')}" for name in sorted(PROGRAMS)]
    return "[console_scripts]\n" + "\n".join(lines) + "\n"


def add_binaries(wheel: Wheel, options: argparse.Namespace) -> list[Part]:
    binaries = Binaries(wheel)
    programs = [options.programs / name for name in PROGRAMS]
    binaries.add(options.library, "kvrail/lib/libkvrail.so.1", "$ORIGIN")
    binaries.add(options.libfabric, "kvrail/libfabric/libfabric.so.1")
    for program in programs:
        binaries.add(program, f"kvrail/bin/{program.name}", "$ORIGIN/../lib:$ORIGIN/../libfabric")
    for source in [options.library, options.libfabric, *programs]:
        binaries.need(source)
    parts = [debian_part(f"lib/{name}", package_of(place)) for name, place in sorted(binaries.carried.items())]
    parts.append(libfabric_part(options))
    parts.append(debian_part("in libfabric.so.1", package_of(options.atomic_archive)))
    return parts + [debian_part("in the programs", package) for package in COMPILED_IN]


def build(options: argparse.Namespace) -> Path:
    version = re.search(r'KVRAIL_VERSION "([^"]+)"', options.version_header.read_text())
    if version is None:
        raise Refused(f"{options.version_header} names no version")
    wheel = Wheel(python_version(version[1]))
    package = options.source / "common/python/kvrail"
    for file in [*package.rglob("*.py"), package / "py.typed"]:
        wheel.add(f"kvrail/{file.relative_to(package)}", file.read_bytes())
    parts = add_binaries(wheel, options)
    wheel.add(f"{wheel.info}/licenses/LICENSE", (options.source / "LICENSE").read_bytes())
    for name, content in licences(parts).items():
        wheel.add(f"{wheel.info}/licenses/{name}", content)
    wheel.add(f"{wheel.info}/METADATA", metadata(wheel, parts))
    wheel.add(f"{wheel.info}/entry_points.txt", entry_points())
    wheel.add(
        f"{wheel.info}/WHEEL",
        f"Wheel-Version: 1.0\nGenerator: kvrail\nRoot-Is-Purelib: false\nTag: {wheel.tag}\n",
    )
    return wheel.write(options.output)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "programs", "library", "version-header", "output", "atomic-archive"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("libfabric", "libfabric-archive", "libfabric-prefix"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--libfabric-version", required=True)
    try:
        path = build(parser.parse_args())
    except (Refused, elf.Failed) as error:
        print(f"wheel: {error}", file=sys.stderr)
        return 1
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
