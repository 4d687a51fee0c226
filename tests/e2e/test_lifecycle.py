"""What needs a server of its own: keys, limits, shutdown."""

import json
import signal
import socket
import unittest

from harness import (
    Case,
    Server,
    call,
    can_start_servers,
    chat,
    complete,
    headers_for,
    metrics,
    quick,
    stream,
    together,
    wait_until,
)

CHAT = "/v1/chat/completions"
LENGTH = quick(60, 20)


class OwnServer(Case):
    flags = ()
    key = None

    @classmethod
    def setUpClass(cls):
        if not can_start_servers():
            raise unittest.SkipTest("needs the binary and the model to start a server of its own")
        cls.server = Server(cls.flags, cls.key)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, f"exit code {code}:\n{cls.server.log_text()}"


class Keys(OwnServer):
    key = "test-key-1"

    # C224
    def test_only_health_answers_without_the_key(self):
        json_type = {"Content-Type": "application/json"}
        wrong = [
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Bearer "},
            {"Authorization": "test-key-1"},
            {"Authorization": "Basic test-key-1"},
            {"X-Api-Key": "test-key-1"},
            {"Authorization": "Bearer test-key-1x"},
        ]
        routes = [
            ("POST", CHAT),
            ("POST", "/v1/completions"),
            ("GET", "/v1/models"),
            ("GET", "/metrics"),
            ("GET", "/version"),
            ("GET", "/nowhere"),
            ("GET", "/v1/models/x"),
            ("DELETE", CHAT),
        ]
        for method, path in routes:
            for headers in wrong:
                with self.subTest(path=path, headers=headers):
                    body = "{ not json" if method == "POST" else None
                    answer = call(
                        self.server, method, path, body, headers={**json_type, **headers}, raw=True
                    )
                    self.assert_error(answer, 401, "invalid_api_key")
        for path in ("/health", "/livez", "/readyz"):
            self.assertEqual(call(self.server, "GET", path, headers={}).status, 200)

    def test_the_key_opens(self):
        self.assertEqual(chat(self.server, "hi", max_tokens=1).status, 200)
        headers = headers_for(self.server, {"Authorization": "bearer test-key-1"})
        self.assertEqual(call(self.server, "GET", "/v1/models", headers=headers).status, 200)

    def test_a_repeated_header_is_refused(self):
        with socket.create_connection((self.server.host, self.server.port), timeout=60) as raw:
            raw.sendall(
                b"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer test-key-1\r\n"
                b"Authorization: Bearer test-key-1\r\nConnection: close\r\n\r\n"
            )
            head = raw.recv(200)
        self.assertIn(b" 40", head.split(b"\r\n")[0], "401, or 400 from the HTTP layer")


class SmallQueue(OwnServer):
    flags = ("--max-running-requests", "2", "--max-queued-requests", "2")

    def test_what_does_not_fit_is_told_to_come_back_and_the_rest_is_answered(self):
        jobs = [lambda: chat(self.server, "Count.", ignore_eos=True, max_tokens=LENGTH)] * 16
        answers = together(jobs, 16)
        refused = [answer for answer in answers if answer.status == 429]
        served = [answer for answer in answers if answer.status == 200]
        self.assertEqual(len(refused) + len(served), 16)
        self.assertTrue(refused and served)
        for answer in refused:
            self.assert_error(answer, 429, "queue_full")
            self.assertIn("retry-after", answer.headers)
        self.assertTrue(all(answer.usage["completion_tokens"] == LENGTH for answer in served))
        self.assertEqual(complete(self.server, "again", max_tokens=1).status, 200)


class Shutdown(unittest.TestCase):
    # C203
    def test_sigterm_lets_running_streams_finish(self):
        if not can_start_servers():
            self.skipTest("needs the binary and the model to start a server of its own")
        server = Server()
        bodies = [
            {
                "messages": [{"role": "user", "content": f"Story {i}."}],
                "max_tokens": 2 * LENGTH,
                "ignore_eos": True,
            }
            for i in range(3)
        ]

        def end_when_they_run():
            wait_until(
                lambda: metrics(server)[1]["vllm:num_requests_running"] == 3, "three requests run"
            )
            server.process.send_signal(signal.SIGTERM)

        jobs = [
            lambda body=body: stream(server, CHAT, **body, stream_options={"include_usage": True})
            for body in bodies
        ]
        results = together(jobs + [end_when_they_run], 4)[:3]
        for result in results:
            self.assertTrue(result.done, json.dumps(result.error))
            self.assertEqual(
                (result.finish_reason, result.usage["completion_tokens"]), ("length", 2 * LENGTH)
            )
        self.assertEqual(server.stop(), 0, server.log_text())
