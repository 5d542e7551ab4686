"""Reads a wheel and says what is wrong with it, a line for each: python3 check_wheel.py WHEEL

It looks at the archive alone, with objdump, and shares nothing with what makes the wheel but the reader of
objdump's output."""

from __future__ import annotations

import ast
import base64
import email
import hashlib
import re
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).parents[2] / "common/wheel"))
import elf  # noqa: E402

PROGRAMS = {"prefill-agent", "decode-agent", "kvrail-scheduler", "kvrail"}
GLIBC_OWN = {"libc.so.6", "libm.so.6", "libresolv.so.2", "libdl.so.2", "ld-linux-x86-64.so.2"}
OF_THE_HOST = ("libibverbs", "librdmacm", "libefa", "libmlx5", "libcuda", "libc.so", "libm.so")


class Check:
    def __init__(self, path: Path) -> None:
        self.archive = zipfile.ZipFile(path)
        self.names = self.archive.namelist()
        self.problems: list[str] = []
        name, self.version, *tag = path.name.removesuffix(".whl").split("-")
        self.tag = "-".join(tag)
        self.info = f"{name}-{self.version}.dist-info"

    def want(self, fine: object, problem: str) -> None:
        if not fine:
            self.problems.append(problem)

    def text(self, name: str) -> str:
        self.want(name in self.names, f"{name} is missing")
        return self.archive.read(name).decode() if name in self.names else ""

    def record(self) -> None:
        recorded = {}
        for line in self.text(f"{self.info}/RECORD").splitlines():
            name, digest, size = line.rsplit(",", 2)
            recorded[name] = (digest, size)
        self.want(set(recorded) == set(self.names), f"RECORD differs: {set(recorded) ^ set(self.names)}")
        self.want(len(self.names) == len(set(self.names)), "a file is there twice")
        for name, (digest, size) in recorded.items():
            if name not in self.names or name.endswith("/RECORD"):
                continue
            content = self.archive.read(name)
            own = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            self.want(digest == f"sha256={own}" and int(size) == len(content), f"RECORD is wrong on {name}")
        times = {entry.date_time for entry in self.archive.infolist()}
        self.want(len(times) == 1, f"files have {len(times)} times")

    def metadata(self) -> None:
        fields = email.message_from_string(self.text(f"{self.info}/METADATA"))
        self.want(fields["Name"] == "kvrail", f"Name is {fields['Name']}")
        self.want(fields["Version"] == self.version, f"Version is {fields['Version']}, not {self.version}")
        self.want(
            re.fullmatch(r"\d+(\.\d+)*(\+[a-z0-9]+(\.[a-z0-9]+)*)?", self.version),
            f"{self.version} is no version",
        )
        self.want(fields["Requires-Python"] == ">=3.10", "Requires-Python is not >=3.10")
        self.want(fields["Requires-Dist"] is None, "the wheel needs other packages")
        wheel = email.message_from_string(self.text(f"{self.info}/WHEEL"))
        self.want(wheel["Tag"] == self.tag, f"Tag is {wheel['Tag']}, and the name says {self.tag}")
        self.want(wheel["Root-Is-Purelib"] == "false", "Root-Is-Purelib is not false")
        carried = re.findall(r"^\| (\S.*) \| (\S+) \| (\S+) \|$", fields.get_payload(), re.M)
        files = set(fields.get_all("License-File", []))
        self.want("LICENSE" in files, "kvrail's own licence is missing")
        for file, package, _ in carried[1:]:
            self.want(f"{package}/copyright" in files, f"the licence of {file} ({package}) is missing")
        libfabric = next((version for file, _, version in carried if file.startswith("libfabric/")), "0.0")
        self.want(
            tuple(map(int, re.findall(r"\d+", libfabric)[:2])) >= (1, 20), f"its libfabric is {libfabric}"
        )
        for file in files:
            self.text(f"{self.info}/licenses/{file}")
        libraries = {name for name in self.names if "/lib/" in name} - {"kvrail/lib/libkvrail.so.1"}
        named = {f"kvrail/{file}" for file, _, _ in carried}
        self.want(libraries <= named, f"METADATA does not name {libraries - named}")

    def entries(self) -> None:
        functions = {
            node.name
            for node in ast.parse(self.text("kvrail/programs.py")).body
            if isinstance(node, ast.FunctionDef)
        }
        entries = re.findall(
            r"^(\S+) = kvrail\.programs:(\w+)$", self.text(f"{self.info}/entry_points.txt"), re.M
        )
        self.want({name for name, _ in entries} == PROGRAMS, f"entry points are {entries}")
        for name, function in entries:
            self.want(function in functions, f"kvrail.programs has no {function}")
            self.want(f"kvrail/bin/{name}" in self.names, f"kvrail/bin/{name} is missing")
        for entry in self.archive.infolist():
            mode = 0o755 if entry.filename.startswith("kvrail/bin/") else 0o644
            self.want(
                entry.external_attr >> 16 == 0o100000 | mode,
                f"{entry.filename} has mode {entry.external_attr >> 16:o}",
            )

    def binaries(self) -> None:
        match = re.search(r"-manylinux_(\d+)_(\d+)_", f"-{self.tag}")
        most = (int(match[1]), int(match[2])) if match else (0, 0)
        there = {PurePosixPath(name).name for name in self.names if name.startswith("kvrail/lib/")}
        count, latest = 0, (0, 0)
        for name in self.names:
            content = self.archive.read(name)
            if not content.startswith(b"\x7fELF"):
                continue
            count += 1
            with tempfile.NamedTemporaryFile() as copy:
                copy.write(content)
                copy.flush()
                file = elf.read(Path(copy.name))
            for symbol, version in file.glibc.items():
                self.want(version <= most, f"{name} needs {symbol}, and the tag says glibc {most}")
                latest = max(latest, version[:2])
            own = PurePosixPath(name).name
            self.want(file.soname in ("", own), f"{name} is {file.soname} under another name")
            missing = set(file.needed) - there - GLIBC_OWN
            self.want(not missing, f"{name} needs {missing}, which the wheel lacks")
            search = file.search.split(":") if file.search else []
            self.want(all(s.startswith("$ORIGIN") for s in search), f"{name} looks in {file.search}")
            if name.startswith("kvrail/bin/"):
                self.want(search == ["$ORIGIN/../lib", "$ORIGIN/../libfabric"], f"{name}: {search}")
            self.want(
                not own.startswith(OF_THE_HOST), f"{name} is a library that must be the host's"
            )
            self.want(
                not own.startswith("libfabric") or name == "kvrail/libfabric/libfabric.so.1",
                f"{name}: libfabric lies outside its folder",
            )
        for needed in (*(f"bin/{name}" for name in PROGRAMS), "lib/libkvrail.so.1", "libfabric/libfabric.so.1"):
            self.want(f"kvrail/{needed}" in self.names, f"kvrail/{needed} is missing")
        print(f"{count} ELF files, the latest symbol is of glibc {latest[0]}.{latest[1]}")

    def all(self) -> list[str]:
        self.record()
        self.metadata()
        self.entries()
        self.binaries()
        return self.problems


if __name__ == "__main__":
    found = Check(Path(sys.argv[1])).all()
    print("\n".join(found) or f"{Path(sys.argv[1]).name}: nothing is wrong")
    sys.exit(1 if found else 0)
