"""`bulkhead bench serve` against the real server, and `bulkhead doctor`."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import Case, find_binary, idle, metrics, quick, wait_until


def run_bulkhead(*words, environment=None):
    return subprocess.run(
        [find_binary(), *words],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, **(environment or {})},
    )


class BenchCase(Case):
    @classmethod
    def setUpClass(cls):
        if find_binary() is None:
            raise unittest.SkipTest("needs the binary")
        super().setUpClass()

    def bench(self, *words, code=0):
        """The run's JSON and its standard output."""
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "run.json"
            key = {"BULKHEAD_API_KEY": self.server.key} if self.server.key else None
            done = run_bulkhead(
                "bench",
                "serve",
                "--url",
                self.server.url,
                "--output",
                str(out),
                *words,
                environment=key,
            )
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            return json.loads(out.read_text(encoding="utf-8")), done.stdout


class BenchServe(BenchCase):
    def test_a_closed_loop_counts_what_the_server_counts(self):
        wait_until(lambda: idle(self.server), "idle")
        _, before = metrics(self.server)
        run, table = self.bench(
            *("--requests", "6", "--concurrency", "3", "--warmup", "0"),
            *("--input-tokens", "40", "--output-tokens", "6", "--range-ratio", "0.5"),
        )
        wait_until(lambda: idle(self.server), "idle")
        _, after = metrics(self.server)
        self.assertEqual((run["completed"], run["failed"]), (6, 0))
        self.assertEqual(run["open_max"], 3)
        gained = {name: after[name] - before[name] for name in after}
        self.assertEqual(gained["vllm:prompt_tokens_total"], run["input_tokens"])
        self.assertEqual(gained["vllm:generation_tokens_total"], run["output_tokens"])
        self.assertEqual(gained["vllm:request_success_total"], 6)
        for record in run["requests"]:
            self.assertIsNone(record["failure"])
            self.assertEqual(record["finish_reason"], "length")
            self.assertTrue(20 <= record["input_tokens"] <= 60)
            self.assertTrue(3 <= record["output_tokens"] <= 9)
            self.assertTrue(0 < record["ttft_s"] <= record["e2e_s"] <= run["duration_s"])
            self.assertLess(len(record["itl_s"]), record["output_tokens"])
        self.assertEqual((run["short_answers"], run["without_usage"]), (0, 0))
        self.assertIn("Successful requests:                        6\n", table)
        self.assertIn("Mean TTFT (ms):", table)

    def test_an_open_loop_keeps_its_arrivals_and_goodput(self):
        run, table = self.bench(
            *("--requests", "5", "--rate", "50", "--input-tokens", "8", "--output-tokens", "3"),
            *("--goodput", "ttft:600000,e2e:600000"),
        )
        starts = [record["start_s"] for record in run["requests"]]
        self.assertEqual(starts[0], 0)
        self.assertEqual(starts, sorted(starts))
        self.assertEqual(run["goodput"]["good"], 5)
        self.assertIn("goodput: 5 of 5 requests within", table)
        run, _ = self.bench(
            *("--requests", "2", "--input-tokens", "8", "--output-tokens", "3"),
            *("--goodput", "ttft:0.001"),
        )
        self.assertEqual((run["completed"], run["goodput"]["good"]), (2, 0))

    def test_prompts_of_a_file_go_to_both_endpoints(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write(json.dumps({"prompt": "Once upon a time", "max_tokens": 4}) + "\n")
            file.write(json.dumps({"messages": [{"role": "user", "content": "Hi"}]}) + "\n")
            file.flush()
            run, _ = self.bench("--dataset", file.name, "--requests", "4", "--output-tokens", "5")
        self.assertEqual([record["output_tokens"] for record in run["requests"]], [4, 5, 4, 5])

    def test_many_streams_at_once_all_come_whole(self):
        count = quick(128, 24)
        run, _ = self.bench(
            *("--requests", str(count), "--concurrency", str(count)),
            *("--input-tokens", "8", "--output-tokens", "4"),
        )
        self.assertEqual((run["completed"], run["open_max"]), (count, count))

    def test_refused_requests_are_failures_and_the_exit_code_says_so(self):
        words = ("--requests", "3", "--output-tokens", "10000000", "--warmup", "0")
        run, table = self.bench(*words, code=1)
        self.assertEqual((run["completed"], run["failed"]), (0, 3))
        self.assertEqual(run["failures"], {"http_400": 3})
        self.assertIn("failed: 3 x http_400:", table)
        self.assertEqual(run["output_tokens"], 0)
        self.bench(*words, "--tolerate-errors", code=0)

    def test_a_wrong_command_line_or_address_is_said(self):
        for words in (
            ("--url", "https://example.org"),
            ("--goodput", "speed:3"),
            ("--dataset", "/nowhere.jsonl"),
            ("--requests", "0"),
            ("--endpoint", "chat"),
        ):
            done = run_bulkhead("bench", "serve", "--url", self.server.url, *words)
            self.assertEqual(done.returncode, 2, f"{words}: {done.stdout}{done.stderr}")
        done = run_bulkhead("bench", "serve", "--url", "http://127.0.0.1:9")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("127.0.0.1:9", done.stderr)


class Doctor(unittest.TestCase):
    def test_findings_are_lines_and_json(self):
        if find_binary() is None:
            self.skipTest("needs the binary")
        done = run_bulkhead("doctor", "--json", "--no-measure")
        found = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0 if found["can_serve"] else 1)
        names = [finding["name"] for finding in found["findings"]]
        for name in ("processor", "kernels", "memory", "huge pages", "open files", "NUMA nodes"):
            self.assertIn(name, names)
        for finding in found["findings"]:
            self.assertEqual(finding["verdict"] == "ok", finding["cure"] is None, finding)
        text = run_bulkhead("doctor", "--no-measure").stdout
        self.assertIn("This machine can", text)
        self.assertIn("memory speed", text)
