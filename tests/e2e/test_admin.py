"""Everything of the API that is not a generation: tokens, facts, keys, aborts, metrics, logs."""

import json
import os
import pathlib
import re
import signal
import tempfile
import time
import unittest

import harness
from harness import (
    Case,
    Server,
    call,
    can_start_servers,
    chat,
    complete,
    metrics,
    open_request,
    quick,
    stream,
    together,
    wait_until,
)

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]
LENGTH = quick(400, 120)
CANCELLED = "bulkhead_requests_cancelled_total"


def cancelled(server, cause):
    samples, _ = metrics(server)
    return sum(v for k, v in samples.items() if k.startswith(CANCELLED) and f'"{cause}"' in k)


class Tokens(Case):
    def test_a_prompt_has_the_ids_that_a_completion_has(self):
        answer = call(self.server, "POST", "/tokenize", {"prompt": "Hello, world"})
        self.assertEqual(answer.status, 200, answer.body)
        body = answer.json()
        self.assertEqual(body["count"], len(body["tokens"]))
        usage = complete(self.server, "Hello, world", max_tokens=1).usage
        self.assertEqual(usage["prompt_tokens"], body["count"])
        models = call(self.server, "GET", "/v1/models").json()
        self.assertEqual(body["max_model_len"], models["data"][0]["max_model_len"])

    def test_messages_have_the_ids_that_a_chat_has(self):
        body = call(self.server, "POST", "/v1/tokenize", {"messages": MESSAGES}).json()
        usage = chat(self.server, None, messages=MESSAGES, max_tokens=1).usage
        self.assertEqual(usage["prompt_tokens"], body["count"])
        rendered = call(self.server, "POST", "/apply-template", {"messages": MESSAGES}).json()
        self.assertIn(MESSAGES[0]["content"], rendered["prompt"])

    def test_tokens_come_back_as_the_text_they_were(self):
        text = "Grüße aus Köln: 12345 🎈\n\ttabs, too"
        request = {"prompt": text, "add_special_tokens": False, "return_token_strs": True}
        body = call(self.server, "POST", "/tokenize", request).json()
        self.assertEqual(len(body["token_strs"]), body["count"])
        for path in ("/detokenize", "/v1/detokenize"):
            back = call(self.server, "POST", path, {"tokens": body["tokens"]}).json()
            self.assertEqual({back["prompt"], back["text"], back["content"]}, {text})

    def test_bad_ids_are_named(self):
        answer = call(self.server, "POST", "/detokenize", {"tokens": [1, 10**9]})
        self.assert_error(answer, 400, "invalid_value", "tokens[1]")

    def test_the_harness_finds_its_tokenizer(self):
        info = call(self.server, "GET", "/tokenizer_info").json()
        self.assertIsInstance(info["eos_token"], str)
        self.assertTrue(info["tokenizer_class"])
        self.assertIn("chat_template", info)
        self.assertIn("bos_token", info)
        self.assertIn("pad_token", info)

    def test_one_request_is_bounded(self):
        answer = call(self.server, "POST", "/tokenize", {"prompt": "x" * (1 << 20) + "x"})
        self.assert_error(answer, 413, "request_too_large", "prompt")
        start = time.monotonic()
        answer = call(self.server, "POST", "/tokenize", {"prompt": "word and " * (1 << 16)})
        self.assertEqual(answer.status, 200)
        self.assertLess(time.monotonic() - start, 60)


class Facts(Case):
    def test_what_the_server_says_about_itself(self):
        info = call(self.server, "GET", "/server_info").json()
        self.assertEqual(call(self.server, "GET", "/get_server_info").status, 200)
        for name in ("max_total_num_tokens", "max_running_requests", "page_size", "context_length"):
            self.assertGreater(info[name], 0, name)
        self.assertIn("avg_spec_accept_length", info["internal_states"][0])
        for path in ("/model_info", "/get_model_info"):
            model = call(self.server, "GET", path).json()
            self.assertTrue(model["is_generation"])
            self.assertNotIn("/", model["model_path"])
        served = call(self.server, "GET", "/v1/models").json()["data"][0]
        self.assertEqual(info["model_path"], served["root"])

    def test_loads(self):
        loads = call(self.server, "GET", "/v1/loads").json()["loads"][0]
        self.assertGreaterEqual(loads["num_running_reqs"], 0)
        self.assertIsInstance(call(self.server, "GET", "/load").json()["server_load"], int)

    def test_every_kind_of_health(self):
        for path in ("/health", "/v1/health", "/ping", "/readyz", "/livez", "/health_generate"):
            self.assertEqual(call(self.server, "GET", path).status, 200, path)
        start = call(self.server, "GET", "/startupz").json()
        self.assertEqual((start["phase"], start["eta_s"]), ("ready", 0))
        self.assertGreater(start["total_bytes"], 0)

    def test_what_is_not_served_says_so(self):
        for path in ("/v1/embeddings", "/v1/responses", "/v1/messages"):
            self.assert_error(call(self.server, "POST", path, {}), 501, "not_implemented")

    def test_whole_answers_say_how_long_they_took(self):
        answer = complete(self.server, "hi", max_tokens=2)
        self.assertGreaterEqual(int(answer.headers["openai-processing-ms"]), 0)
        self.assertRegex(answer.headers["server-timing"], r"queue;dur=.*prefill;dur=.*decode;dur=")

    def test_metrics_are_those_of_the_documentation(self):
        scrape = call(self.server, "GET", "/metrics").body
        exposed = dict(re.findall(r"^# TYPE (\S+) (\S+)$", scrape, re.M))
        documented = {}
        for line in (harness.ROOT / "docs" / "metrics.md").read_text().splitlines():
            cells = line.split("|")
            if len(cells) < 5 or "`" not in cells[1]:
                continue
            for name in re.findall(r"`([^`]+)`", cells[1]):
                if name.startswith("bulkhead_worker_"):
                    continue  # of gateways: see the next test
                self.assertNotIn(name, documented)
                documented[name] = cells[2].strip()
        self.assertEqual(sorted(exposed.items()), sorted(documented.items()))

    def test_every_metric_of_a_gateways_workers_is_documented_with_its_type(self):
        page = (harness.ROOT / "docs" / "metrics.md").read_text()
        source = harness.ROOT / "src" / "serve" / "roles" / "gateway" / "gateway_runtime.cc"
        registered = re.findall(r'(gauge|counter)\(\s*"(bulkhead_worker_\w+)"', source.read_text())
        documented = re.findall(r"^\| `(bulkhead_worker_\w+)` \| (\w+) \| `worker` \|", page, re.M)
        self.assertEqual(sorted((name, kind) for kind, name in registered), sorted(documented))
        self.assertTrue(documented)


class Aborts(Case):
    def running(self, request_id, **fields):
        """A stream under that id, after its first event."""
        body = {"prompt": "Once", "max_tokens": LENGTH, "ignore_eos": True, "stream": True}
        connection = open_request(self.server, COMPLETIONS, request_id=request_id, **body, **fields)
        received = b""
        while b"data: " not in received:
            received += connection.recv(4096)
        return connection, received

    def rest(self, connection, received):
        while not received.endswith(b"0\r\n\r\n"):
            piece = connection.recv(65536)
            self.assertTrue(piece, "the stream ended without its end")
            received += piece
        connection.close()
        return received.decode()

    def test_a_stream_is_aborted_by_its_name(self):
        before = cancelled(self.server, "abort_request")
        connection, received = self.running("abort-me")
        answer = call(self.server, "POST", "/abort_request", {"rid": "abort-me"})
        self.assertEqual((answer.status, answer.json()), (200, {"aborted": 1}))
        text = self.rest(connection, received)
        self.assertIn('"finish_reason":"abort"', text)
        self.assertIn("[DONE]", text)
        again = call(self.server, "POST", "/abort_request", {"rid": "abort-me"})
        self.assertEqual(again.json(), {"aborted": 0})
        self.assertEqual(cancelled(self.server, "abort_request"), before + 1)

    def test_delete_takes_the_id_of_the_answer(self):
        connection, received = self.running("other-name")
        answer_id = re.search(rb'"id":"(cmpl-[0-9a-f]+)"', received).group(1).decode()
        answer = call(self.server, "DELETE", f"/v1/requests/{answer_id}")
        self.assertEqual(answer.status, 200, answer.body)
        self.assertIn('"finish_reason":"abort"', self.rest(connection, received))
        self.assert_error(
            call(self.server, "DELETE", f"/v1/requests/{answer_id}"), 404, "request_not_found"
        )


class OwnServer(Case):
    flags = ()

    @classmethod
    def setUpClass(cls):
        if not can_start_servers():
            raise unittest.SkipTest("needs the binary and the model to start a server of its own")
        cls.server = Server(cls.flags)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, f"exit code {code}:\n{cls.server.log_text()}"

    def as_key(self, key, method, path, body=None):
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        return call(self.server, method, path, body, headers=headers)

    def log(self):
        return pathlib.Path(self.server.log_path).read_text(encoding="utf-8", errors="replace")


class KeyFiles(OwnServer):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="bulkhead-e2e-keys-")
        cls.key_file = pathlib.Path(folder) / "keys"
        cls.key_file.write_text("# ours\nfile-key-1\n\nfile-key-2\n")
        cls.key_file.chmod(0o644)
        cls.addClassCleanup(os.rmdir, folder)
        cls.addClassCleanup(cls.key_file.unlink)
        cls.flags = ("--api-key", "flag-key-1,flag-key-2", "--api-key-file", str(cls.key_file),
                     "--admin-key", "admin-key-1", "--log-format", "json")
        super().setUpClass()

    def setUp(self):
        self.server.key = "flag-key-2"  # what the other helpers send

    def reload(self, text, expected):
        """Another key file, SIGHUP, and the wait for its line in the log."""
        before = self.log().count(expected)
        self.key_file.write_text(text)
        self.server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.log().count(expected) > before, expected)

    def opens(self, key):
        return self.as_key(key, "GET", "/version").status == 200

    def test_keys_of_every_place_open_and_others_do_not(self):
        for key in ("flag-key-1", "flag-key-2", "file-key-1", "file-key-2", "admin-key-1"):
            self.assertTrue(self.opens(key), key)
        for key in ("", "# ours", "file-key-3", "flag-key-1,flag-key-2"):
            self.assertFalse(self.opens(key), key)

    def test_a_file_open_to_everybody_is_warned_of_and_keys_are_not_logged(self):
        self.assertIn("chmod", self.log())
        for key in ("flag-key", "file-key", "admin-key-1"):
            self.assertNotIn(key, self.log())

    def test_sighup_takes_a_good_file_over_and_leaves_a_bad_one(self):
        self.reload("file-key-9\n", "keys read again")
        wait_until(lambda: self.opens("file-key-9"), "the new key opens")
        self.assertFalse(self.opens("file-key-1"))
        self.reload("two words\n", "keys stay as they were")
        self.assertTrue(self.opens("file-key-9"))
        self.assertTrue(self.opens("flag-key-1"))
        self.reload("file-key-1\nfile-key-2\n", "keys read again")
        wait_until(lambda: self.opens("file-key-1"), "the old key opens again")

    def test_reloads_under_load_cut_nobody_off(self):
        done = []

        def reload_often():
            while len(done) < 8:
                self.server.process.send_signal(signal.SIGHUP)
                time.sleep(0.01)

        def ask():
            answer = complete(self.server, "hi", max_tokens=8)
            done.append(answer.status)
            return answer.status

        results = together([reload_often] + [ask] * 8, 9)
        self.assertEqual(results[1:], [200] * 8)

    def test_only_the_admin_flushes_and_aborts_for_others(self):
        self.assert_error(
            self.as_key("flag-key-1", "POST", "/flush_cache"), 403, "insufficient_scope"
        )
        self.assertEqual(self.as_key("admin-key-1", "POST", "/flush_cache").status, 200)
        self.assert_error(
            self.as_key("flag-key-1", "POST", "/abort_request", {"abort_all": True}),
            403,
            "insufficient_scope",
        )
        fields = {"prompt": "Once", "max_tokens": LENGTH, "ignore_eos": True, "stream": True}
        connection = open_request(
            self.server, COMPLETIONS, request_id="of-flag-key-2", **fields
        )
        self.assertIn(b"200", connection.recv(4096))
        body = {"rid": "of-flag-key-2"}
        other = self.as_key("flag-key-1", "POST", "/abort_request", body)
        self.assertEqual(other.json(), {"aborted": 0})
        admin = self.as_key("admin-key-1", "POST", "/abort_request", body)
        self.assertEqual(admin.json(), {"aborted": 1})
        connection.close()

    def test_every_ended_request_is_one_line_without_its_text(self):
        secret = "Xylophone quartz vortex"
        complete(self.server, secret, max_tokens=4, request_id="log-me-1")
        stream(self.server, CHAT, messages=MESSAGES, max_tokens=4, request_id="log-me-2")
        self.assertEqual(complete(self.server, "hi", temperature=9, rid="log-me-3").status, 400)

        def lines(name):
            parsed = [json.loads(x) for x in self.log().splitlines() if x.startswith("{")]
            return [line for line in parsed if line.get("request_id") == name]

        for name, prompt_min in (("log-me-1", 3), ("log-me-2", 5)):
            wait_until(lambda name=name: lines(name), f"the line of {name}")
            (line,) = lines(name)
            self.assertEqual((line["message"], line["level"]), ("request ended", "info"))
            self.assertEqual((line["status"], line["completion_tokens"]), (200, 4))
            self.assertGreaterEqual(line["prompt_tokens"], prompt_min)
            for figure in ("queue_ms", "prefill_ms", "decode_ms", "total_ms", "cached_tokens"):
                self.assertGreaterEqual(line[figure], 0)
            self.assertEqual(line["reason"], "length")
        self.assertNotIn("Xylophone", self.log())
        self.assertNotIn("capital of France", self.log())


class FlushedCache(OwnServer):
    def test_after_a_flush_nothing_is_cached(self):
        prompt = "The quick brown fox jumps over the lazy dog. " * 40
        cached = []
        for _ in range(2):
            usage = complete(self.server, prompt, max_tokens=1).usage
            cached.append(usage["prompt_tokens_details"]["cached_tokens"])
        self.assertEqual(cached[0], 0)
        self.assertGreater(cached[1], 0)
        self.assertEqual(call(self.server, "POST", "/flush_cache").status, 200)
        usage = complete(self.server, prompt, max_tokens=1).usage
        self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], 0)


class Deadline(OwnServer):
    flags = ("--request-timeout", "1")

    def test_a_request_beyond_the_time_ends_with_408(self):
        before = cancelled(self.server, "deadline")
        answer = complete(self.server, "Once upon a time", max_tokens=4000, ignore_eos=True)
        self.assert_error(answer, 408, "deadline_exceeded")
        self.assertEqual(answer.headers["x-should-retry"], "false")
        self.assertEqual(cancelled(self.server, "deadline"), before + 1)
        self.assertEqual(complete(self.server, "hi", max_tokens=1).status, 200)
