"""`bulkhead bench reproduce --quick` on tiny models: every row is there as soon as it is measured,
and what is not about speed holds; models that are not there are named with what makes them.

    reproduce_test.py path/to/bulkhead
"""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "checkpoints"))
import make_random_checkpoint as make  # noqa: E402
import presets  # noqa: E402
import shapes  # noqa: E402

BULKHEAD = pathlib.Path()
FP8, INT4 = "fp8,head=fp8", "int4,head=int4"  # what weights are compared in


def reproduce(*arguments, **streams):
    streams = streams or {"capture_output": True}
    return subprocess.run([BULKHEAD, "bench", "reproduce", *arguments], text=True, timeout=300,
                          check=False, **streams)


def write_tiny_models(folder):
    for name in ("nano", "nano-L"):
        config = presets.PRESETS[name]
        experts = config["model_type"] not in shapes.DENSE
        with contextlib.redirect_stdout(io.StringIO()):
            make.write_checkpoint(config, make.Store("bf16", experts), 1,
                                  pathlib.Path(folder) / name)


class Reproduce(unittest.TestCase):
    def test_missing_models_are_named_with_what_makes_them(self):
        with tempfile.TemporaryDirectory() as folder:
            run = reproduce("--models", folder)
        self.assertEqual(run.returncode, 2)
        for name in ("mini-K", "mini-L", "mini-G"):
            self.assertIn(f"make_random_checkpoint.py {name} {folder}/{name}", run.stderr)

    def test_a_model_that_is_used_twice_is_named_once(self):
        with tempfile.TemporaryDirectory() as folder:
            run = reproduce("--quick", "--models", folder)
        self.assertEqual(run.returncode, 2)
        self.assertEqual(run.stderr.count("make_random_checkpoint.py"), 2, run.stderr)
        self.assertEqual(run.stderr.count(f"{folder}/nano\n"), 1, run.stderr)

    def test_a_quick_run_prints_every_row_and_judges_no_speed(self):
        with tempfile.TemporaryDirectory() as folder:
            write_tiny_models(folder)
            run = reproduce("--quick", "--models", folder, "--json", f"{folder}/run.json",
                            "--history", f"{folder}/history.jsonl")
            written = json.loads(pathlib.Path(folder, "run.json").read_text(encoding="utf-8"))
            history = pathlib.Path(folder, "history.jsonl").read_text(encoding="utf-8")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        rows = [line.split(" | ") for line in run.stdout.splitlines() if line.startswith("| ")][1:]
        published = [row[0] for row in rows]
        for text in ("resident tokens", "33rd request", "64 requests", "INT4 decode +55 %",
                     "INT4 decode +21 %", "INT4 decode +16 %", "INT4 prefill", "FP8 prefill",
                     "FP8 peak", "equal concurrency", "hybrid", "with decode of INT4",
                     "twice the prefill", "705 -> 421", "88 -> 52.6", "1.18 M", "686 k -> 1.37 M",
                     "30 % cheaper", "integrity check costs"):
            self.assertTrue(any(text in one for one in published), text + "\n" + run.stdout)
        figures = [json.loads(line) for line in history.splitlines()]
        names = [figure["figure"] for figure in figures]
        self.assertEqual(len(names), len(set(names)), "each figure is one history")
        ratios = [row for row in rows if "x [" in row[2]]
        self.assertEqual(sorted(names),
                         sorted(f"{row[0].removeprefix('| ')} ({row[1]})" for row in ratios))
        self.assertEqual({(figure["bench"], figure["unit"]) for figure in figures},
                         {("reproduce", "x")})
        measured = [row[1] for row in rows if row[0].startswith("| INT4 decode")]
        self.assertEqual(sum(f"{INT4} x int8 / {FP8}" in one for one in measured), 3, run.stdout)
        self.assertEqual(sum(f"{INT4} / {FP8}" in one for one in measured), 3, run.stdout)
        for row in rows:
            judged = "planned" in row[1] or row[0].removeprefix("| ") in (
                "2.0x resident tokens", "BF16 cannot admit the 33rd request",
                "FP8 reaches 64 requests")
            self.assertTrue(row[4].startswith("holds" if judged else "reported"), row)
        self.assertEqual(len(written["rows"]), len(rows))
        requests = {curve["name"]: [point["requests"] for point in curve["points"]]
                    for curve in written["curves"]}
        self.assertEqual(requests["BF16 cache"], [1, 2, 4, 8, 16, 32])
        for name in ("FP8 cache", FP8, INT4, f"{INT4} x int8"):
            self.assertEqual(requests[name], [1, 2, 4, 8, 16, 32, 64], name)

    def test_parts_are_measured_alone_and_ask_for_their_models_only(self):
        with tempfile.TemporaryDirectory() as folder:
            run = reproduce("--only", "sizes", "--models", folder)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            self.assertIn("sizes 0.0: about 0 minutes", run.stderr)
            self.assertEqual(run.stdout.count("| holds |"), 6, run.stdout)
            run = reproduce("--quick", "--only", "caches", "--models", folder)
            self.assertEqual(run.returncode, 2)
            self.assertIn("nano-L", run.stderr)
            run = reproduce("--only", "everything", "--models", folder)
            self.assertEqual(run.returncode, 2)
            run = reproduce("--only", "sizes", "--json", f"{folder}/none/run.json")
            self.assertEqual(run.returncode, 1)
            self.assertIn("none/run.json cannot be written", run.stderr)

    def test_the_integrity_part_says_what_the_check_costs_alone_and_in_steps(self):
        with tempfile.TemporaryDirectory() as folder:
            write_tiny_models(folder)
            run = reproduce("--quick", "--only", "integrity", "--models", folder)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        for text in ("mode abort / off", "mode observe / off",
                     "mode off / a step built without a check", "p99 of the time between tokens",
                     "the two comparisons of a step alone, 64 requests of 2 pages",
                     "digests of its FP8 pages by sender and receiver", "8 pairs",
                     "copies of one code", "8 steps less what it took of each; arms apart"):
            self.assertIn(text, run.stdout)
        self.assertNotIn("resident tokens", run.stdout)

    def test_a_row_is_printed_before_the_next_is_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            write_tiny_models(folder)
            run = reproduce("--quick", "--models", folder, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)
        self.assertEqual(run.returncode, 0, run.stdout)
        lines = run.stdout.splitlines()
        first = {word: next(at for at, line in enumerate(lines) if line.startswith(word))
                 for word in ("| 2.0x resident", "filling caches of nano-L", "| INT4 decode",
                              f"loading nano in {INT4} x int8", "| BF16 cannot admit",
                              "deploying nano: prefill fp8, decode fp8 with a cache in fp8_e4m3")}
        self.assertEqual(list(first.values()), sorted(first.values()), run.stdout)


if __name__ == "__main__":
    BULKHEAD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
