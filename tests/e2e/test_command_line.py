"""What commands refuse before they do anything, with exit code 2 and the reason: numbers that are
none, sizes of nothing. And what a plan says that nobody gave."""

import os
import subprocess
import tempfile
import unittest

from harness import ROOT, find_binary

CONFIG = str(ROOT / "tests" / "golden" / "configs" / "kimi-k2.6.json")
MODEL = str(ROOT / "models" / "tiny-moe")
SECONDS = 60


def run(*arguments):
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("BULKHEAD_")
    }
    return subprocess.run(
        [find_binary(), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=SECONDS,
        check=False,
    )


@unittest.skipUnless(find_binary(), "needs a built bulkhead")
class CommandLine(unittest.TestCase):
    def assert_refused(self, reason, *arguments):
        with self.subTest(arguments):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(reason, done.stderr)

    def test_what_is_no_number_is_in_no_range(self):
        for option in ("--memory-fraction", "--decode.throughput", "--against.throughput"):
            for text in ("nan", "-nan", "inf"):
                self.assert_refused(
                    f"{option}: {text} is not a number", "plan", CONFIG, option, text)
        for text in ("nan", "inf", "2.5x", "0"):
            self.assert_refused("--price", "plan", CONFIG, "--price", text)
        self.assert_refused("nan is not a number", "generate", MODEL, "-p", "a",
                            "--temperature", "nan")
        self.assert_refused("nan is not a number", "bench", "serve", "--rate", "nan")
        self.assert_refused("2.5 is not in 0 to 2", "chat", "--temperature", "2.5")

    def test_a_size_of_nothing_is_refused_with_the_least_there_is(self):
        least = "0 is too small a size; at least 64K"
        self.assert_refused("--memory: " + least, "plan", CONFIG, "--memory", "0")
        for option in ("--kv-cache-memory", "--prefill.kv-cache-memory",
                       "--decode.kv-cache-memory"):
            self.assert_refused(f"{option}: {least}", "serve", MODEL, "--dry-run",
                                "--placement", "split", option, "0")
        with tempfile.TemporaryDirectory() as folder:
            self.assert_refused("--shard-size: 63K is too small a size; at least 64K", "quantize",
                                MODEL, folder + "/out", "--recipe", "fp8", "--shard-size", "63K")
            self.assertFalse(os.path.exists(folder + "/out"))

    def test_a_quick_reproduction_has_its_own_rounds_and_context(self):
        for option, value in (("--rounds", "5"), ("--context", "256")):
            self.assert_refused("excludes", "bench", "reproduce", "--quick", option, value)

    def test_a_plan_says_whose_memory_it_counts(self):
        model = ("plan", MODEL)
        self.assertIn("(this machine's)", run(*model).stdout)
        given = run(*model, "--memory", "1G", "--decode.kv", "fp8_e4m3", "--prefill.kv", "auto")
        self.assertEqual(given.returncode, 0, given.stderr)
        self.assertIn("1 rank of 1.0 GiB (given), 85 % of it for weights and cache (default)",
                      given.stdout)


if __name__ == "__main__":
    unittest.main()
