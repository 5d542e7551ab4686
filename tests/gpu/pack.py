"""Makes a pack: all that tests/gpu/run.sh needs on a bare machine with a GPU. That machine needs no compiler,
CMake, Python, network or curl.

    python3 tests/gpu/pack.py BUILD FOLDER

BUILD is a build with tests; FOLDER is made anew. In it lie stripped programs with the kernels inside, the
libraries that a host may lack, and the scripts. It works at any path.
A pack carries no licences: it is for tests, and not to be handed on.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/wheel"))

import elf  # noqa: E402
import wheel  # noqa: E402

BYTES_MAX = 30 << 20
wheel.GLIBC = (2, 35)  # Ubuntu 22.04's; the examples' own part of libgcc needs it
TESTS = (
    "gpu_pair",
    "gpu_probe",
    "gpu_imported",
    "gpu_beside",
    "gpu_region",
    "device.conformance_host",
)
EXAMPLES = ("example_prefill_gpu", "example_decode_gpu")  # there is none without nvcc
SCRIPTS = (
    "tests/gpu/run.sh",
    "tests/gpu/report.sh",
    "tests/gpu/engine_killed.sh",
    "tests/gpu/agent_memory.sh",
    "tests/gpu/region_time.sh",
    "tests/gpu/torch_region.sh",
    "tests/gpu/torch_region.py",
    "tests/e2e/device_pairs.sh",
    "tests/e2e/gpu_example.sh",
    "tests/support/programs.sh",
)
ENTRY = """#!/bin/sh
# See tests/gpu/run.sh: sh run.sh --list
exec sh "$(dirname "$0")/tests/gpu/run.sh" "$@"
"""


def kernels(build: Path) -> str:
    """What compiled the kernels that lie in the programs."""
    nvcc = cached(build, "KVRAIL_NVCC")
    if not nvcc or not list(build.glob("common/device/*.fatbin")):
        return "none: the build found no nvcc, so the driver's copies stand in for them"
    release = re.search(r"release ([0-9.]+)", elf.run(nvcc, "--version"))
    return f"compiled by nvcc {release[1] if release else 'of an unknown version'}"


def cached(build: Path, name: str) -> str:
    """A variable of the build; "" where there is none."""
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    return found[1] if found else ""


def libfabric(build: Path, folder: Path) -> Path:
    """For tcp alone, as in the wheel: it needs nothing but the C library."""
    shared = cached(build, "KVRAIL_LIBFABRIC_FILE")
    archive = re.sub(r"\.so[0-9.]*$", ".a", shared)
    path = folder / "libfabric.so.1"
    script = ROOT / "common/wheel/link_libfabric.sh"
    elf.run("sh", script, cached(build, "CMAKE_C_COMPILER"), shared, archive, path)
    return path


def commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.stdout.strip() or "unknown"


def programs(build: Path) -> wheel.Wheel:
    """Their files, by path, with the libraries that they need."""
    files = wheel.Wheel("0")
    binaries = wheel.Binaries(files)
    library = build / "lib/libkvrail.so.1"
    wanted = [build / "bin" / name for name in wheel.PROGRAMS]
    wanted += [build / "tests" / name for name in TESTS]
    wanted += [build / "examples" / name for name in EXAMPLES if (build / "examples" / name).exists()]
    missing = [str(path) for path in [library, *wanted] if not path.exists()]
    if missing:
        raise wheel.Refused(f"not built: {', '.join(missing)}; a build without CUDA's headers has no such programs")
    binaries.add(library, "kvrail/lib/libkvrail.so.1", "$ORIGIN")
    for path in wanted:
        binaries.add(path, f"kvrail/{path.parent.name}/{path.name}", "$ORIGIN/../lib:$ORIGIN/../libfabric")
    with tempfile.TemporaryDirectory() as work:
        binaries.add(libfabric(build, Path(work)), "kvrail/libfabric/libfabric.so.1")
    for path in [library, *wanted]:
        binaries.need(path)
    return files


def pack(build: Path, folder: Path) -> int:
    files = programs(build)
    package = sorted((ROOT / "common/python/kvrail").glob("*.py"))  # for PyTorch, where it is there
    for script in [*SCRIPTS, *(str(path.relative_to(ROOT)) for path in package)]:
        files.add(script, (ROOT / script).read_bytes())
    files.add("run.sh", ENTRY)
    files.add("kvrail/commit", commit() + "\n")
    files.add("kvrail/kernels", kernels(build) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    for path, (content, _) in files.files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o755)
    return sum(len(content) for content, _ in files.files.values())


def main() -> int:
    if len(sys.argv) != 3:
        print("usage: pack.py BUILD FOLDER", file=sys.stderr)
        return 2
    build, folder = Path(sys.argv[1]), Path(sys.argv[2])
    try:
        size = pack(build, folder)
    except (wheel.Refused, elf.Failed) as error:
        print(f"pack: {error}", file=sys.stderr)
        return 1
    print(f"{folder}: {size / (1 << 20):.1f} MiB; kernels: {kernels(build)}")
    if size > BYTES_MAX:
        print(f"pack: more than {BYTES_MAX >> 20} MiB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
