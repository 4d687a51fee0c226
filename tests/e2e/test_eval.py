"""`bulkhead eval` against the real server: scores, the two ways to letters, going on, comparing.

And its part for continuous integration, which a damaged scale has to fail.
"""

import http.server
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from harness import ROOT, Server, call, find_binary, quick

sys.path.insert(0, str(ROOT / "tools" / "train"))
import held_out  # noqa: E402

MODEL = ROOT / "models" / "tiny-moe"
FLAGS = ["--kv-cache-memory", "16MiB", "--page-size", "16", "--max-running-requests", "16"]
PAGE = " = Owls = \n \n Owls hoot at night . They eat mice , and sleep by day . \n"


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def json_lines(objects):
    return "".join(json.dumps(one) + "\n" for one in objects)


def write_data(folder):
    problems = [
        {"question": f"Ada has {n} apples and eats one. How many?", "answer": f"#### {n - 1}"}
        for n in range(2, 9)
    ]
    write(folder, "eval/gsm8k/train.jsonl", json_lines(problems[:2]))
    write(folder, "eval/gsm8k/test.jsonl", json_lines(problems[2:6]))
    for subject in ("birds", "sums"):
        for part, count in (("dev", 2), ("test", 5)):
            rows = [f"Which is {n} in {subject}?,{n},9{n},8{n},7{n},{'ABCD'[n % 4]}"
                    for n in range(count)]
            write(folder, f"eval/mmlu/{part}/{subject}_{part}.csv", "\n".join(rows) + "\n")
    items = [{"instruction": "Please choose the correct answer to the question: Which is cold?\n\n"
              f"Answer1: fire number {n} Answer2: ice\n\nAnswer format: answer1/answer2",
              "answer": "answer2"} for n in range(4)]
    write(folder, "eval/arc/ARC-Easy-test.json", json.dumps(items))
    write(folder, "text/wikitext-2-test.txt", PAGE + " \n" + PAGE.replace("Owls", "Larks"))
    write_conversations(folder, 12)


def write_conversations(folder, count):
    for name in ("choice", "tools"):
        examples = [{"id": str(index), "messages": one.messages[:-1], "tools": one.tools or [],
                     "expected": one.messages[-1]}
                    for index, one in enumerate(held_out.examples(name, count))]
        write(folder, f"eval/conversations/{name}.jsonl", json_lines(examples))


def run_eval(*words):
    environment = {name: value for name, value in os.environ.items() if name != "BULKHEAD_DATA"}
    return subprocess.run([find_binary(), "eval", *words], capture_output=True, text=True,
                          timeout=900, check=False, env=environment)


def scale_by(path, name, factor):
    """Multiplies an F32 tensor of a safetensors file where it stands."""
    with path.open("r+b") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        entry = json.loads(file.read(size))[name]
        assert entry["dtype"] == "F32", entry
        begin, end = entry["data_offsets"]
        file.seek(8 + size + begin)
        values = struct.unpack(f"<{(end - begin) // 4}f", file.read(end - begin))
        file.seek(8 + size + begin)
        file.write(struct.pack(f"<{len(values)}f", *(value * factor for value in values)))


class Relay(http.server.ThreadingHTTPServer):
    """Hands requests on, until so many completions were answered; then it refuses them."""

    daemon_threads = True

    def __init__(self, server, most):
        super().__init__(("127.0.0.1", 0), RelayHandler)
        self.server, self.most, self.prompts = server, most, []
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def end(self):
        self.shutdown()
        self.server_close()

    def may_pass(self, path, body):
        if path != "/v1/chat/completions":
            return True
        with self.lock:
            self.prompts.append(json.dumps(body["messages"]))
            return len(self.prompts) <= self.most


class RelayHandler(http.server.BaseHTTPRequestHandler):
    def answer(self, method, body):
        relay = self.server
        if body is not None and not relay.may_pass(self.path, body):
            status, text = 403, '{"error": {"message": "no more for you"}}'
        else:
            reply = call(relay.server, method, self.path, body)
            status, text = reply.status, reply.body
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer("GET", None)

    def do_POST(self):
        self.answer("POST", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def log_message(self, *_):
        pass


@unittest.skipUnless(find_binary(), "needs a built bulkhead")
class Eval(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="bulkhead-eval-")
        cls.folder = pathlib.Path(cls.temporary.name)
        write_data(cls.folder / "data")
        cls.server = Server(FLAGS, model=str(MODEL))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()
        assert cls.server.stop() == 0

    def evaluate(self, *words, url=None, code=0):
        done = run_eval(*words, "--data", str(self.folder / "data"), "--url",
                        url or self.server.url)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def result(self, name, *words):
        """The tasks of a run, by name."""
        path = self.folder / f"{name}.json"
        self.evaluate(*words, "--output", str(path))
        self.assertFalse(path.with_suffix(".json.journal").exists())
        return {task["task"]: task for task in json.loads(path.read_text())["tasks"]}

    def test_every_task_runs_and_knows_its_questions(self):
        tasks = self.result("text", "wikitext", "conversations", "--concurrency", "8")
        tasks |= self.result("few", "gsm8k", "mmlu", "arc_easy", "--shots", "2")
        counts = {name: len(task["questions"]) for name, task in tasks.items()}
        self.assertEqual(counts, {"gsm8k": 4, "mmlu": 10, "arc_easy": 2, "wikitext": 2,
                                  "conversations": 24})
        for task in tasks.values():
            self.assertEqual(task["asked"], len(task["questions"]))
            ids = [question["id"] for question in task["questions"]]
            self.assertEqual(len(set(ids)), len(ids))
        # The model was trained to do these two; a scorer that misses answers would show.
        sets = tasks["conversations"]["groups"]
        for name in ("choice", "tools"):
            self.assertGreaterEqual(sets[name]["figures"]["acc"]["value"], 0.75, name)
        # The examples of gsm8k are found in the cache by all but the first.
        cached = [question["cached_tokens"] for question in tasks["gsm8k"]["questions"]]
        self.assertGreaterEqual(sum(tokens > 0 for tokens in cached), 3, cached)

    def test_letters_score_the_same_by_prompts_of_their_own(self):
        fast = self.result("fast", "mmlu", "--shots", "2")["mmlu"]["questions"]
        slow = self.result("slow", "mmlu", "--shots", "2", "--slow-choices")["mmlu"]["questions"]
        compared = 0
        for one, other in zip(fast, slow, strict=True):
            self.assertEqual((one["id"], one["answer"]), (other["id"], other["answer"]))
            for score, wanted in zip(one["scores"], other["scores"], strict=True):
                if score is not None:
                    self.assertAlmostEqual(score, wanted, places=5)
                    compared += 1
        self.assertGreater(compared, 10)

    def test_perplexity_is_that_of_the_scores(self):
        task = self.result("words", "wikitext")["wikitext"]
        for page, question in zip((PAGE + " \n", PAGE.replace("Owls", "Larks")),
                                  task["questions"], strict=True):
            self.assertEqual(question["measures"]["bytes"], len(page.encode()))
            self.assertLess(question["measures"]["loglikelihood"], 0)
        self.assertGreater(task["figures"]["word_perplexity"]["value"], 1)

    def test_an_interrupted_run_goes_on_where_it_was(self):
        path = self.folder / "again.json"
        words = ("conversations", "--concurrency", "1", "--retries", "0", "--output", str(path))
        relay = Relay(self.server, most=7)
        done = self.evaluate(*words, url=relay.url, code=2)
        self.assertIn("no more for you", done.stderr)
        self.assertFalse(path.exists())
        rest = Relay(self.server, most=1000)
        self.evaluate(*words, url=rest.url)
        self.assertEqual(len(relay.prompts), 8)
        self.assertEqual(len(rest.prompts), 17)
        self.assertFalse(set(relay.prompts[:7]) & set(rest.prompts))
        (task,) = json.loads(path.read_text())["tasks"]
        self.assertEqual((task["asked"], len(task["questions"])), (17, 24))
        whole = self.result("whole", "conversations")["conversations"]
        self.assertEqual([q["answer"] for q in task["questions"]],
                         [q["answer"] for q in whole["questions"]])
        for server in (relay, rest):
            server.end()

    def test_other_means_do_not_go_on(self):
        path = self.folder / "means.json"
        relay = Relay(self.server, most=1)
        words = ("conversations", "--concurrency", "1", "--retries", "0", "--output", str(path))
        self.evaluate(*words, url=relay.url, code=2)
        done = self.evaluate(*words, "--max-length", "2000", code=2)
        self.assertIn("max_length 4096 against 2000", done.stderr)
        self.evaluate(*words, "--max-length", "2000", "--restart", "--limit", "2")
        relay.end()

    def test_two_results_are_compared(self):
        self.result("before", "conversations")
        before = self.folder / "before.json"
        after = json.loads(before.read_text())
        flipped = [q for q in after["tasks"][0]["questions"] if q["measures"]["acc"] == 1][:3]
        for question in flipped:
            question["measures"]["acc"] = 0
        (self.folder / "after.json").write_text(json.dumps(after))
        out = self.folder / "compared.json"
        done = run_eval("compare", str(before), str(self.folder / "after.json"), "--output",
                        str(out))
        self.assertEqual(done.returncode, 0, done.stderr)
        for question in flipped:
            self.assertIn(question["id"], done.stdout)
        (acc, _) = json.loads(out.read_text())["shares"]
        self.assertEqual(acc["lost"], [question["id"] for question in flipped])
        self.assertEqual(acc["gained"], [])
        self.assertAlmostEqual(acc["difference"], -3 / 24)
        self.assertAlmostEqual(acc["mcnemar_p"], 0.25)
        self.assertTrue(acc["interval_95"][0] < -3 / 24 < acc["interval_95"][1])
        same = run_eval("compare", str(before), str(before))
        self.assertIn("| +0.00 |", same.stdout)
        self.assertEqual(run_eval("compare", str(before), str(out)).returncode, 2)

    def test_what_is_wrong_is_said(self):
        for words, told in (
            (("hellaswag",), "hellaswag"),
            ((), "which task?"),
            (("gsm8k", "--shots", "5"), "there are 2 examples"),
            (("bfcl",), "ShishirPatil/gorilla"),
            (("mmlu", "--shots", "1", "--model", "other"), "--model"),
            (("mmlu", "--shots", "1", "--limit", "0"), "--limit"),
        ):
            self.assertIn(told, self.evaluate(*words, code=2).stderr)
        done = self.evaluate("conversations", url="http://127.0.0.1:9", code=1)
        self.assertIn("127.0.0.1:9", done.stderr)


@unittest.skipUnless(find_binary(), "needs a built bulkhead")
class Regression(unittest.TestCase):
    """The part for continuous integration: two precisions, 100 questions of each set."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="bulkhead-eval-ci-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        write_conversations(self.folder / "data", quick(100, 20))

    def result_of(self, model, name):
        server = Server(FLAGS, model=str(model))
        try:
            out = self.folder / f"{name}.json"
            done = run_eval("conversations", "--data", str(self.folder / "data"), "--url",
                            server.url, "--output", str(out))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        finally:
            self.assertEqual(server.stop(), 0)
        return str(out)

    def test_fp8_passes_and_a_damaged_scale_does_not(self):
        fp8 = self.folder / "tiny-moe-fp8"
        subprocess.run([find_binary(), "quantize", str(MODEL), str(fp8), "--recipe", "fp8"],
                       check=True, capture_output=True)
        before = self.result_of(MODEL, "bf16")
        good = run_eval("compare", before, self.result_of(fp8, "fp8"), "--fail-on-loss")
        self.assertEqual(good.returncode, 0, good.stdout + good.stderr)
        scale_by(fp8 / "model.safetensors", "model.layers.2.self_attn.o_proj.weight_scale_inv", 4)
        bad = run_eval("compare", before, self.result_of(fp8, "damaged"), "--fail-on-loss")
        self.assertEqual(bad.returncode, 1, bad.stdout + bad.stderr)
        self.assertIn("fell by more than chance: conversations acc", bad.stderr)
