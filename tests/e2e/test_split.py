"""The split placement, deployment files and `bulkhead config explain`, with the real binary."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import openai

import harness
from harness import REQUEST_SECONDS, can_start_servers, complete, find_binary, find_model, metrics
from test_lifecycle import OwnServer

PROMPTS = [
    "The bulkheads of a ship",
    "Once upon a time, in a harbour far away,",
    "A list of the four seasons:",
    "Water boils at",
]


def run(*arguments):
    """Exit code, standard output and standard error of one command."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("BULKHEAD_")
    }
    done = subprocess.run(
        [find_binary(), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=REQUEST_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def start_of(server):
    """The whole log, banner and all."""
    return pathlib.Path(server.log_path).read_text(encoding="utf-8", errors="replace")


def greedy(server, prompt, tokens=24):
    answer = complete(server, prompt, max_tokens=tokens, temperature=0)
    assert answer.status == 200, answer.body
    return answer.text


class SplitServer(OwnServer):
    # Decode's pool has 34 pages of 16 tokens, prefill's 42.
    flags = (
        "--placement",
        "split",
        "--page-size",
        "16",
        "--context-length",
        "512",
        "--prefill.kv-cache-memory",
        "30M",
        "--decode.kv-cache-memory",
        "24M",
    )

    def test_answers_are_those_of_the_shared_placement_alone_and_together(self):
        alone = [greedy(self.server, prompt) for prompt in PROMPTS]
        jobs = [lambda prompt=prompt: greedy(self.server, prompt) for prompt in PROMPTS * 3]
        self.assertEqual(harness.together(jobs, 12), alone * 3)
        again = [greedy(self.server, prompt) for prompt in PROMPTS]
        self.assertEqual(again, alone, "from the cache")
        if "BULKHEAD_URL" not in os.environ:
            shared = [greedy(harness.shared_server(), prompt) for prompt in PROMPTS]
            self.assertEqual(shared, alone)
        harness.wait_until(lambda: harness.idle(self.server), "idle")

    def test_more_than_decode_holds_queue_and_none_fails(self):
        def ask(number):
            return complete(
                self.server,
                f"{number} " + "word " * 140,
                max_tokens=100,
                temperature=0,
                ignore_eos=True,
            )

        answers = harness.together([lambda i=i: ask(i) for i in range(6)], 6)
        for answer in answers:
            self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual(answer.usage["completion_tokens"], 100)
        samples, sums = metrics(self.server)
        self.assertEqual(sums["vllm:num_preemptions_total"], 0)
        harness.wait_until(lambda: harness.idle(self.server), "idle")

    def test_what_can_never_fit_is_refused(self):
        answer = complete(self.server, "word " * 600, max_tokens=1)
        self.assertEqual(answer.status, 400, answer.body)

    def test_clients_that_leave_give_the_pages_of_both_pools_back(self):
        for tokens in (1, 8, 64):
            connection = harness.open_request(
                self.server,
                "/v1/completions",
                prompt="leave " * tokens,
                max_tokens=300,
                ignore_eos=True,
                stream=True,
            )
            if tokens > 1:
                connection.recv(200)
            connection.close()

        def free():
            samples, _ = metrics(self.server)
            return all(
                value == 0
                for name, value in samples.items()
                if name.startswith("bulkhead_kv_pages") and 'state="used"' in name
            )

        harness.wait_until(free, "no page is held or promised")
        self.assertTrue(greedy(self.server, PROMPTS[0]))

    def test_the_openai_client_streams_from_it(self):
        client = openai.OpenAI(base_url=f"{self.server.url}/v1", api_key="none")
        messages = [{"role": "user", "content": "What is the capital of France?"}]
        chunks = client.chat.completions.create(
            model=client.models.list().data[0].id,
            messages=messages,
            temperature=0,
            max_tokens=16,
            stream=True,
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertIn("Paris", text)

    def test_both_pools_are_told(self):
        info = harness.call(self.server, "GET", "/get_server_info").json()
        self.assertEqual(info["placement"], "split")
        pools = info["pools"]
        self.assertEqual(set(pools), {"prefill", "decode"})
        self.assertGreater(
            pools["prefill"]["max_total_num_tokens"], pools["decode"]["max_total_num_tokens"]
        )
        self.assertEqual(
            info["max_total_num_tokens"], pools["decode"]["max_total_num_tokens"]
        )
        samples, _ = metrics(self.server)
        for pool in ("prefill", "decode"):
            self.assertTrue(
                any(f'pool="{pool}"' in name for name in samples if "bulkhead_kv_pages" in name)
            )
        log = start_of(self.server)
        self.assertIn("one copy of the weights", log)
        self.assertIn("copied on their way", log)


class Hybrid(OwnServer):
    """Each pool in formats of its own."""

    flags = (
        "--placement",
        "split",
        "--context-length",
        "512",
        "--prefill.weights",
        "fp8",
        "--decode.weights",
        "int4",
        "--decode.kv",
        "fp8_e4m3",
        "--prefill.kv-cache-memory",
        "64M",
        "--decode.kv-cache-memory",
        "64M",
    )

    def test_answers_are_the_same_alone_together_and_from_the_cache(self):
        alone = [greedy(self.server, prompt) for prompt in PROMPTS]
        jobs = [lambda prompt=prompt: greedy(self.server, prompt) for prompt in PROMPTS * 3]
        self.assertEqual(harness.together(jobs, 12), alone * 3)
        long = "word " * 100
        self.assertEqual(greedy(self.server, long), greedy(self.server, long), "from the cache")
        harness.wait_until(lambda: harness.idle(self.server), "idle")

    def test_formats_are_told(self):
        pools = harness.call(self.server, "GET", "/get_server_info").json()["pools"]
        told = {
            name: (pool["weights"], pool["kv_cache_dtype"]) for name, pool in pools.items()
        }
        self.assertEqual(told, {"prefill": ("fp8", "bf16"), "decode": ("int4", "fp8_e4m3")})
        ratio = (
            pools["decode"]["max_total_num_tokens"] / pools["prefill"]["max_total_num_tokens"]
        )
        self.assertGreater(ratio, 1.9)
        self.assertIn("converted on their way", start_of(self.server))


class Deployment(unittest.TestCase):
    def setUp(self):
        if not can_start_servers():
            self.skipTest("needs the binary and the model")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "deployment.toml"

    def write(self, text):
        self.file.write_text(text, encoding="utf-8")
        return str(self.file)

    def test_a_server_starts_from_a_file_alone_and_flags_go_before_it(self):
        path = self.write(
            f'model = "{find_model()}"\nplacement = "split"\nmax_running_requests = 3\n'
            '[decode]\nkv_cache_memory = "64M"\n'
        )
        code, out, err = run("serve", "--config", path, "--dry-run")
        self.assertEqual(code, 0, err)
        self.assertIn("3 requests decode at once", out)
        self.assertIn("split", out)
        code, out, err = run(
            "serve", "--config", path, "--max-running-requests", "5", "--dry-run"
        )
        self.assertEqual(code, 0, err)
        self.assertIn("5 requests decode at once", out)

    def test_a_bad_file_is_refused_with_its_line(self):
        for text, parts in (
            ("\nprot = 1\n", (":2:", "prot", "nearest is port")),
            ("[decode]\nkv = 3\n", (":2:", "decode.kv", "text in quotes")),
            ("port = 99999\n", (":1:", "port", "0 to 65535")),
            ("port = \n", (":1:",)),
            ('[[worker]]\naddress = "10.0.0.1"\n', (":1:", "worker")),
            ('placement = "remote"\n', (":1:", "shared, split")),
        ):
            with self.subTest(text=text):
                path = self.write(text)
                for command in (("serve", find_model(), "--dry-run"), ("config", "explain")):
                    code, _, err = run(*command, "--config", path)
                    self.assertEqual(code, 2, err)
                    for part in parts:
                        self.assertIn(part, err)
                    self.assertEqual(len(err.strip().splitlines()), 1, err)

    def test_no_model_anywhere_is_said(self):
        code, _, err = run("serve", "--config", self.write("port = 0\n"), "--dry-run")
        self.assertEqual(code, 2)
        self.assertIn("which model?", err)

    def test_options_of_the_other_placement_are_refused(self):
        for flags, name in (
            (("--decode.kv-cache-memory", "64M"), "--decode.kv-cache-memory"),
            (("--placement", "split", "--kv-cache-memory", "64M"), "--kv-cache-memory"),
        ):
            code, _, err = run("serve", find_model(), "--dry-run", *flags)
            self.assertEqual(code, 2, err)
            self.assertIn(name, err)

    def test_activations_in_bytes_are_refused_where_no_weights_are_in_int4(self):
        split = ("--placement", "split", "--decode.weights", "int4", "--prefill.weights", "fp8")
        for flags, name in (
            (("--activations", "int8"), "--activations"),
            (("--weights", "fp8", "--activations", "int8"), "--activations"),
            ((*split, "--activations", "int8"), "--prefill.activations"),
            ((*split, "--prefill.activations", "int8"), "--prefill.activations"),
            (("--weights", "int4", "--decode.activations", "int8"), "--decode.activations"),
        ):
            with self.subTest(flags=flags):
                code, _, err = run("serve", find_model(), "--dry-run", *flags)
                self.assertEqual(code, 2, err)
                self.assertIn(name, err)
        for flags in (("--weights", "int4", "--activations", "int8"),
                      (*split, "--decode.activations", "int8")):
            code, out, err = run("serve", find_model(), "--dry-run", *flags)
            self.assertEqual(code, 0, err)
            self.assertEqual(out.count("int8 activations"), 1, out)

    def test_the_documented_example_is_explained(self):
        example = harness.ROOT / "docs" / "deployment.toml"
        model = ("--model", find_model())
        code, out, err = run("config", "explain", "--config", str(example), "--json", *model)
        self.assertEqual(code, 0, err)
        told = json.loads(out)
        self.assertIsNone(told["problem"])
        options = {one["name"]: one for one in told["options"]}
        self.assertEqual(options["placement"]["value"], "split")
        self.assertEqual(options["placement"]["source"], "file")
        self.assertEqual(options["model"]["source"], "flag")
        self.assertEqual(options["threads"]["source"], "derived")
        self.assertEqual(options["decode.weights"]["source"], "file")
        self.assertIn("as stored", options["decode.weights"]["why"])
        self.assertEqual(options["decode.kv"]["value"], "fp8_e4m3")
        self.assertIn("all logical CPUs", options["threads"]["why"])

    def test_an_explanation_is_a_deployment_file_that_explains_itself(self):
        code, first, err = run("config", "explain", find_model(), "--placement", "split")
        self.assertEqual(code, 0, err)
        path = self.write(first)
        code, _, err = run("serve", "--config", path, "--dry-run")
        self.assertEqual(code, 0, err)
        code, again, err = run("config", "explain", "--config", path)
        self.assertEqual(code, 0, err)

        def values(text):
            return [line.split(" # ")[0].rstrip() for line in text.splitlines() if " = " in line]

        self.assertEqual(values(first), values(again))


if __name__ == "__main__":
    unittest.main()
