"""`bulkhead eval precision`: servers of its own, a report, and nothing measured twice."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree

from harness import ROOT, find_binary, quick
from test_eval import MODEL, run_eval, write_conversations

TEXT = ROOT / "docs" / "api.md"


def children_of(process):
    """Process ids of a process's children."""
    path = pathlib.Path(f"/proc/{process}/task/{process}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def wait_for(what, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


@unittest.skipUnless(find_binary(), "needs a built bulkhead")
class EvalPrecision(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="bulkhead-precision-")
        cls.folder = pathlib.Path(cls.temporary.name)
        write_conversations(cls.folder / "data", quick(10, 4))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def words(self, out, *more):
        return ["precision", "--model", str(MODEL), "--data", str(self.folder / "data"), "--tasks",
                "conversations", "--output", str(self.folder / out), "--text", str(TEXT),
                *(() if "--windows" in more else ("--windows", "2")), *more]

    def compare(self, out, *more, code=0):
        done = run_eval(*self.words(out, *more))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_a_pair_is_measured_once_and_reported(self):
        out = self.folder / "pair"
        self.compare("pair", "--pairs", "bf16/fp8kv")
        report = json.loads((out / "report.json").read_text())
        (pair,) = report["pairs"]
        self.assertEqual(len(pair["drift"]), 8)
        for bucket in pair["drift"]:
            self.assertEqual(bucket["positions"], 2 * 64)
            self.assertTrue(0 < bucket["kl_at_least"] < 0.2, bucket)
            self.assertGreater(bucket["same_first"], 0.8)
            self.assertTrue(0.5 < bucket["named"] <= 1, bucket)
        verdicts = {one["measure"]: one["verdict"] for one in pair["verdicts"]}
        self.assertEqual(set(verdicts), {"acc", "valid_calls"})
        self.assertIn("not resolved by", verdicts["acc"])
        for one in report["precisions"]:
            self.assertGreaterEqual(one["tasks"][0]["figures"]["acc"], 0.75)
        text = (out / "report.md").read_text()
        self.assertIn("## Verdicts", text)
        self.assertIn("FP8", text)
        for name in ("accuracy.svg", "drift-bf16-fp8kv.svg"):
            self.assertIn(f"({name})", text)
            root = xml.etree.ElementTree.parse(out / name).getroot()
            self.assertTrue(root.findall(".//{http://www.w3.org/2000/svg}circle"), name)
        # The results are those of `bulkhead eval`.
        same = run_eval("compare", str(out / "bf16.json"), str(out / "fp8kv.json"))
        self.assertEqual(same.returncode, 0, same.stderr)
        self.nothing_is_measured_again(out)
        self.what_is_not_whole_is_refused(out)

    def nothing_is_measured_again(self, out):
        names = ("bf16.json", "bf16.likely.json", "fp8kv.json", "fp8kv.likely.json")
        before = {name: (out / name).stat().st_mtime_ns for name in names}
        again = self.compare("pair", "--pairs", "bf16/fp8kv")
        self.assertNotIn("drift", again.stderr)
        self.assertNotIn("conversations", again.stderr)
        self.compare("pair", "--pairs", "bf16/fp8kv", "--limit", "4")
        third = self.compare("pair", "--pairs", "bf16/int4")
        self.assertEqual(third.stderr.count("drift 2 of 2"), 1)
        self.assertEqual(before, {name: (out / name).stat().st_mtime_ns for name in names})

    def what_is_not_whole_is_refused(self, out):
        other = self.compare("pair", "--pairs", "bf16/fp8kv", "--windows", "1", code=2)
        self.assertIn("made by other means", other.stderr)
        for name in ("fp8kv.json", "fp8kv.likely.json"):
            whole = (out / name).read_text()
            (out / name).write_text(whole[: len(whole) // 2])
            done = self.compare("pair", "--pairs", "bf16/fp8kv", code=2)
            self.assertIn(name, done.stderr)
            self.assertIn("remove the file", done.stderr)
            (out / name).write_text(whole)
        self.compare("pair", "--pairs", "bf16/fp8kv")
        # Of another precision: a file under the wrong name.
        (out / "fp8kv.json").write_text((out / "bf16.json").read_text())
        done = self.compare("pair", "--pairs", "bf16/fp8kv", code=2)
        self.assertIn("cache bf16 against fp8_e4m3", done.stderr)

    def test_its_server_ends_with_it_and_the_same_command_goes_on(self):
        words = [find_binary(), "eval", *self.words("killed", "--pairs", "bf16/fp8kv")]
        with open(self.folder / "killed.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log)
        (server,) = wait_for(lambda: children_of(process.pid))
        wait_for(lambda: os.getpgid(server) != os.getpgid(process.pid))
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_for(lambda: not pathlib.Path(f"/proc/{server}").exists())
        self.compare("killed", "--pairs", "bf16/fp8kv")
        self.assertFalse(list((self.folder / "killed").glob("*.journal")))

    def test_what_is_wrong_is_said(self):
        for words, told in (
            (("--pairs", "bf16/fp4"), "there are bf16, fp8kv"),
            (("--pairs", "bf16"), "is no pair"),
            (("--pairs", "bf16/fp8kv", "--windows", "0"), "--windows"),
        ):
            self.assertIn(told, self.compare("wrong", *words, code=2).stderr)
        done = run_eval("precision", "--model", str(MODEL), "--tasks", "conversations", "--data",
                        str(self.folder / "data"), "--output", str(self.folder / "wrong"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("wikitext-2-test.txt", done.stderr)
