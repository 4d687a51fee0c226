"""`bulkhead eval` on the published benchmarks, for continuous integration: a hundred fixed
questions of each against a kept result, which the model passes and a damaged scale does not.

baselines/README.md says what the kept result is, and how to make another. Needs BULKHEAD_SHARED
with data/eval.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import Server, find_binary, find_model, quick
from test_bench_replay import SHARED
from test_eval import run_eval, scale_by

DATA = SHARED / "data"
BASELINE = pathlib.Path(__file__).parent / "baselines" / "smollm2-135m-fp8.json"
FLAGS = ["--kv-cache-memory", "256MiB", "--page-size", "16", "--context-length", "4096"]
# One example each: what is to be seen are the answers, and eight examples cost eight times as much.
ONE_SHOT, AS_THEY_ARE = ("gsm8k", "mmlu"), ("arc_challenge", "arc_easy", "bfcl")
LIMIT = 100
DAMAGED = "model.layers.2.mlp.down_proj.weight_scale_inv"


def compact(tasks):
    """What comparing needs of a result, one question a line and none of its words."""
    kept = []
    for task in tasks:
        head = {name: task[name] for name in
                ("task", "model", "settings", "questions_digest", "scoring", "figures")}
        questions = ",\n".join(json.dumps({"id": one["id"], "measures": one["measures"]})
                               for one in task["questions"])
        kept.append(json.dumps(head)[:-1] + f', "questions": [\n{questions}]}}')
    return '{"bulkhead_eval": 1, "tasks": [\n' + ",\n".join(kept) + "]}\n"


@unittest.skipUnless(find_binary(), "needs a built bulkhead")
@unittest.skipUnless(find_model(), "needs the fetched SmolLM2")
@unittest.skipUnless((DATA / "eval").exists(), "needs BULKHEAD_SHARED with data/eval")
class Published(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="bulkhead-eval-published-")
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.model = cls.folder / "smollm2-fp8"
        subprocess.run([find_binary(), "quantize", find_model(), str(cls.model), "--recipe", "fp8"],
                       check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def tasks_of(self, server, limit, tasks, *words):
        out = self.folder / "tasks.json"
        done = run_eval(*tasks, "--data", str(DATA), "--url", server.url, "--limit", str(limit),
                        "--output", str(out), *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(out.read_text())["tasks"]

    def result(self, name, parts):
        """The file of a run of `parts`: (limit, tasks, options)."""
        server = Server(FLAGS, model=str(self.model))
        try:
            tasks = [task for limit, names, words in parts
                     for task in self.tasks_of(server, limit, names, *words)]
        finally:
            self.assertEqual(server.stop(), 0)
        path = self.folder / f"{name}.json"
        path.write_text(compact(tasks))
        return path

    def compare(self, after):
        out = self.folder / "compared.json"
        done = run_eval("compare", str(BASELINE), str(after), "--fail-on-loss", "--output",
                        str(out))
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        shares = {(one["task"], one["measure"]): one
                  for one in json.loads(out.read_text())["shares"]}
        return done, shares

    def test_the_model_passes_and_a_damaged_scale_does_not(self):
        few, more = quick(LIMIT, 2), quick(LIMIT, 10)
        result = self.result("good", (
            (few, ONE_SHOT, ("--shots", "1")), (few, AS_THEY_ARE, ())))
        if os.environ.get("BULKHEAD_KEEP_BASELINE"):
            BASELINE.write_text(result.read_text())
        good, shares = self.compare(result)
        self.assertEqual(good.returncode, 0, good.stdout + good.stderr)
        self.assertEqual({task for task, _ in shares}, {*ONE_SHOT, *AS_THEY_ARE})
        # Every question is one of the kept ones: 2 and 10 divide 100.
        for one in shares.values():
            self.assertEqual(one["questions"], few, one)
        scale_by(self.model / "model.safetensors", DAMAGED, 4)
        bad, shares = self.compare(self.result("damaged", ((more, ("arc_easy",), ()),)))
        self.assertGreater(len(shares["arc_easy", "acc"]["lost"]), 0)
        if more == LIMIT:
            self.assertEqual(bad.returncode, 1, bad.stdout + bad.stderr)
            self.assertIn("fell by more than chance: arc_easy acc", bad.stderr)
