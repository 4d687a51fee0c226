"""bulkhead drill: what it shows with checks and without, whom it leaves alone, and that it leaves
nothing behind."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import ROOT, Server, find_binary

MODEL = str(ROOT / "models" / "tiny-moe")
SECONDS = 600
FAULTS = (
    "stale_mapping",
    "overwritten_entry",
    "out_of_range_id",
    "wrong_order",
    "permuted_table",
    "double_allocation",
    "missed_reference",
    "tag_flip",
    "wrong_label",
    "page_flip",
    "tail_flip",
)


class Drilled:
    """One run: exit code, output, and the rows of its JSON, if it got so far."""

    def __init__(self, *arguments, environment=None):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "matrix.json"
            scratch = pathlib.Path(folder) / "scratch"
            scratch.mkdir()
            clean = {k: v for k, v in os.environ.items() if not k.startswith("BULKHEAD_")}
            done = subprocess.run(
                [find_binary(), "drill", *arguments, "--json", str(path)],
                capture_output=True,
                text=True,
                env={**clean, "TMPDIR": str(scratch), **(environment or {})},
                timeout=SECONDS,
                check=False,
            )
            self.left_behind = list(scratch.iterdir())
            self.matrix = json.loads(path.read_text()) if path.exists() else None
        self.code, self.out, self.errors = done.returncode, done.stdout, done.stderr

    @property
    def rows(self):
        return {(row["fault"], row["pool"]): row for row in self.matrix["rows"]}

    def told(self):
        return f"exit code {self.code}\n{self.out}\n{self.errors[-3000:]}"


def only(*faults):
    return [word for fault in faults for word in ("--fault", fault)]


@unittest.skipUnless(find_binary(), "needs a built bulkhead")
class Drill(unittest.TestCase):
    maxDiff = 4000

    def test_every_fault_is_met_as_it_should_be(self):
        drilled = Drilled("--model", MODEL, "--rounds", "1")
        self.assertEqual(drilled.code, 0, drilled.told())
        self.assertEqual(drilled.left_behind, [])
        rows = drilled.rows
        self.assertEqual(
            set(rows), {("none", "all"), *((fault, "shared") for fault in FAULTS)}
        )
        for (fault, _), row in rows.items():
            with self.subTest(fault=fault):
                self.assertTrue(row["pass"], row)
                self.assertIn(f"| {fault} ", drilled.out)
                if fault == "none":
                    self.assertEqual(row["detected_by"], [])
                elif fault == "tail_flip":
                    self.assertEqual(row["verdict"], "not detected, by design")
                else:
                    self.assertEqual(row["verdict"], "detected")
                    self.assertEqual(row["answers"]["wrong"], 0)
                    self.assertTrue(row["detected_by"])
        self.assertGreater(rows["tag_flip", "shared"]["answers"]["ended"], 0)
        self.assertIn("- tail_flip: a digest is taken when a page is full", drilled.out)
        self.assertIn(f"[12/12] {FAULTS[-1]}", drilled.errors)

    def test_both_pools_of_the_split_placement(self):
        faults = ("stale_mapping", "permuted_table", "wrong_label")
        drilled = Drilled(
            "--model", MODEL, "--placement", "split", "--rounds", "1", *only(*faults)
        )
        self.assertEqual(drilled.code, 0, drilled.told())
        self.assertEqual(
            set(drilled.rows),
            {
                ("none", "all"),
                ("stale_mapping", "prefill"),
                ("stale_mapping", "decode"),
                ("permuted_table", "prefill"),
                ("permuted_table", "decode"),
                ("wrong_label", "prefill"),
                ("wrong_label", "decode"),
            },
        )

    def test_without_checks_faults_do_harm(self):
        drilled = Drilled(
            "--model",
            MODEL,
            "--kv-integrity",
            "off",
            "--rounds",
            "1",
            *only("overwritten_entry", "wrong_order"),
        )
        self.assertEqual(drilled.code, 0, drilled.told())
        harm = 0
        for (fault, _), row in drilled.rows.items():
            self.assertEqual(row["detected_by"], [], fault)
            harm += row["answers"]["wrong"] + bool(row["server_ended"])
        self.assertGreater(harm, 0, drilled.told())
        self.assertIn("the checks are needed", drilled.out)

    def test_observing_notices_and_goes_on(self):
        drilled = Drilled(
            "--model",
            MODEL,
            "--kv-integrity",
            "observe",
            "--rounds",
            "1",
            *only("tag_flip", "wrong_label"),
        )
        self.assertEqual(drilled.code, 0, drilled.told())
        rows = drilled.rows
        for fault in ("tag_flip", "wrong_label"):
            self.assertTrue(rows[fault, "shared"]["verdict"].startswith("noticed"), drilled.told())
            self.assertEqual(rows[fault, "shared"]["answers"]["ended"], 0)

    def test_a_running_server_is_drilled_only_if_it_was_started_for_it(self):
        flags = ("--kv-integrity", "abort", "--admin-key", "the-admin-key")
        with tempfile.NamedTemporaryFile("w", suffix=".key") as key_file:
            key_file.write("the-admin-key\n")
            key_file.flush()
            for injects in (True, False):
                server = Server([*flags, *(["--inject-faults"] if injects else [])], model=MODEL)
                try:
                    url = ["--url", server.url]
                    key = ["--admin-key-file", key_file.name]
                    drilled = Drilled(*url, *key, "--rounds", "1", *only("tag_flip"))
                    if injects:
                        self.assertEqual(drilled.code, 0, drilled.told())
                        wrong = Drilled(*url, environment={"BULKHEAD_ADMIN_KEY": "another"})
                        self.assertEqual(wrong.code, 2, wrong.told())
                        self.assertIn("answered 403", wrong.errors)
                    else:
                        self.assertEqual(drilled.code, 2, drilled.told())
                        self.assertIn("was not started with --inject-faults", drilled.errors)
                finally:
                    self.assertEqual(server.stop(), 0)

    def test_a_server_that_watches_nothing_is_left_alone(self):
        server = Server(["--inject-faults"], model=MODEL)
        try:
            drilled = Drilled("--url", server.url)
            self.assertEqual(drilled.code, 2, drilled.told())
            self.assertIn("watches no pages", drilled.errors)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_command_lines_that_are_none_are_refused(self):
        for reason, arguments in (
            ("which server?", ()),
            ("--fault", ("--model", MODEL, "--fault", "earthquake")),
            ("--placement", ("--url", "http://127.0.0.1:1", "--placement", "split")),
            ("--model", ("--url", "http://127.0.0.1:1", "--model", MODEL)),
            ("--rounds", ("--model", MODEL, "--rounds", "0")),
            ("did not start", ("--model", str(ROOT / "README.md"))),
        ):
            with self.subTest(arguments):
                drilled = Drilled(*arguments)
                self.assertEqual(drilled.code, 2, drilled.told())
                self.assertIn(reason, drilled.errors)
                self.assertEqual(drilled.left_behind, [])


if __name__ == "__main__":
    unittest.main()
