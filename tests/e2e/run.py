"""Runs the end-to-end suite: python tests/e2e/run.py [MODULE...] [unittest arguments].

Without a module, all of them. harness.py says what the environment chooses.
"""

import collections
import itertools
import os
import pathlib
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import harness  # noqa: E402

SKIPPED = 77  # what ctest counts as skipped


class TimedResult(unittest.TextTestResult):
    """Counts for each test what passed since the one before it ended: its class's server too."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.seconds = collections.Counter()
        self._last = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        now = time.monotonic()
        self.seconds[type(test).__module__ + "." + type(test).__name__] += now - self._last
        self._last = now

    def print_slowest(self, count):
        for name, seconds in self.seconds.most_common(count):
            print(f"{seconds:7.1f} s  {name}")


class TimedRunner(unittest.TextTestRunner):
    resultclass = TimedResult


def unittest_arguments(words):
    modules = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    where = modules or ["discover", "-s", str(HERE)]
    return [*where, "-v", *words[len(modules):]]


def main():
    if not os.environ.get("BULKHEAD_URL") and not harness.can_start_servers():
        print("skipped: no server to test; set BULKHEAD_URL, or build the binary and get the model")
        return SKIPPED
    try:
        program = unittest.main(
            module=None,
            argv=[sys.argv[0], *unittest_arguments(sys.argv[1:])],
            testRunner=TimedRunner,
            exit=False,
        )
        program.result.print_slowest(20)
    finally:
        code = harness.stop_shared_server()
    if code != 0:
        print(f"the server ended with exit code {code}")
        return 1
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
