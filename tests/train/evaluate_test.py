"""tools/train/evaluate.py against a server that knows the answers, but for one set."""

import contextlib
import http.server
import io
import json
import pathlib
import sys
import tempfile
import threading
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "train"))

import evaluate  # noqa: E402
import held_out  # noqa: E402

COUNT = 4


def known_answers():
    answers = {}
    for name in held_out.SETS:
        for example in held_out.examples(name, COUNT):
            wrong = {"role": "assistant", "content": "I do not know."}
            answers[json.dumps(example.messages[:-1])] = (
                wrong if name == "choice" else example.messages[-1])
    return answers


class Handler(http.server.BaseHTTPRequestHandler):
    answers = known_answers()
    bodies = []

    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply({"data": [{"id": "the-model"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.bodies.append(body)
        message = self.answers[json.dumps(body["messages"])]
        self.reply({"choices": [{"message": message}]})

    def log_message(self, *_):
        pass


class Sets(unittest.TestCase):
    def test_are_written_with_the_answers_that_are_wanted(self):
        with tempfile.TemporaryDirectory() as folder:
            words = ["evaluate.py", "--write", folder, "--count", "2", "--sets", "tools", "echo"]
            with unittest.mock.patch.object(sys, "argv", words):
                self.assertEqual(evaluate.main(), 0)
            for name in ("tools", "echo"):
                lines = (pathlib.Path(folder) / f"{name}.jsonl").read_text().splitlines()
                self.assertEqual(len(lines), 2)
                for line, example in zip(lines, held_out.examples(name, 2)):
                    written = json.loads(line)
                    self.assertEqual(written["messages"], example.messages[:-1])
                    self.assertEqual(written["expected"], example.messages[-1])
                    self.assertEqual(written["tools"], example.tools or [])


class AServer(unittest.TestCase):
    def test_is_scored_by_its_answers_and_a_set_below_the_goal_fails_the_run(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "scores.json"
            printed = self.evaluate("--url", f"http://127.0.0.1:{server.server_port}/",
                                    "--count", str(COUNT), "--json", str(report))
            scores = json.loads(report.read_text())["scores"]
        self.assertEqual(scores.pop("choice"), 0.0)
        self.assertEqual(set(scores.values()), {1.0}, scores)
        self.assertIn("below 90%: choice", printed)
        self.assertEqual(len(Handler.bodies), COUNT * len(held_out.SETS))
        for body in Handler.bodies:
            self.assertEqual((body["model"], body["temperature"]), ("the-model", 0))
        self.assertTrue(any("tools" in body for body in Handler.bodies))

    def evaluate(self, *arguments):
        printed, before = io.StringIO(), sys.argv
        sys.argv = ["evaluate.py", *arguments]
        try:
            with contextlib.redirect_stdout(printed):
                self.assertEqual(evaluate.main(), 1)
        finally:
            sys.argv = before
        return printed.getvalue()


if __name__ == "__main__":
    unittest.main()
