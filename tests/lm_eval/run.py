"""lm-eval from PyPI, unmodified, against the server: run.py [--keep FOLDER].

Installs tests/lm_eval/requirements.txt into build/lm_eval_venv at the first run, starts the server
as tests/e2e/harness.py says (BULKHEAD_URL names a running one), has `lm_eval` score the small tasks
of tasks/ with `local-completions`, and recomputes every one of its figures from `prompt_logprobs`.
"""

import argparse
import hashlib
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "e2e"))

import harness  # noqa: E402

SKIPPED = 77
VENV = ROOT / "build" / "lm_eval_venv"
TASKS = ["bulkhead_facts", "bulkhead_texts", "bulkhead_questions"]
# How lm-eval may ask: one prompt a request, several, several requests at once.
SETTINGS = {
    "one by one": [],
    "in batches": ["--batch_size", "4"],
    "at once": ["num_concurrent=4"],  # goes on with --model_args
}


def make_venv(requirements=HERE / "requirements.txt", venv=VENV):
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    stamp = venv / "requirements.sha256"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"installing {requirements} into {venv}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
    pip = [str(venv / "bin" / "pip"), "install", "--disable-pip-version-check", "-q", "--no-deps"]
    subprocess.run([*pip, "-r", str(requirements)], check=True)
    stamp.write_text(wanted)


def run_lm_eval(server, folder, settings):
    """The task's figures and its logged samples, by task."""
    environment = {
        **os.environ,
        "HF_HOME": str(folder / "hub"),
        "HF_HUB_OFFLINE": "1",
        "OPENAI_API_KEY": server.key or "",
    }
    command = [str(VENV / "bin" / "lm_eval"), "run", "--model", "local-completions"]
    where = f"base_url={server.url}/v1/completions"
    command += ["--model_args", where, f"model={model_id(server)}", *settings]
    command += ["--include_path", "tasks", "--tasks", ",".join(TASKS)]
    command += ["--output_path", str(folder / "out"), "--log_samples"]
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"lm_eval ended with {done.returncode}:\n{done.stderr[-4000:]}")
    (results,) = (folder / "out").rglob("results_*.json")
    figures = json.loads(results.read_text())["results"]
    samples = {}
    for task in TASKS:
        (path,) = (folder / "out").rglob(f"samples_{task}_*.jsonl")
        samples[task] = [json.loads(line) for line in path.read_text().splitlines()]
        samples[task].sort(key=lambda sample: sample["doc_id"])
    return figures, samples


def model_id(server):
    return harness.call(server, "GET", "/v1/models").json()["data"][0]["id"]


def tokens_of(server, text):
    body = {"prompt": text, "add_special_tokens": False}
    return harness.call(server, "POST", "/tokenize", body).json()["tokens"]


def score(server, context, continuation):
    """Log-probability of the continuation's ids, and whether greedy decoding would give them."""
    answer = harness.complete(
        server, context + continuation, prompt_logprobs=1, max_tokens=1, temperature=0
    )
    scores = answer.choice["prompt_logprobs"][len(context) :]
    own = [one[str(token)]["logprob"] for one, token in zip(scores, continuation)]
    best = [max(entry["logprob"] for entry in one.values()) for one in scores]
    return sum(own), own == best


class LmEval(unittest.TestCase):
    folder = None

    @classmethod
    def setUpClass(cls):
        cls.server = harness.shared_server()
        cls.runs = {}
        for name, settings in SETTINGS.items():
            folder = cls.folder / name.replace(" ", "_")
            folder.mkdir(parents=True)
            cls.runs[name] = run_lm_eval(cls.server, folder, settings)

    def test_how_it_asks_changes_no_figure(self):
        figures, samples = self.runs["one by one"]
        for name in SETTINGS:
            self.assertEqual(self.runs[name][0], figures, name)
            for task in TASKS:
                for mine, other in zip(self.runs[name][1][task], samples[task], strict=True):
                    self.assertEqual(mine["resps"], other["resps"], f"{name}, {task}")

    def test_choices_have_the_scores_of_their_tokens(self):
        figures, samples = self.runs["one by one"]
        right = 0
        for sample in samples["bulkhead_facts"]:
            scores = []
            for asked, response in zip(
                sample["arguments"].values(), sample["filtered_resps"], strict=True
            ):
                context = tokens_of(self.server, asked["arg_0"])
                both = tokens_of(self.server, asked["arg_0"] + asked["arg_1"])
                self.assertEqual(both[: len(context)], context)
                value, is_greedy = score(self.server, context, both[len(context) :])
                self.assertAlmostEqual(float(response[0]), value, places=6)
                self.assertEqual(response[1] == "True", is_greedy, asked)
                scores.append(value)
            right += scores.index(max(scores)) == sample["doc"]["answer"]
        facts = figures["bulkhead_facts"]
        self.assertAlmostEqual(facts["acc,none"], right / len(samples["bulkhead_facts"]))
        self.assertGreater(facts["acc,none"], 0.7, "the questions are easy")

    def test_some_choices_are_greedy_and_some_are_not(self):
        _, samples = self.runs["one by one"]
        facts = samples["bulkhead_facts"]
        greedy = {response[1] for sample in facts for response in sample["filtered_resps"]}
        self.assertEqual(greedy, {"True", "False"})

    def test_texts_have_the_scores_of_their_tokens(self):
        figures, samples = self.runs["one by one"]
        tokenizer = harness.call(self.server, "GET", "/tokenizer_info").json()
        prefix = tokens_of(self.server, tokenizer["bos_token"] or tokenizer["eos_token"])
        total, size = 0.0, 0
        for sample in samples["bulkhead_texts"]:
            text = sample["doc"]["text"]
            value, _ = score(self.server, prefix, tokens_of(self.server, text))
            self.assertAlmostEqual(float(sample["filtered_resps"][0]), value, places=6)
            total += value
            size += len(text.encode())
        bits = figures["bulkhead_texts"]["bits_per_byte,none"]
        self.assertAlmostEqual(bits, -total / size / math.log(2), places=6)

    def test_generations_are_the_servers_own_answers(self):
        _, samples = self.runs["one by one"]
        for sample in samples["bulkhead_questions"]:
            asked = sample["arguments"]["gen_args_0"]["arg_0"]
            (response,) = sample["resps"][0]
            answer = harness.complete(
                self.server, asked, temperature=0, max_tokens=16, stop=["\n", "Question:"]
            )
            self.assertEqual(response, answer.text)
            self.assertNotIn("\n", response)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=pathlib.Path, help="folder for what lm-eval writes")
    options = parser.parse_args()
    if not os.environ.get("BULKHEAD_URL") and not harness.can_start_servers():
        print("skipped: no server to test; set BULKHEAD_URL, or build the binary and get the model")
        return SKIPPED
    make_venv()
    with tempfile.TemporaryDirectory(prefix="bulkhead-lm-eval-") as folder:
        LmEval.folder = options.keep or pathlib.Path(folder)
        try:
            program = unittest.main(argv=[sys.argv[0], "-v"], exit=False)
        finally:
            code = harness.stop_shared_server()
    return 0 if program.result.wasSuccessful() and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
