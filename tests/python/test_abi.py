"""Goal: the ctypes declarations of common/python/kvrail are those of kvrail.h: every constant, enumerator,
struct, field and function. Method: this reads the names from the header, compiles a probe that prints
their values, sizes and offsets, and compares; the parameters of functions are compared by kind."""

import ctypes
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import harness
import kvrail
from kvrail import _abi, _library

HEADER = Path(os.environ["KVRAIL_ROOT_DIR"]) / "common/client/kvrail.h"
TEXT = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.S)

# The header's enum, the package's, and the prefix of the names.
ENUMS = {
    "kvrail_status": (kvrail.Status, "KVRAIL_"),
    "kvrail_memory_kind": (kvrail.MemoryKind, "KVRAIL_MEMORY_"),
    "kvrail_part": (kvrail.Part, "KVRAIL_PART_"),
    "kvrail_store": (kvrail.Store, "KVRAIL_STORE_"),
    "kvrail_digest": (kvrail.Digest, "KVRAIL_DIGEST_"),
    "kvrail_event_kind": (kvrail.EventKind, "KVRAIL_EVENT_"),
}
# Macros that are no constants.
NO_CONSTANTS = {"KVRAIL_H", "KVRAIL_API", "KVRAIL_MUST_CHECK"}
# Inline functions of the header.
INLINE = {"kvrail_poll"}


def enumerators() -> dict[str, list[str]]:
    found = {}
    for body, name in re.findall(r"typedef enum \w+ \{(.*?)\} (\w+);", TEXT, flags=re.S):
        found[name] = re.findall(r"\b(KVRAIL_\w+)", body)
    return found


def constants() -> list[str]:
    return [n for n in re.findall(r"#define (KVRAIL_\w+)", TEXT) if n not in NO_CONSTANTS]


def fields(body: str) -> list[str]:
    names = []
    for statement in body.split(";"):
        for declarator in statement.split(","):
            match = re.search(r"(\w+)\s*(\[[^]]*\])?\s*$", declarator)
            if match:
                names.append(match.group(1))
    return names


def structs() -> dict[str, list[str]]:
    return {
        n: fields(b) for n, b in re.findall(r"\nstruct (kvrail_\w+) \{(.*?)\n\};", TEXT, flags=re.S)
    }


def functions() -> dict[str, tuple[str, list[str]]]:
    """Of each the result and the parameters, as the header writes them."""
    found = {}
    pattern = r"KVRAIL_API\s+(?:KVRAIL_MUST_CHECK\s+)?([\w\s]+?[\s*]+)(kvrail_\w+)\(([^)]*)\)\s*;"
    for result, name, parameters in re.findall(pattern, TEXT):
        listed = [] if parameters.strip() == "void" else parameters.split(",")
        found[name] = (result.strip(), [re.sub(r"\s*\w+$", "", p.strip()) for p in listed])
    return found


def probe() -> dict[str, dict[str, int]]:
    """Compiled from the header alone."""
    lines = []
    for name in constants() + [e for names in enumerators().values() for e in names]:
        lines.append(f'printf("C {name} %lld\\n", (long long){name});')
    for struct, members in structs().items():
        lines.append(f'printf("S {struct} %zu\\n", sizeof(struct {struct}));')
        for member in members:
            at = f"offsetof(struct {struct}, {member})"
            size = f"sizeof(((struct {struct} *)0)->{member})"
            lines.append(f'printf("O {struct}.{member} %zu\\n", {at});')
            lines.append(f'printf("B {struct}.{member} %zu\\n", {size});')
    source = (
        '#include <stdio.h>\n#include "kvrail.h"\nint main(void)\n{\n' + "\n".join(lines) + "\n}\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "probe.c").write_text(source, encoding="utf-8")
        compiler = os.environ.get("CC", "cc").split()
        subprocess.run(
            [*compiler, "-I", str(HEADER.parent), "-o", f"{folder}/probe", f"{folder}/probe.c"],
            check=True,
        )
        said = subprocess.run(
            [f"{folder}/probe"], check=True, capture_output=True, text=True
        ).stdout
    values: dict[str, dict[str, int]] = {"C": {}, "S": {}, "O": {}, "B": {}}
    for line in said.splitlines():
        kind, name, value = line.split()
        values[kind][name] = int(value)
    return values


def kind_of(declared: str) -> object:
    """The ctypes type of a C type."""
    plain = re.sub(r"\bconst\b|\bstruct\b|\s", "", declared)
    simple = {
        "void": None,
        "int": ctypes.c_int,
        "int32_t": ctypes.c_int32,
        "uint32_t": ctypes.c_uint32,
        "uint64_t": ctypes.c_uint64,
        "size_t": ctypes.c_size_t,
        "kvrail_handle": ctypes.c_uint64,
        "char*": ctypes.c_char_p,
        "charret_secret[KVRAIL_SECRET_BYTES]": ctypes.c_char_p,
        "void*": ctypes.c_void_p,
        "kvrail*": ctypes.c_void_p,
        "kvrail**": ctypes.POINTER(ctypes.c_void_p),
    }
    if plain in simple:
        return simple[plain]
    if plain in ENUMS:
        return ctypes.c_int
    if plain.endswith("*"):
        target = plain[:-1]
        return ctypes.POINTER(_abi.STRUCTS[target] if target in _abi.STRUCTS else kind_of(target))
    raise AssertionError(f"no ctypes type is known for '{declared}'")


class Abi(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.probe = probe()

    def test_the_reader_finds_what_the_header_has(self) -> None:
        self.assertGreaterEqual(len(functions()), 34)
        self.assertEqual(len(functions()), TEXT.count("KVRAIL_API ") - 1)  # and its #define
        self.assertEqual(len(enumerators()), TEXT.count("typedef enum"))
        self.assertEqual(len(structs()), len(re.findall(r"\nstruct kvrail_\w+ \{", TEXT)))
        self.assertIn("replicated", structs()["kvrail_region"])
        self.assertIn("pp_size", structs()["kvrail_identity"])

    def test_constants(self) -> None:
        for name in constants():
            with self.subTest(name):
                self.assertEqual(
                    getattr(kvrail, name.removeprefix("KVRAIL_")), self.probe["C"][name]
                )
        self.assertGreaterEqual(len(constants()), 12)

    def test_enumerators(self) -> None:
        self.assertEqual(set(enumerators()), set(ENUMS))
        for enum, names in enumerators().items():
            ours, prefix = ENUMS[enum]
            theirs = {n.removeprefix(prefix): self.probe["C"][n] for n in names}
            self.assertEqual({m.name: m.value for m in ours}, theirs, enum)

    def test_structs(self) -> None:
        self.assertEqual(set(structs()), set(_abi.STRUCTS))
        for name, members in structs().items():
            ours = _abi.STRUCTS[name]
            self.assertEqual(ctypes.sizeof(ours), self.probe["S"][name], name)
            self.assertEqual([f[0] for f in ours._fields_], members)
            for member in members:
                with self.subTest(f"{name}.{member}"):
                    field = getattr(ours, member)
                    self.assertEqual(field.offset, self.probe["O"][f"{name}.{member}"])
                    self.assertEqual(field.size, self.probe["B"][f"{name}.{member}"])

    def test_functions(self) -> None:
        self.assertEqual(set(functions()), set(_abi.PROTOTYPES))
        for name, (result, parameters) in functions().items():
            with self.subTest(name):
                ours = _abi.PROTOTYPES[name]
                self.assertEqual(ours[0], kind_of(result))
                self.assertEqual(len(ours) - 1, len(parameters))
                for mine, theirs in zip(ours[1:], parameters):
                    # Page ids and bytes go as plain addresses.
                    allowed = {kind_of(theirs)}
                    if theirs.replace(" ", "") == "constuint32_t*":
                        allowed.add(ctypes.c_void_p)
                    if theirs.replace(" ", "") == "constvoid*":
                        allowed.add(ctypes.c_char_p)
                    self.assertIn(mine, allowed, theirs)

    def test_the_library_exports_what_the_header_declares(self) -> None:
        path = os.environ["KVRAIL_LIBRARY"]
        said = subprocess.run(
            ["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True
        )
        exported = set(re.findall(r" T (kvrail_\w+)", said.stdout))
        self.assertEqual(exported, set(functions()))
        self.assertTrue(INLINE.isdisjoint(exported))
        for name in exported:
            self.assertIsNotNone(getattr(_library.library(), name))

    def test_every_call_has_a_method(self) -> None:
        """kvrail_x is Connection.x, a function of the module, or what this table says."""
        elsewhere = {
            "kvrail_open": "Connection",
            "kvrail_poll_sized": "Connection.poll",
            "kvrail_event_fd": "Connection.fileno",
            "kvrail_agent_name": "Connection.agent_name",
            "kvrail_agent_address": "Connection.agent_address",
            "kvrail_last_error": "KvrailError",
            "kvrail_memory_create": "Memory",
            "kvrail_memory_destroy": "Memory.close",
            "kvrail_device_memory_create": "DeviceMemory",
            "kvrail_device_memory_destroy": "DeviceMemory.close",
            "kvrail_region_dense": "Region.dense",
            "kvrail_region_of_device": "Region.of_device",
            "kvrail_region_dmabuf_of_device": "Region.of_device",
        }
        sources = "\n".join(
            path.read_text(encoding="utf-8") for path in Path(kvrail.__file__).parent.glob("*.py")
        )
        for name in functions():
            with self.subTest(name):
                self.assertIn(f"().{name}", sources.replace("self._library.", "library()."))
                short = name.removeprefix("kvrail_")
                if name not in elsewhere:
                    self.assertTrue(hasattr(kvrail, short) or hasattr(kvrail.Connection, short))


if __name__ == "__main__":
    harness.main("python.abi")
