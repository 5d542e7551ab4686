"""Runs the cases of one file and ends with the line `NAME: N passed, N failed, N skipped`."""

import sys
import unittest


def main(name: str, classes: list[type[unittest.TestCase]] | None = None) -> None:
    """Of all classes, or of these."""
    loader = unittest.defaultTestLoader
    if classes is None:
        cases = loader.loadTestsFromModule(sys.modules["__main__"])
    else:
        cases = unittest.TestSuite(map(loader.loadTestsFromTestCase, classes))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(cases)
    bad = [case for case, _ in result.failures + result.errors]
    failed = len(
        {getattr(case, "test_case", case).id() for case in bad}
    )  # a case may have sub-tests
    failed += len(result.unexpectedSuccesses)
    skipped = len(result.skipped)
    passed = result.testsRun - failed - skipped
    print(f"{name}: {passed} passed, {failed} failed, {skipped} skipped", flush=True)
    if failed == 0 and passed == 0 and skipped > 0:
        sys.exit(77)
    sys.exit(0 if failed == 0 and passed > 0 else 1)
