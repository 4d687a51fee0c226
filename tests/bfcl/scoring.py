"""`bulkhead eval bfcl` and bfcl-eval from PyPI, judging the same answers.

A stub server answers every question of the sets with calls that answers.py makes; `bulkhead eval`
scores them, and so does bfcl-eval's checker. Their verdicts must be equal. Run by hand, with
BULKHEAD_SHARED for the sets; bfcl-eval is installed at the first run.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
for folder in ("e2e", "lm_eval"):  # run.py is that of lm_eval
    sys.path.insert(0, str(HERE.parent / folder))
import answers  # noqa: E402
import harness  # noqa: E402
import run  # noqa: E402
from stub_server import Stub  # noqa: E402

VENV = run.ROOT / "build" / "bfcl_venv"
SETS = ("simple_python", "multiple", "parallel", "parallel_multiple", "live_simple", "irrelevance")
CHANGES = [*answers.CHANGES, "unreadable"]


def data_folder():
    shared = os.environ.get("BULKHEAD_SHARED")
    folder = pathlib.Path(shared) / "data" if shared else None
    return folder if folder and (folder / "eval" / "bfcl").exists() else None


def json_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def load_sets(folder):
    """{id: (set, question, possible answers)}"""
    known = {}
    for name in SETS:
        answered = folder / f"answer_BFCL_v4_{name}.json"
        truths = {}
        if answered.exists():
            truths = {line["id"]: line["ground_truth"] for line in json_lines(answered)}
        for line in json_lines(folder / f"BFCL_v4_{name}.json"):
            known[line["id"]] = (name, line, truths.get(line["id"], []))
    return known


class Checker:
    """bfcl-eval's own checks of decoded calls. Its table of models imports the clients of all of
    them; the checks take one fact from it, and get that from here."""

    def __init__(self):
        run.make_venv(HERE / "requirements.txt", VENV)
        sys.path += map(str, (VENV / "lib").glob("python3*/site-packages"))
        table = types.ModuleType("bfcl_eval.constants.model_config")
        model = types.SimpleNamespace(underscore_to_dot=True)  # as for every OpenAI model
        table.MODEL_CONFIG_MAPPING = {"any": model}
        sys.modules[table.__name__] = table
        from bfcl_eval import utils
        from bfcl_eval.constants.enums import Language
        from bfcl_eval.eval_checker.ast_eval import ast_checker

        self.utils, self.checker, self.python = utils, ast_checker.ast_checker, Language.PYTHON

    def verdict(self, category, question, calls, truth):
        """Whether the calls are right, as bfcl-eval's runner tells for a model with function calls;
        the exception that its checker ends with, where it does."""
        try:
            decoded = [{name: json.loads(text)} for name, text in calls]
        except ValueError:
            return category == "irrelevance"
        if category == "irrelevance":
            return self.utils.is_empty_output(decoded)
        if not self.utils.is_function_calling_format_output(decoded):
            return False
        try:
            return self.checker(question["function"], decoded, truth, self.python, category,
                                "any")["valid"]
        except Exception as error:  # noqa: BLE001: whatever its checker meets
            return error


def has_other_letters(calls):
    """Beyond ASCII: there, their case does not count either (docs/eval.md)."""
    return any(not json.dumps(json.loads(text), ensure_ascii=False).isascii() for _, text in calls)


def key_of(messages, names):
    return json.dumps([messages, names])


def stub_of(known):
    """A server that answers each question of the sets with its calls, changed as `stub.change`
    says."""
    by_prompt = {}
    for _, question, truth in known.values():
        names = [function["name"].replace(".", "_") for function in question["function"]]
        by_prompt.setdefault(key_of(question["question"][0], names), (question, truth))

    def chat(body):
        names = [tool["function"]["name"] for tool in body.get("tools", [])]
        question, truth = by_prompt[key_of(body["messages"], names)]
        calls = [{"id": f"call_{i}", "type": "function",
                  "function": {"name": name, "arguments": text}}
                 for i, (name, text) in enumerate(answers.answer(question, truth, stub.change))]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        return {"object": "chat.completion", "choices": [{"index": 0, "message": message}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1}}

    stub = Stub(chat)
    return stub  # has the name that chat() uses


class Calls(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="bulkhead-bfcl-")
        cls.known = load_sets(data_folder() / "eval" / "bfcl")
        cls.checker = Checker()
        cls.stub = stub_of(cls.known)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()
        cls.stub.shutdown()
        cls.stub.server_close()

    def own_questions(self, change):
        self.stub.change = change
        out = pathlib.Path(self.temporary.name) / "own.json"
        done = subprocess.run(
            [harness.find_binary(), "eval", "bfcl", "--url", self.stub.url, "--data",
             str(data_folder()), "--output", str(out), "--concurrency", "4"],
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(out.read_text())["tasks"][0]["questions"]

    def test_verdicts_are_those_of_bfcl_eval(self):
        counts = collections.Counter()
        other = []
        for change in CHANGES:
            for own in self.own_questions(change):
                category, question, truth = self.known[own["id"].removeprefix("bfcl/")]
                calls = [(call["name"], call["arguments"]) for call in own.get("calls", [])]
                theirs = self.checker.verdict(category, question, calls, truth)
                ours = own["measures"]["acc"] == 1
                kind = ("raises" if isinstance(theirs, Exception) else
                        "right" if theirs else "wrong")
                counts[category, kind] += 1
                counts[change, kind] += 1
                if (ours and kind != "right" or not ours and kind == "right") and not (
                        kind == "right" and has_other_letters(calls)):
                    other.append(f"{own['id']}, {change}: {calls} {kind} there; {truth}")
        for name in (*SETS, *CHANGES):
            of_it = [counts[name, kind] for kind in ("right", "wrong", "raises")]
            print("{:26} {:6} right {:6} wrong {:4} raise there".format(name, *of_it))
            # Answers that miss must miss, and be told from those that do not.
            self.assertGreater(sum(of_it), 200, name)
        self.assertEqual(other[:20], [], f"{len(other)} verdicts differ")


def main():
    if harness.find_binary() is None:
        print("skipped: no binary; build it, or name one with BULKHEAD_BIN")
        return run.SKIPPED
    if data_folder() is None:
        print("skipped: BULKHEAD_SHARED has no data/eval/bfcl")
        return run.SKIPPED
    program = unittest.main(argv=[sys.argv[0], "-v"], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
