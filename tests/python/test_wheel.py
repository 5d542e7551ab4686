"""Goal: what goes into the wheel is read and named right. Method: the parts of common/wheel
on texts written by hand. tests/wheel tries the wheel itself."""

import os
import sys
import unittest
from pathlib import Path
from unittest import mock

import harness
from kvrail import programs

sys.path.insert(0, str(Path(os.environ["KVRAIL_ROOT_DIR"]) / "common/wheel"))
import elf  # noqa: E402
import wheel  # noqa: E402

OBJDUMP = """
prefill-agent:     file format elf64-x86-64

Dynamic Section:
  NEEDED               libuv.so.1
  NEEDED               libc.so.6
  RPATH                $ORIGIN/../lib

Version definitions:
1 0x01 0x0b792650 GLIBC_2.99

Version References:
  required from libm.so.6:
    0x06969189 0x00 02 GLIBC_2.29
  required from libc.so.6:
    0x069691b4 0x00 03 GLIBC_2.34
    0x0d696914 0x00 04 GLIBC_2.4
"""


class Reading(unittest.TestCase):
    def test_what_a_file_needs(self) -> None:
        file = elf.parse(OBJDUMP)
        self.assertEqual(file.needed, ("libuv.so.1", "libc.so.6"))
        self.assertEqual((file.soname, file.search), ("", "$ORIGIN/../lib"))
        self.assertEqual(
            file.glibc, {"GLIBC_2.29": (2, 29), "GLIBC_2.34": (2, 34), "GLIBC_2.4": (2, 4)}
        )

    def test_what_is_no_elf_file(self) -> None:
        with self.assertRaises(elf.Failed):
            elf.read(Path(__file__))

    def test_versions(self) -> None:
        for version, python in (
            ("0.1.0", "0.1.0"),
            ("0.1.0+g1a2b3c4", "0.1.0+g1a2b3c4"),
            ("0.1.0+g1a2b3c4-dirty", "0.1.0+g1a2b3c4.dirty"),
            ("0.2.0-5-g1a2b3c4", "0.2.0+5.g1a2b3c4"),
        ):
            self.assertEqual(wheel.python_version(version), python)


class Programs(unittest.TestCase):
    def test_without_the_wheel_a_sentence_ends_it(self) -> None:
        with self.assertRaises(SystemExit) as ended:
            programs.decode_agent()
        self.assertRegex(str(ended.exception), "^decode-agent: .*cannot be run: No such file .*wheel$")

    def test_kvrail_knows_the_interpreter_of_its_wheel(self) -> None:
        with mock.patch.dict(os.environ), self.assertRaises(SystemExit):
            os.environ.pop("KVRAIL_PYTHON", None)
            try:
                programs.kvrail()
            finally:
                self.assertEqual(os.environ["KVRAIL_PYTHON"], sys.executable)


if __name__ == "__main__":
    harness.main("python.wheel")
