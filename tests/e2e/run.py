"""Runs the end-to-end suite: python tests/e2e/run.py [unittest arguments].

harness.py says what the environment chooses.
"""

import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import harness  # noqa: E402

SKIPPED = 77  # what ctest counts as skipped


def main():
    if not os.environ.get("BULKHEAD_URL") and not harness.can_start_servers():
        print("skipped: no server to test; set BULKHEAD_URL, or build the binary and get the model")
        return SKIPPED
    try:
        program = unittest.main(
            module=None,
            argv=[sys.argv[0], "discover", "-s", str(HERE), "-v", *sys.argv[1:]],
            exit=False,
        )
    finally:
        code = harness.stop_shared_server()
    if code != 0:
        print(f"the server ended with exit code {code}")
        return 1
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
