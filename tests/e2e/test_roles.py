"""A deployment of three processes: the answers of one, and what happens when one of them dies."""

import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from deployment import KEY, Deployment
from harness import (
    ROOT,
    Server,
    Stream,
    call,
    can_start_servers,
    chat,
    complete,
    find_binary,
    find_model,
    headers_for,
    metrics,
    open_request,
    stream,
    together,
)

COMPLETIONS = "/v1/completions"
PROMPTS = [
    "The capital of France is",
    "Once upon a time there was a fox who",
    "def fibonacci(n):",
    "Water boils at",
    "The three primary colours are " * 20,
]


class WithPrompts(Deployment):
    def assert_alive(self):
        answer = complete(self.server, PROMPTS[0], max_tokens=4, temperature=0)
        self.assertEqual(answer.status, 200, answer.body[:500])
        self.wait_until_idle()


class Answers(WithPrompts):
    # C083
    def test_answers_are_those_of_one_process_byte_for_byte(self):
        single = Server([*self.common, *self.pool, *self.chunk])
        try:
            for prompt in PROMPTS:
                for fields in ({"temperature": 0}, {"temperature": 0.9, "seed": 7}):
                    fields = {"max_tokens": 24, "logprobs": 3, **fields}
                    one = complete(single, prompt, **fields)
                    other = complete(self.server, prompt, **fields)
                    self.assertEqual(other.status, 200, other.body[:500])
                    self.assertEqual(other.choice, one.choice)
                    for count in ("prompt_tokens", "completion_tokens"):
                        self.assertEqual(other.usage[count], one.usage[count])
        finally:
            single.stop()

    def test_many_at_once_are_as_alone(self):
        jobs = [
            lambda prompt=prompt: complete(self.server, prompt, max_tokens=16, temperature=0).text
            for prompt in PROMPTS * 4
        ]
        alone = {prompt: job() for prompt, job in zip(PROMPTS, jobs)}
        for prompt, text in zip(PROMPTS * 4, together(jobs, 10)):
            self.assertEqual(text, alone[prompt])
        self.wait_until_idle()

    def test_a_stream_folds_to_the_answer(self):
        fields = {"prompt": PROMPTS[1], "max_tokens": 20, "temperature": 0}
        folded = stream(self.server, COMPLETIONS, **fields)
        self.assertTrue(folded.done)
        self.assertEqual(folded.text, call(self.server, "POST", COMPLETIONS, fields).text)

    # C088
    def test_one_token_is_one_and_two_are_two(self):
        for tokens in (1, 2):
            answer = complete(self.server, PROMPTS[0], max_tokens=tokens, temperature=0)
            self.assertEqual(answer.usage["completion_tokens"], tokens)
            self.assertEqual(answer.choice["finish_reason"], "length")

    def test_a_prompt_that_came_before_is_taken_from_the_cache(self):
        prompt = "Tell me about rivers and lakes. " * 20
        cached = [
            complete(self.server, prompt, max_tokens=2)
            .usage["prompt_tokens_details"]["cached_tokens"]
            for _ in range(2)
        ]
        self.assertEqual(cached[0], 0)
        self.assertGreater(cached[1], 64)

    def test_a_worker_without_an_address_of_its_own_is_told_as_one(self):
        told = call(self.server, "GET", "/v1/integrity").json()["workers"]
        self.assertEqual([one["http"] for one in told], [None, None])
        self.assertIn("none (--http-listen)", self.decode.whole_log())

    def test_what_cannot_be_constrained_here_is_refused_by_name(self):
        answer = chat(
            self.server, "A colour?", max_tokens=8, response_format={"type": "json_object"}
        )
        self.assertEqual(answer.status, 400, answer.body[:500])
        self.assertIn("gateway", answer.error["message"])

    # C073
    def test_too_long_a_prompt_is_refused_before_any_worker_hears_of_it(self):
        answer = complete(self.server, "word " * 2000, max_tokens=5)
        self.assertEqual(answer.status, 400)
        self.wait_until_idle()

    # C075, C076
    def test_clients_that_leave_leave_nothing(self):
        for pause in (0, 0.02, 0.1, 0.3):
            sockets = [
                open_request(self.server, COMPLETIONS, prompt=PROMPTS[4], max_tokens=400)
                for _ in range(4)
            ]
            time.sleep(pause)
            for one in sockets:
                one.close()
        self.assert_alive()


class Converted(Deployment):
    """Prefill keeps its pages in BF16 and decode in FP8: both workers are told decode's format."""

    both = ("--decode.kv", "fp8_e4m3")
    pool = ("--threads", "1")

    def test_answers_are_those_of_the_split_placement(self):
        split = Server(
            [*self.common, *self.pool, *self.both, *self.chunk, "--placement", "split"]
        )
        try:
            for prompt in PROMPTS:
                for fields in ({"temperature": 0}, {"temperature": 0.9, "seed": 7}):
                    fields = {"max_tokens": 24, "logprobs": 3, **fields}
                    other = complete(self.server, prompt, **fields)
                    self.assertEqual(other.status, 200, other.body[:500])
                    self.assertEqual(other.choice, complete(split, prompt, **fields).choice)
        finally:
            split.stop()
        self.wait_until_idle()
        formats = [worker.whole_log().count("fp8_e4m3, ") for worker in (self.prefill, self.decode)]
        self.assertEqual(formats, [0, 1], "of their own pages")


class Watched(Deployment):
    """Workers that watch their pages and tell of themselves over HTTP."""

    both = ("--kv-integrity", "abort", "--http-listen", "127.0.0.1:0")
    both += ("--api-key", "reader", "--admin-key", "keeper")

    def checks(self, worker):
        _, sums = metrics(worker.http("reader"))
        self.assertEqual(sums["bulkhead_kv_integrity_mode"], 2)
        self.assertEqual(sums["bulkhead_kv_integrity_mismatches_total"], 0)
        return sums["bulkhead_kv_integrity_checks_total"]

    def test_each_workers_checks_rise_with_the_requests_it_had(self):
        workers = (self.prefill, self.decode)
        before = [self.checks(worker) for worker in workers]
        answer = complete(self.server, PROMPTS[4], max_tokens=40, ignore_eos=True, temperature=0)
        self.assertEqual(answer.status, 200, answer.body[:500])
        self.wait_until_idle()
        for worker, earlier in zip(workers, before):
            now = self.checks(worker)
            self.assertGreater(now, earlier, worker.role)
            told = call(worker.http("keeper"), "GET", "/v1/integrity").json()
            self.assertEqual(told["mode"], "abort")
            self.assertEqual([pool["name"] for pool in told["pools"]], [worker.role])
            self.assertGreaterEqual(told["pools"][0]["checks"], now)
        # Decode looks twice at every step: before it reads, and before a token leaves.
        self.assertGreaterEqual(self.checks(self.decode) - before[1], 2 * 39)

    def test_integrity_is_the_administrators_metrics_any_keys_and_health_everybodys(self):
        for worker in (self.prefill, self.decode):
            for path, key, status in (
                ("/v1/integrity", None, 401),
                ("/v1/integrity", "reader", 403),
                ("/v1/integrity", "keeper", 200),
                ("/metrics", None, 401),
                ("/metrics", "keeper", 200),
                ("/health", None, 200),
                ("/v1/models", "reader", 501),
                ("/nowhere", "reader", 404),
            ):
                answer = call(worker.http(key), "GET", path)
                self.assertEqual(answer.status, status, (worker.role, path, answer.body[:500]))
                self.assertEqual(answer.headers["x-kv-integrity"], "abort")

    def test_the_gateway_says_where_each_worker_tells_of_its_pages(self):
        told = call(self.server, "GET", "/v1/integrity").json()
        self.assertIsNone(told["mode"])
        self.assertEqual(told["pools"], [])
        self.assertEqual(
            told["workers"],
            [
                {"name": f"{one.role}-0", "present": True, "http": f"127.0.0.1:{one.http().port}"}
                for one in (self.prefill, self.decode)
            ],
        )

    def test_every_metric_of_a_worker_is_documented_with_its_type(self):
        page = (ROOT / "docs" / "metrics.md").read_text()
        for worker in (self.prefill, self.decode):
            scrape = call(worker.http("reader"), "GET", "/metrics").body
            exposed = re.findall(r"^# TYPE (\S+) (\S+)$", scrape, re.M)
            self.assertTrue(exposed)
            for name, kind in exposed:
                self.assertRegex(page, rf"(?m)^\|[^|]*`{re.escape(name)}`[^|]*\| {kind} \|")


class SlowReader:
    """A stream that is read on a thread of its own; `first` is set with its first token."""

    def __init__(self, server, tokens, prompt=PROMPTS[1]):
        self.server, self.tokens, self.prompt = server, tokens, prompt
        self.first = threading.Event()
        self.events = []
        self.status = None
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=120)
        body = {"prompt": self.prompt, "max_tokens": self.tokens, "stream": True, "temperature": 0}
        connection.request(
            "POST", COMPLETIONS, body=json.dumps(body), headers=headers_for(self.server)
        )
        response = connection.getresponse()
        self.status = response.status
        for line in response:
            text = line.decode().strip()
            if text.startswith("data: "):
                self.events.append(text[len("data: ") :])
                self.first.set()
        connection.close()

    def result(self):
        self.thread.join(timeout=120)
        assert not self.thread.is_alive(), "the stream hangs"
        return Stream(self.events)


class Deaths(WithPrompts):
    def assert_stream_broken_off(self, reader):
        result = reader.result()
        self.assertFalse(result.done)
        self.assertEqual(result.error["code"], "worker_lost")
        self.assertTrue(result.error["retriable"])

    def test_a_decode_worker_that_is_killed_breaks_streams_off_with_an_error(self):
        reader = SlowReader(self.server, 900)
        self.assertTrue(reader.first.wait(60))
        time.sleep(0.2)
        self.decode.kill()
        self.assert_stream_broken_off(reader)
        self.decode.start()
        self.wait_for_workers()
        self.assert_alive()

    def test_requests_while_a_role_has_nobody_are_told_to_try_again(self):
        self.prefill.kill()
        answer = complete(self.server, PROMPTS[0], max_tokens=4)
        self.assertEqual(answer.status, 503, answer.body[:500])
        self.assertEqual(answer.error["code"], "worker_lost")
        self.assertTrue(answer.error["retriable"])
        self.assertIn("retry-after", answer.headers)
        self.prefill.start()
        self.wait_for_workers()
        self.assert_alive()

    def test_a_prefill_worker_may_be_killed_at_any_moment(self):
        for pause in (0, 0.05, 0.2, 0.6):
            jobs = [
                lambda prompt=prompt: complete(self.server, prompt, max_tokens=8, temperature=0)
                for prompt in PROMPTS
            ]
            killer = threading.Timer(pause, self.prefill.kill)
            killer.start()
            for answer in together(jobs, len(jobs)):
                if answer.status != 200:
                    self.assertEqual(answer.status, 503, answer.body[:500])
                    self.assertTrue(answer.error["retriable"])
            killer.join()
            self.prefill.start()
            self.wait_for_workers()
            self.assert_alive()

    def test_a_stopped_worker_counts_as_lost_and_may_come_back(self):
        reader = SlowReader(self.server, 900)
        self.assertTrue(reader.first.wait(60))
        self.decode.send(signal.SIGSTOP)
        began = time.monotonic()
        self.assert_stream_broken_off(reader)
        self.assertLess(time.monotonic() - began, 2 * self.heartbeat + 10)
        self.decode.send(signal.SIGCONT)
        self.wait_for_workers()
        self.assert_alive()

    def test_workers_outlive_their_gateway(self):
        reader = open_request(self.server, COMPLETIONS, prompt=PROMPTS[1], max_tokens=900)
        time.sleep(0.5)
        self.server.process.kill()
        self.server.process.wait()
        reader.close()
        type(self).start_gateway()
        self.wait_for_workers()
        self.assert_alive()
        for worker in (self.prefill, self.decode):
            self.assertIn("the gateway is lost", worker.log_text())

    def test_a_worker_told_to_end_finishes_what_it_has(self):
        reader = SlowReader(self.server, 60)
        self.assertTrue(reader.first.wait(60))
        self.decode.send(signal.SIGTERM)
        result = reader.result()
        self.assertTrue(result.done, result.error)
        self.assertEqual(self.decode.process.wait(timeout=60), 0)
        self.decode.start()
        self.wait_for_workers()
        self.assert_alive()


class Configured(unittest.TestCase):
    """What a start takes and refuses; nothing is loaded."""

    def setUp(self):
        if not can_start_servers():
            self.skipTest("needs the binary and the model")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.key = str(self.write("key", KEY))

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        return path

    def run_bulkhead(self, *arguments):
        command = [find_binary(), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def accepted(self, *flags):
        result = self.run_bulkhead("serve", "--dry-run", *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def refused(self, *flags):
        """The one line that says why, by a start as by a dry run."""
        results = [
            self.run_bulkhead("serve", "--model", find_model(), *dry, *flags)
            for dry in (["--dry-run"], [])
        ]
        for result in results:
            self.assertNotEqual(result.returncode, 0, result.stdout)
            self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        self.assertEqual(results[0].stderr, results[1].stderr)
        return results[0].stderr

    def with_key(self, *flags):
        return [*flags, "--worker-key-file", self.key]

    def gateway(self, prefill, decode):
        lists = ["--prefill-workers", prefill, "--decode-workers", decode]
        return self.with_key("--role", "gateway", *lists)

    def deployment(self):
        return str(
            self.write(
                "deployment.toml",
                f'model = "{find_model()}"\nworker_key_file = "{self.key}"\n'
                'prefill_workers = ["127.0.0.1:7001"]\ndecode_workers = ["127.0.0.1:7002"]\n'
                "heartbeat = 2000\nport = 0\nthreads = 1\ncontext_length = 512\n"
                '[prefill]\nkv_cache_memory = "32M"\n'
                '[decode]\nkv = "fp8_e4m3"\nkv_cache_memory = "64M"\n',
            )
        )

    def test_one_file_serves_every_role(self):
        path = self.deployment()
        prefill = self.accepted("--config", path, "--role", "prefill")
        self.assertIn("of prefill alone", prefill)
        self.assertIn("(--prefill.kv-cache-memory)", prefill)
        decode = self.accepted("--config", path, "--role", "decode")
        self.assertIn("of decode alone", decode)
        self.assertIn("(--decode.kv-cache-memory)", decode)
        gateway = self.accepted("--config", path, "--role", "gateway")
        self.assertIn("a prefill worker of 127.0.0.1:7001", gateway)

    def explained(self, role):
        result = self.run_bulkhead(
            "config", "explain", "--json", "--config", self.deployment(), "--role", role
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        told = json.loads(result.stdout)
        self.assertIsNone(told["problem"])
        return {one["name"]: one for one in told["options"]}

    def test_an_explanation_is_that_of_the_role(self):
        idle = "without effect in this role"
        decode = self.explained("decode")
        self.assertEqual(decode["decode.kv_cache_memory"]["value"], "64M")
        self.assertEqual(decode["isa"]["source"], "derived")
        for name in ("prefill.kv_cache_memory", "prefill_workers", "port"):
            self.assertIn(idle, decode[name]["why"], name)
        for name in ("decode.kv", "heartbeat", "worker_key_file"):
            self.assertNotIn(idle, decode[name]["why"] or "", name)
        gateway = self.explained("gateway")
        for name in ("threads", "decode.kv", "kv_cache_memory", "listen"):
            self.assertIn(idle, gateway[name]["why"], name)
        self.assertNotIn(idle, gateway["prefill_workers"]["why"] or "")

    def test_a_role_needs_the_deployments_key(self):
        self.assertIn("--worker-key-file", self.refused("--role", "decode"))

    def test_a_key_file_that_others_may_read_or_that_is_short_is_refused(self):
        os.chmod(self.key, 0o640)
        for role in ("prefill", "decode"):
            text = self.refused(*self.with_key("--role", role))
            self.assertIn("--worker-key-file", text)
            self.assertIn("chmod 600", text)
        self.key = str(self.write("short", "fifteen-letters"))
        gateway = self.refused(*self.gateway("127.0.0.1:1", "127.0.0.1:2"))
        self.assertIn("at least 16", gateway)

    def test_a_gateway_needs_workers(self):
        text = self.refused(*self.with_key("--role", "gateway"))
        self.assertIn("--prefill-workers", text)

    def test_workers_belong_to_a_gateway(self):
        self.assertIn("--role gateway", self.refused("--prefill-workers", "127.0.0.1:1"))

    def test_addresses_that_are_none_or_are_named_twice_are_refused(self):
        self.assertIn("named twice", self.refused(*self.gateway("127.0.0.1:1", "127.0.0.1:1")))
        self.assertIn("named twice", self.refused(*self.gateway("127.0.0.1:1", "127.1:1")))
        self.assertIn("--decode-workers", self.refused(*self.gateway("127.0.0.1:1", "127.0.0.1")))
        text = self.refused(*self.gateway("127.0.0.1:1", "127.0.0.1:2,"))
        self.assertIn("--decode-workers", text)
        self.assertIn("nobody", self.refused(*self.with_key("--role", "decode", "--listen",
                                                            "0.0.0.0:0")))

    def test_formats_that_no_page_can_be_converted_to_are_refused_before_anything_is_loaded(self):
        flags = ["--prefill.kv", "fp8_e4m3", "--decode.kv", "bf16"]
        self.assertIn("--decode.kv", self.refused(*self.with_key("--role", "prefill", *flags)))

    def test_an_http_address_of_a_worker_is_one_and_needs_a_key_beyond_loopback(self):
        decode = [*self.with_key("--role", "decode"), "--http-listen"]
        self.assertIn("--http-listen", self.refused(*decode, "127.0.0.1"))
        text = self.refused(*decode, "0.0.0.0:7101")
        self.assertIn("--http-listen 0.0.0.0:7101 is reachable", text)
        self.assertIn("--api-key", text)
        model = ["--model", find_model()]
        self.accepted(*model, *decode, "0.0.0.0:7101", "--api-key", "reader")
        self.accepted(*model, *decode, "127.0.0.1:7101")

    def test_flags_of_another_role_are_refused_by_name(self):
        for role, flag, value in (
            ("decode", "--api-key", "nobody-asks"),
            ("gateway", "--http-listen", "127.0.0.1:0"),
            ("decode", "--chunked-prefill-size", "64"),
            ("prefill", "--port", "1"),
            ("gateway", "--threads", "1"),
        ):
            text = self.refused(*self.with_key("--role", role, flag, value))
            self.assertIn(flag, text)
            self.assertIn("without effect", text)


if __name__ == "__main__":
    unittest.main()
