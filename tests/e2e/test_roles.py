"""A deployment of three processes: the answers of one, and what happens when one of them dies."""

import http.client
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from harness import (
    START_SECONDS,
    Case,
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
    wait_until,
)

COMPLETIONS = "/v1/completions"
KEY = "the-key-of-the-deployment"
HEARTBEAT_SECONDS = 4  # on a busy machine a step may take that long
COMMON = ["--context-length", "1024", "--page-size", "16", "--threads", "1"]
BEAT = ["--heartbeat", str(HEARTBEAT_SECONDS * 1000)]
POOL = ["--kv-cache-memory", "64M", "--chunked-prefill-size", "64"]
PROMPTS = [
    "The capital of France is",
    "Once upon a time there was a fox who",
    "def fibonacci(n):",
    "Water boils at",
    "The three primary colours are " * 20,
]


class Worker:
    """A worker process that may be killed and started again at the same address."""

    def __init__(self, role, key_file, flags=()):
        self.role, self.key_file, self.flags = role, key_file, list(flags)
        handle, self.log_path = tempfile.mkstemp(prefix=f"bulkhead-{role}-", suffix=".log")
        os.close(handle)
        self.port = 0
        self.process = None
        self.start()

    def start(self):
        port_file = pathlib.Path(self.log_path + ".port")
        command = [find_binary(), "serve", "--model", find_model(), "--role", self.role]
        command += ["--listen", f"127.0.0.1:{self.port}", "--port-file", str(port_file)]
        command += ["--worker-key-file", self.key_file, *COMMON, *BEAT, *POOL]
        command += self.flags
        with open(self.log_path, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        end = time.monotonic() + START_SECONDS
        while not port_file.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the {self.role} worker is not ready:\n{self.log_text()}")
            time.sleep(0.05)
        self.port = int(port_file.read_text())
        port_file.unlink()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def log_text(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()[-5000:]

    def send(self, what):
        self.process.send_signal(what)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """SIGTERM, and the exit code."""
        if self.process.poll() is None:
            self.send(signal.SIGCONT)
            self.send(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        os.unlink(self.log_path)
        return code


class Deployment(Case):
    @classmethod
    def setUpClass(cls):
        if not can_start_servers():
            raise unittest.SkipTest("needs the binary and the model")
        handle, cls.key_file = tempfile.mkstemp(prefix="bulkhead-key-")
        os.write(handle, KEY.encode())
        os.close(handle)
        cls.prefill = Worker("prefill", cls.key_file)
        cls.decode = Worker("decode", cls.key_file)
        cls.start_gateway()

    @classmethod
    def start_gateway(cls):
        flags = ["--role", "gateway", "--worker-key-file", cls.key_file, *COMMON, *BEAT]
        flags += ["--prefill-workers", cls.prefill.address, "--decode-workers", cls.decode.address]
        cls.server = Server(flags)

    @classmethod
    def tearDownClass(cls):
        codes = [cls.server.stop(), cls.prefill.stop(), cls.decode.stop()]
        os.unlink(cls.key_file)
        assert codes == [0, 0, 0], codes

    def wait_for_workers(self):
        def all_up():
            _, sums = metrics(self.server)
            return sums["bulkhead_worker_up"] == 2

        wait_until(all_up, "both workers are there", 120)

    def wait_until_idle(self):
        def idle():
            _, sums = metrics(self.server)
            return sums["bulkhead_worker_sequences"] == 0 and sums["vllm:num_requests_running"] == 0

        wait_until(idle, "nobody holds anything", 120)

    def assert_alive(self):
        answer = complete(self.server, PROMPTS[0], max_tokens=4, temperature=0)
        self.assertEqual(answer.status, 200, answer.body[:500])
        self.wait_until_idle()


class Answers(Deployment):
    # C083
    def test_answers_are_those_of_one_process_byte_for_byte(self):
        single = Server([*COMMON, *POOL])
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


class Deaths(Deployment):
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
        self.assertLess(time.monotonic() - began, 2 * HEARTBEAT_SECONDS + 10)
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


class Refusals(unittest.TestCase):
    def setUp(self):
        if not can_start_servers():
            self.skipTest("needs the binary and the model")

    def refused(self, *flags):
        command = [find_binary(), "serve", "--model", find_model(), *flags]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 2, result.stderr)
        return result.stderr

    def test_a_role_needs_the_deployments_key(self):
        self.assertIn("--worker-key-file", self.refused("--role", "decode"))

    def test_a_gateway_needs_workers(self):
        with tempfile.NamedTemporaryFile("w", suffix=".key") as key:
            key.write(KEY)
            key.flush()
            text = self.refused("--role", "gateway", "--worker-key-file", key.name)
        self.assertIn("--prefill-workers", text)

    def test_workers_belong_to_a_gateway(self):
        self.assertIn("--role gateway", self.refused("--prefill-workers", "127.0.0.1:1"))


if __name__ == "__main__":
    unittest.main()
