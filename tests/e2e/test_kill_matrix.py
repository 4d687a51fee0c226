"""Each role is killed, or stopped and continued, at each step of a request's way.

A step is a message of one of the two protocols; the process stops itself there once
(BULKHEAD_HALT_AT, docs/transfer.md), so that nothing here depends on timing. KILL_MATRIX_REPEATS=n
runs every cell n times; without it every kill is there once and every second stop.
"""

import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest

from deployment import Deployment, is_pid_stopped, is_stopped
from harness import (
    ROOT,
    Stream,
    complete,
    headers_for,
    metrics,
    open_request,
    quick,
    wait_until,
)

COMPLETIONS = "/v1/completions"
REPEATS = int(os.environ.get("KILL_MATRIX_REPEATS", "1"))
LEASE_SECONDS = 20  # of pages that decode granted
RETRIABLE = {"worker_lost", "kv_transfer_failed", "kv_integrity", "overloaded"}
TRIES = 5
PROMPT = "The vault has seven doors, and every door has a code of its own. " * 6
FIELDS = {"prompt": PROMPT, "max_tokens": 24, "temperature": 0, "ignore_eos": True}

STEPS = {
    "prefill": [
        "hear-submit",  # the prompt has come, nothing of it is done
        "send-hello",  # connecting to decode
        "tell-admitted",  # about to compute
        "receive-grant",  # before the grant is taken
        "send-chunk:3",  # in the middle of the transfer, while the rest is computed
        "send-commit",  # after the last byte, before the record
        "receive-accept",  # after the record: decode has it
    ],
    "decode": [
        "hear-expect",
        "send-grant",
        "receive-chunk:2",  # pages are being filled
        "send-accept",  # the record stands, prefill has not heard so
        "tell-token",  # its first
        "tell-token:8",  # in the middle of the stream
        "tell-ended",
    ],
    "gateway": [
        "tell-expect",
        "tell-submit",
        "hear-admitted",
        "hear-offered",
        "hear-accepted",
        "hear-token:8",
        "hear-ended",
    ],
}


class Client(threading.Thread):
    """One streamed request, and how it ended."""

    def __init__(self, server):
        super().__init__()
        self.server = server
        self.stream = self.error = None
        self.broken = False  # the server went away under it
        self.start()

    def run(self):
        events, status, body = [], None, b""
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=120)
        try:
            connection.request(
                "POST",
                COMPLETIONS,
                body=json.dumps({**FIELDS, "stream": True}),
                headers=headers_for(self.server),
            )
            response = connection.getresponse()
            status = response.status
            for line in response:
                body += line
                if line.startswith(b"data: "):
                    events.append(line[len(b"data: ") :].decode().strip())
        except (OSError, http.client.HTTPException):
            self.broken = True
        finally:
            connection.close()
        if status is not None and status != 200 and not self.broken:
            self.error = json.loads(body)["error"]
        else:
            self.stream = Stream(events)
            self.error = self.stream.error
            # Without its end, a stream is cut.
            self.broken = self.broken or not (self.stream.done or self.error)


class Matrix(Deployment):
    model = str(ROOT / "models" / "tiny-moe")
    pool = ("--kv-cache-memory", "16M", "--threads", "1")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        answer = complete(cls.server, **FIELDS)
        assert answer.status == 200, answer.body
        cls.expected = answer.text

    def restart(self, role, halt_at=None):
        if role == "gateway":
            if self.server.alive():
                self.assertEqual(self.server.stop(), 0)
            type(self).start_gateway(halt_at)
        else:
            worker = getattr(self, role)
            if worker.process.poll() is None:
                self.assertEqual(worker.end(), 0)
            worker.start(halt_at)
        self.wait_for_workers()

    def process_of(self, role):
        return self.server.process if role == "gateway" else getattr(self, role).process

    # A step may be missed where a busy machine loses a worker before it.
    def send_until_stopped(self, process):
        for _ in range(TRIES):
            client = Client(self.server)
            while client.is_alive() and not is_stopped(process):
                time.sleep(0.005)
            if is_stopped(process):
                return client
            client.join()
            self.check(client)
            self.wait_for_workers()
        self.fail("the step is never reached")

    def check(self, client, may_break=False):
        """The right answer, or the start of it and an error that says "try again"."""
        text = client.stream.text if client.stream else ""
        if client.stream and client.stream.done:
            self.assertEqual(text, self.expected)
            return
        self.assertTrue(self.expected.startswith(text), text)
        if client.broken:
            self.assertTrue(may_break, "the stream is cut")
            return
        self.assertIn(client.error["code"], RETRIABLE)
        self.assertTrue(client.error["retriable"])

    def assert_recovered(self, began):
        """A new request is answered rightly in time, and then nobody holds anything."""
        while True:
            answer = complete(self.server, **FIELDS)
            if answer.status == 200:
                break
            self.assertIn(answer.error["code"], RETRIABLE)
            self.assertLess(time.monotonic() - began, LEASE_SECONDS + 1)
        self.assertLess(time.monotonic() - began, LEASE_SECONDS + 1)
        self.assertEqual(answer.text, self.expected)
        self.wait_until_idle()

    def join(self, client, may_break=False):
        client.join(timeout=120)
        self.assertFalse(client.is_alive(), "the client hangs")
        self.check(client, may_break)

    def kill(self, role, step):
        self.restart(role, step)
        client = self.send_until_stopped(self.process_of(role))
        if role == "gateway":
            self.server.process.kill()
            self.server.process.wait()
        else:
            getattr(self, role).kill()
        self.restart(role)
        began = time.monotonic()
        self.join(client, may_break=role == "gateway")
        self.assert_recovered(began)

    def stop(self, role, step):
        self.restart(role, step)
        process = self.process_of(role)
        client = self.send_until_stopped(process)
        if role == "gateway":
            workers = (self.prefill, self.decode)
            before = [self.losses(worker) for worker in workers]
            wait_until(
                lambda: all(self.losses(w) > n for w, n in zip(workers, before)),
                "the gateway is missed",
            )
        else:
            self.wait_for_loss(role)
        process.send_signal(signal.SIGCONT)
        began = time.monotonic()
        self.join(client)
        self.wait_for_workers()
        self.assert_recovered(began)
        self.assertIsNone(process.poll())

    @staticmethod
    def losses(worker):
        return worker.whole_log().count("the gateway is lost")

    def wait_for_loss(self, role):
        def is_down():
            samples, _ = metrics(self.server)
            return any(
                name.startswith("bulkhead_worker_up") and f'"{role}-0"' in name and value == 0
                for name, value in samples.items()
            )

        wait_until(is_down, f"the {role} worker is missed")

    def run_cells(self, role, fate, steps):
        for step in steps * REPEATS:
            with self.subTest(role=role, fate=fate, step=step):
                getattr(self, fate)(role, step)


class Kills(Matrix):
    """A connection that breaks tells of it, so heartbeats may be long."""

    heartbeat = 4

    def test_prefill_is_killed(self):
        self.run_cells("prefill", "kill", STEPS["prefill"])

    def test_decode_is_killed(self):
        self.run_cells("decode", "kill", STEPS["decode"])

    def test_the_gateway_is_killed(self):
        self.run_cells("gateway", "kill", STEPS["gateway"])


class Stops(Matrix):
    """Only silence tells of it, for two heartbeats each time."""

    heartbeat = 2
    # All of them only where more was asked for than the suite has time for.
    one_in = 1 if REPEATS > 1 else quick(2, 3)

    def test_prefill_is_stopped_and_continued(self):
        self.run_cells("prefill", "stop", STEPS["prefill"][:: self.one_in])

    def test_decode_is_stopped_and_continued(self):
        self.run_cells("decode", "stop", STEPS["decode"][:: self.one_in])

    def test_the_gateway_is_stopped_and_continued(self):
        self.run_cells("gateway", "stop", STEPS["gateway"][:: self.one_in])


class LateWrites(Deployment):
    """A request is given up while its prefill worker stands still over a page."""

    model = Matrix.model
    pool = Matrix.pool
    heartbeat = 4

    def sequences_of(self, label):
        samples, _ = metrics(self.server)
        return next(
            value
            for name, value in samples.items()
            if name.startswith("bulkhead_worker_sequences") and f'"{label}"' in name
        )

    def refused(self):
        return metrics(self.server)[1]["bulkhead_worker_writes_refused_total"]

    # C040
    def test_what_a_revived_process_still_writes_is_refused_and_counted(self):
        expected = complete(self.server, **FIELDS).text
        self.assertEqual(self.prefill.end(), 0)
        self.prefill.start("send-chunk:2")
        self.wait_for_workers()
        self.assertEqual(self.refused(), 0)
        connection = open_request(self.server, COMPLETIONS, stream=True, **FIELDS)
        wait_until(lambda: is_stopped(self.prefill.process), "prefill stands over a page")
        connection.close()
        wait_until(lambda: self.sequences_of("decode-0") == 0, "decode has let go of it")
        self.prefill.send(signal.SIGCONT)
        wait_until(lambda: self.refused() > 0, "a late write is counted")
        self.assertEqual(complete(self.server, **FIELDS).text, expected)
        self.wait_until_idle()


# A shell with job control, the tests that it runs in a group of their own, and what they start.
SHELL = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", *sys.argv[1:]])
sys.stdin.read()
"""
TESTS = """
import os, signal, subprocess, sys
os.setpgid(0, 0)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
sys.path.insert(0, sys.argv[1])
import harness
start = {"harness": lambda command: harness.start_process(command, subprocess.DEVNULL),
         "plain": lambda command: subprocess.Popen(command, stdout=subprocess.DEVNULL)}
started = start[sys.argv[2]](["sleep", "60"])
started.send_signal(signal.SIGSTOP)
print(started.pid, flush=True)
sys.stdin.read()
started.kill()
"""


class StandingStill(unittest.TestCase):
    """What was stopped stands still until it is told to go on, whoever else ends."""

    def goes_on_when_the_shell_ends(self, how):
        here = str(pathlib.Path(__file__).resolve().parent)
        shell = subprocess.Popen(
            [sys.executable, "-c", SHELL, TESTS, here, how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        with shell.stdin, shell.stdout:
            started = int(shell.stdout.readline())
            wait_until(lambda: is_pid_stopped(started), "it stands still")
            shell.kill()
            shell.wait()
            end = time.monotonic() + 1
            while is_pid_stopped(started) and time.monotonic() < end:
                time.sleep(0.01)
            return not is_pid_stopped(started)

    def test_no_shell_that_ends_continues_a_process_of_the_harness(self):
        self.assertTrue(self.goes_on_when_the_shell_ends("plain"), "the kernel does so")
        self.assertFalse(self.goes_on_when_the_shell_ends("harness"))


if __name__ == "__main__":
    unittest.main()
