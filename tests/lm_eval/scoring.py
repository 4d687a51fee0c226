"""`bulkhead eval` and lm-eval from PyPI, asked the same questions of the same answers.

Both measure stub_server.py. For every question the prompts must be the same, and so must be every
measure; then the figures of each task. Questions are a few of our own, and, where BULKHEAD_SHARED
has them, some of the published ones. Run by hand: it shares run.py's environment.
"""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import run
from stub_server import Stub

sys.path.insert(0, str(run.HERE.parent / "e2e"))
import harness  # noqa: E402

PROBLEMS = [
    {"question": f"Ada has {n} apples and buys {n + 3} more. How many are there?",
     "answer": f"{n} + {n + 3} = {2 * n + 3}.\n#### {2 * n + 3}"}
    for n in range(2, 32)
]
FACTS = [
    ("Which of these is cold? ", ["ice", "a burning house", "the sun", "steam"], 0),
    (" Which flies, say the books?", ["a stone", "a crow", "Zürich", "a cow, \"Bess\""], 1),
    ("What is 2+2?", ["1", "10", "4", "-3"], 2),
    ("Which is largest?", ["a pea", "a plum", "an apple", "a very, very large melon"], 3),
]
PAGES = [
    " = Owls = \n \n Owls ( birds of the night ) hoot . They 're 1 @,@ 000 , say \" some \" . \n",
    " = Larks = \n \n = = Song = = \n The lark 's song is long @-@ lived ; ' it ' rises /' 5/ . \n",
]


def questions():
    """{"problems": (train, test), "mmlu": {subject: (dev, test)}, "arc": items, "pages": texts}"""
    made = {"problems": (PROBLEMS[:8], PROBLEMS[8:]), "pages": PAGES, "arc": FACTS * 3,
            "mmlu": {"high_birds": (FACTS + FACTS[:1], FACTS[::-1]),
                     "sums": (FACTS[::-1] * 2, FACTS)}}
    shared = os.environ.get("BULKHEAD_SHARED")
    data = pathlib.Path(shared) / "data" if shared else None
    if data is None or not (data / "eval").exists():
        print("published questions: skipped, BULKHEAD_SHARED has no data/eval")
        return made
    lines = {name: (data / f"eval/gsm8k/{name}.jsonl").read_text().splitlines()
             for name in ("train", "test")}
    made["problems"] = ([json.loads(line) for line in lines["train"][:8]],
                        [json.loads(line) for line in lines["test"][:60]])
    text = (data / "text/wikitext-2-test.txt").read_text()
    parts = [text[start : start + 9000] for start in range(20000, 200000, 30000)]
    made["pages"] = PAGES + [" = A part = \n" + part.replace("\n = ", "\n ") + "\n"
                             for part in parts]
    return made


def write_data(folder, made):
    """As `bulkhead eval` reads it."""
    import csv

    for name, part in zip(("train", "test"), made["problems"]):
        path = folder / f"eval/gsm8k/{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(problem) + "\n" for problem in part))
    for subject, parts in made["mmlu"].items():
        for name, part in zip(("dev", "test"), parts):
            path = folder / f"eval/mmlu/{name}/{subject}_{name}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", newline="") as file:
                writer = csv.writer(file)
                for question, choices, right in part:
                    writer.writerow([question, *choices, "ABCD"[right]])
    items = []
    for question, choices, right in made["arc"]:
        listed = " ".join(f"Answer{n + 1}: {text}" for n, text in enumerate(choices))
        items.append({"instruction": "Please choose the correct answer to the question: "
                      f"{question.strip()}\n\n{listed}\n\nAnswer format: answer1/answer2",
                      "answer": f"answer{right + 1}"})
    (folder / "eval/arc").mkdir(parents=True)
    (folder / "eval/arc/ARC-Easy-test.json").write_text(json.dumps(items))
    (folder / "text").mkdir()
    # A blank line stands before each title, as in the published file; it ends the page before.
    pages = "".join(page + " \n" for page in made["pages"])
    (folder / "text/wikitext-2-test.txt").write_text(pages)


def write_tasks(folder, made):
    """lm-eval's own tasks on the same questions; returns their names."""
    package = next((run.VENV / "lib").glob("python3*/site-packages/lm_eval/tasks"))

    def task(name, include, splits, **more):
        files = {}
        for split, documents in splits.items():
            files[split] = str(folder / f"{name}_{split}.jsonl")
            pathlib.Path(files[split]).write_text(
                "".join(json.dumps(document) + "\n" for document in documents))
        lines = {"include": str(package / include), "task": name, "tag": "own",
                 "dataset_path": "json", "dataset_name": None,
                 "dataset_kwargs": {"data_files": files}, **more}
        # YAML reads JSON.
        (folder / f"{name}.yaml").write_text(
            "".join(f"{key}: {json.dumps(value)}\n" for key, value in lines.items()))
        return name

    arc = [{"question": question.strip(), "answerKey": "ABCD"[right],
            "choices": {"text": choices, "label": list("ABCD")}}
           for question, choices, right in made["arc"]]
    names = [
        task("own_gsm8k", "gsm8k/gsm8k.yaml",
             dict(zip(("train", "test"), made["problems"])), num_fewshot=8,
             fewshot_config={"sampler": "first_n"}),
        task("own_arc", "arc/arc_easy.yaml", {"test": arc}, training_split=None,
             validation_split=None),
        task("own_wikitext", "wikitext/wikitext.yaml",
             {"test": [{"page": page + " \n"} for page in made["pages"]]}, training_split=None,
             validation_split=None),
    ]
    for subject, parts in made["mmlu"].items():
        documents = {name: [{"question": q, "choices": c, "answer": a} for q, c, a in part]
                     for name, part in zip(("dev", "test"), parts)}
        about = subject.replace("_", " ")
        names.append(task(f"own_mmlu_{subject}", "mmlu/default/_default_template_yaml", documents,
                          num_fewshot=5, description="The following are multiple choice questions "
                          f"(with answers) about {about}.\n\n"))
    return names


def run_lm_eval(stub, folder, names):
    environment = {**os.environ, "HF_HOME": str(folder / "hub"), "HF_HUB_OFFLINE": "1",
                   "OPENAI_API_KEY": ""}
    command = [str(run.VENV / "bin" / "lm_eval"), "run", "--model", "local-completions"]
    command += ["--model_args", f"base_url={stub.url}/v1/completions", "model=stub"]
    command += ["--include_path", str(folder), "--tasks", ",".join(names)]
    command += ["--output_path", str(folder / "out"), "--log_samples"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"lm_eval ended with {done.returncode}:\n{done.stderr[-4000:]}")
    (results,) = (folder / "out").rglob("results_*.json")
    samples = {}
    for name in names:
        (path,) = (folder / "out").rglob(f"samples_{name}_*.jsonl")
        samples[name] = [json.loads(line) for line in path.read_text().splitlines()]
        samples[name].sort(key=lambda sample: (sample["doc_id"], sample.get("filter", "")))
    return json.loads(results.read_text())["results"], samples


class Scoring(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="bulkhead-scoring-")
        folder = pathlib.Path(cls.temporary.name)
        cls.stub = Stub()
        cls.made = questions()
        write_data(folder / "data", cls.made)
        names = write_tasks(folder, cls.made)
        cls.figures, cls.samples = run_lm_eval(cls.stub, folder, names)
        cls.lm_prompts = sorted(set(cls.stub.prompts))
        cls.stub.prompts.clear()
        done = subprocess.run(
            [harness.find_binary(), "eval", "gsm8k", "mmlu", "arc_easy", "wikitext", "--url",
             cls.stub.url, "--data", str(folder / "data"), "--output", str(folder / "own.json"),
             "--concurrency", "4"], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        tasks = json.loads((folder / "own.json").read_text())["tasks"]
        cls.own = {task["task"]: task for task in tasks}

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()
        cls.stub.shutdown()
        cls.stub.server_close()

    def test_both_asked_the_same_prompts(self):
        # Beside what lm-eval asks, letters are looked for among the likely next tokens ("A" is the
        # look at the server).
        ours = set(self.stub.prompts) - {b"A"}
        self.assertGreater(len(self.lm_prompts), 100)
        self.assertEqual([p for p in self.lm_prompts if p not in ours][:1], [])
        self.assertEqual([p for p in sorted(ours) if p not in self.lm_prompts][:1], [])

    def test_numbers_are_extracted_and_matched_alike(self):
        by_filter = {}
        for sample in self.samples["own_gsm8k"]:
            by_filter.setdefault(sample["filter"], []).append(sample)
        for name, measure in (("strict-match", "exact_match_strict"),
                              ("flexible-extract", "exact_match_flexible")):
            theirs = by_filter[name]
            self.assertEqual(len(theirs), len(self.own["gsm8k"]["questions"]))
            for sample, own in zip(theirs, self.own["gsm8k"]["questions"]):
                self.assertEqual(sample["resps"][0][0], own.get("text", ""))
                self.assertEqual(sample["exact_match"], own["measures"][measure], own)
                if name == "flexible-extract":
                    self.assertEqual(sample["filtered_resps"][0], own["answer"])
            self.assertAlmostEqual(self.figures["own_gsm8k"][f"exact_match,{name}"],
                                   self.own["gsm8k"]["figures"][measure]["value"])

    def assert_choices(self, theirs, ours, measures):
        self.assertEqual(len(theirs), len(ours))
        for sample, own in zip(theirs, ours):
            scores = [float(response[0]) for response in sample["filtered_resps"]]
            for one, other in zip(scores, own["scores"], strict=True):
                self.assertAlmostEqual(one, other, places=9)
            for measure in measures:
                self.assertEqual(sample[measure], own["measures"][measure], own)

    def test_choices_are_weighed_alike(self):
        ours = self.own["arc_easy"]
        self.assert_choices(self.samples["own_arc"], ours["questions"], ("acc", "acc_norm"))
        for measure in ("acc", "acc_norm"):
            self.assertAlmostEqual(self.figures["own_arc"][f"{measure},none"],
                                   ours["figures"][measure]["value"])
            self.assertAlmostEqual(self.figures["own_arc"][f"{measure}_stderr,none"],
                                   ours["figures"][measure]["standard_error"])

    def test_subjects_are_scored_alike(self):
        ours = self.own["mmlu"]
        for subject in self.made["mmlu"]:
            questions = [q for q in ours["questions"] if q["group"] == subject]
            self.assert_choices(self.samples[f"own_mmlu_{subject}"], questions, ("acc",))
            self.assertAlmostEqual(self.figures[f"own_mmlu_{subject}"]["acc,none"],
                                   ours["groups"][subject]["figures"]["acc"]["value"])

    def test_texts_have_the_same_perplexity(self):
        ours = self.own["wikitext"]
        theirs = self.samples["own_wikitext"]
        self.assertEqual(len(theirs), len(ours["questions"]))
        for sample, own in zip(theirs, ours["questions"]):
            score, words = sample["word_perplexity"]
            self.assertAlmostEqual(score, own["measures"]["loglikelihood"], places=6)
            self.assertEqual(words, own["measures"]["words"])
            self.assertEqual(sample["byte_perplexity"][1], own["measures"]["bytes"])
        for name in ("word_perplexity", "byte_perplexity", "bits_per_byte"):
            value = ours["figures"][name]["value"]
            self.assertTrue(math.isclose(self.figures["own_wikitext"][f"{name},none"], value,
                                         rel_tol=1e-9), name)


def main():
    if harness.find_binary() is None:
        print("skipped: no binary; build it, or name one with BULKHEAD_BIN")
        return run.SKIPPED
    run.make_venv()
    program = unittest.main(argv=[sys.argv[0], "-v"], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
