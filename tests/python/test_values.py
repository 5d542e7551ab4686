"""Goal: what needs no agent: values are checked before they reach the library, which would cut them
silently; errors have the library's sentences; the library is found where the docs say. Method: calls with
values at and beyond their bounds; copies of the package in folders."""

import array
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import harness
import kvrail
from kvrail import _abi, errors, values

ENGINE = bytes(range(16))


def identity(**changes: object) -> kvrail.Identity:
    fields = {
        "engine": ENGINE,
        "generation": 1,
        "layers_total": 2,
        "kv_heads_total": 1,
        "head_dim": 64,
    }
    return kvrail.Identity(**{**fields, **changes})  # type: ignore[arg-type]


class Values(unittest.TestCase):
    def test_identity_becomes_the_struct(self) -> None:
        own = identity(
            name="décode", model="m", dtype="float32", tp=1, tp_size=2, generation=2**64 - 1
        ).to_c()
        self.assertEqual(own.name.decode(), "décode")
        self.assertEqual((own.tp, own.tp_size, own.pp, own.pp_size), (1, 2, 0, 1))
        self.assertEqual(own.generation, 2**64 - 1)
        self.assertEqual(bytes(own.engine), ENGINE)

    def test_what_does_not_fit_is_refused_with_its_name(self) -> None:
        bad = [
            (lambda: identity(generation=2**64).to_c(), "generation is 18446744073709551616"),
            (lambda: identity(tp=-1).to_c(), "tp is -1"),
            (lambda: identity(engine=b"short").to_c(), "16 bytes, not 5"),
            (lambda: identity(name="a\0b").to_c(), "name has a NUL"),
            (lambda: kvrail.Region(device=2**31).to_c(), "device is 2147483648"),
            (lambda: kvrail.Region(ipc=b"x").to_c(), "ipc has 64 bytes, not 1"),
            (lambda: kvrail.Region(parts=[kvrail.Part.K] * 7).to_c(), "at most 6 parts"),
            (lambda: values.page_ids([1, -1]), "a page id is not in"),
            (lambda: values.page_ids([2**32]), "a page id is not in"),
            (lambda: values.u32(2**32, "word"), "word is 4294967296"),
            (lambda: values.u64(-1, "base"), "base is -1"),
        ]
        for call, sentence in bad:
            with self.subTest(sentence), self.assertRaises(kvrail.Invalid) as caught:
                call()
            self.assertIn(sentence, str(caught.exception))
            self.assertIsInstance(caught.exception, ValueError)

    def test_page_ids_of_every_kind(self) -> None:
        ids = array.array("I", [7, 8, 2**32 - 1])
        self.assertIs(values.page_ids(ids), ids)
        for kind in (
            list(ids),
            tuple(ids),
            memoryview(ids),
            iter(list(ids)),
            array.array("q", ids),
        ):
            self.assertEqual(values.page_ids(kind), ids)
        self.assertEqual(len(values.page_ids([])), 0)
        self.assertEqual(values.page_ids(memoryview(ids)[::2]), array.array("I", [7, 2**32 - 1]))

    def test_dense_is_the_formula(self) -> None:
        region = kvrail.Region(
            layer_count=4, head_count=2, page_tokens=16, page_count=128, head_bytes=128
        ).dense()
        self.assertEqual(region.token_stride, 2 * 128)
        self.assertEqual(region.page_stride, 16 * 2 * 128)
        self.assertEqual(region.part_stride, 128 * region.page_stride)
        self.assertEqual(region.layer_stride, 2 * region.part_stride)
        self.assertEqual(region.bytes, 4 * region.layer_stride)
        self.assertEqual(region.parts, (kvrail.Part.K, kvrail.Part.V))

    def test_allocations_become_an_array(self) -> None:
        own = kvrail.Region(
            allocations=[kvrail.Allocation(3, 4096), kvrail.Allocation(4, 8192)]
        ).to_c()
        self.assertEqual(own.allocation_count, 2)
        self.assertEqual(
            [(own.allocations[i].fd, own.allocations[i].bytes) for i in (0, 1)],
            [(3, 4096), (4, 8192)],
        )
        self.assertEqual(own.allocations[1].size, 16)

    def test_a_device_pointer_needs_a_driver_or_memory(self) -> None:
        for dmabuf in (False, True):
            with self.assertRaises(kvrail.KvrailError) as caught:
                kvrail.Region(bytes=4096).of_device(1 << 40, dmabuf=dmabuf)
            self.assertLess(caught.exception.status, 0)
            self.assertGreater(len(caught.exception.detail), 20)


class Errors(unittest.TestCase):
    def test_each_status_has_its_class_and_sentence(self) -> None:
        classes = {"AGAIN": kvrail.Again, "INVALID": kvrail.Invalid, "TIMED_OUT": kvrail.TimedOut}
        for status in kvrail.Status:
            if status is not kvrail.Status.OK:
                error = errors.error_of(status)
                self.assertIsInstance(error, classes.get(status.name, kvrail.KvrailError))
                self.assertEqual(str(error), kvrail.status_text(status))
                self.assertEqual(kvrail.status_name(status) == "?", False)

    def test_later_statuses_and_events_have_a_name(self) -> None:
        self.assertEqual(kvrail.Status(-1234).name, "UNKNOWN_MINUS_1234")
        self.assertEqual(kvrail.EventKind(77).name, "UNKNOWN_77")
        self.assertEqual(errors.error_of(-1234).status, -1234)
        self.assertEqual(kvrail.status_name(-1234), "?")

    def test_the_sentence_of_another_failure_is_not_taken(self) -> None:
        said = _abi.kvrail_error(status=kvrail.Status.FULL, detail=b"full of it")
        with self.assertRaises(kvrail.Full) as full:
            errors.check(kvrail.Status.FULL, said)
        self.assertEqual(str(full.exception), "full of it")
        with self.assertRaises(kvrail.Again) as again:
            errors.check(kvrail.Status.AGAIN, said)
        self.assertNotIn("full of it", str(again.exception))

    def test_errors_go_to_other_processes(self) -> None:
        error = pickle.loads(pickle.dumps(kvrail.AgentLost(-61, "gone", 5)))
        self.assertEqual(
            (type(error), error.status, str(error), error.os_errno),
            (kvrail.AgentLost, -61, "gone", 5),
        )

    def test_names(self) -> None:
        self.assertEqual(kvrail.event_name(kvrail.EventKind.LAYER_IN), "layer_in")
        self.assertEqual(kvrail.status_name(kvrail.Status.PEER_LOST), "peer_lost")
        self.assertRegex(kvrail.version(), r"^\d+\.\d+\.\d+")


class Memory(unittest.TestCase):
    def test_memory_is_zeroed_shared_and_given_back(self) -> None:
        with kvrail.Memory("test", 5000) as memory:
            self.assertEqual(memory.bytes % os.sysconf("SC_PAGESIZE"), 0)
            with memory.view as view:
                self.assertEqual(view.nbytes, memory.bytes)
                self.assertEqual(bytes(view[:8]), bytes(8))
                view[7] = 9
                self.assertEqual(os.pread(memory.fd, 8, 0), bytes(7) + b"\x09")
                with self.assertRaises(BufferError):
                    memory.close()
            with self.assertRaises(OSError):
                os.ftruncate(memory.fd, 0)
            fd = memory.fd
        with self.assertRaises(OSError):
            os.fstat(fd)
        memory.close()

    def test_no_memory_of_no_bytes(self) -> None:
        with self.assertRaises(kvrail.Invalid) as caught:
            kvrail.Memory("none", 0)
        self.assertIn("at least one", str(caught.exception))

    def test_no_device_memory_of_no_bytes(self) -> None:
        with self.assertRaises(kvrail.Invalid) as caught:
            kvrail.DeviceMemory(0, 0)
        self.assertIn("at least one", str(caught.exception))


class Library(unittest.TestCase):
    """Copies of the package say which library they took."""

    def run_package(self, folder: str, **environment: str) -> subprocess.CompletedProcess[str]:
        clean = {
            k: v for k, v in os.environ.items() if k not in ("KVRAIL_LIBRARY", "LD_LIBRARY_PATH")
        }
        code = (
            "import kvrail\n"
            "try:\n    kvrail.version()\n"
            "except ImportError as error:\n    raise SystemExit(str(error))\n"
            "print([l.split()[-1] for l in open('/proc/self/maps') if 'libkvrail' in l][0])\n"
        )
        return subprocess.run(
            [sys.executable, "-c", code],
            env={**clean, "PYTHONPATH": folder, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.package = Path(self.folder, "kvrail")
        shutil.copytree(Path(kvrail.__file__).parent, self.package)
        self.built = os.path.realpath(os.environ["KVRAIL_LIBRARY"])

    def test_the_environment_names_it(self) -> None:
        ran = self.run_package(self.folder, KVRAIL_LIBRARY=self.built)
        self.assertEqual(ran.stdout.strip(), self.built, ran.stderr)

    def test_the_one_beside_the_package_comes_first(self) -> None:
        for place in ("libkvrail.so.1", "lib/libkvrail.so.1"):
            beside = self.package / place
            beside.parent.mkdir(exist_ok=True)
            shutil.copy(self.built, beside)
            ran = self.run_package(self.folder, KVRAIL_LIBRARY="/nowhere/libkvrail.so.1")
            self.assertEqual(ran.stdout.strip(), str(beside), ran.stderr)
            beside.unlink()

    def test_the_system_comes_last(self) -> None:
        ran = self.run_package(self.folder, LD_LIBRARY_PATH=os.path.dirname(self.built))
        self.assertEqual(ran.stdout.strip(), self.built, ran.stderr)

    def test_without_one_there_is_a_sentence(self) -> None:
        ran = self.run_package(self.folder, KVRAIL_LIBRARY="/nowhere/libkvrail.so.1")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("Set KVRAIL_LIBRARY to the path of libkvrail.so.1", ran.stderr)

    def test_another_library_is_refused(self) -> None:
        ran = self.run_package(self.folder, KVRAIL_LIBRARY="libm.so.6")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("libm.so.6 has no kvrail_status_name", ran.stderr)


if __name__ == "__main__":
    harness.main("python.values")
