"""Workers and gateways as processes of their own, which may be killed, stopped, started again."""

import os
import pathlib
import re
import signal
import tempfile
import time
import unittest

from harness import (
    START_SECONDS,
    Case,
    Server,
    can_start_servers,
    find_binary,
    find_model,
    metrics,
    start_process,
    wait_until,
)

KEY = "the-key-of-the-deployment"


def environment_with(halt_at):
    environment = {k: v for k, v in os.environ.items() if k != "BULKHEAD_HALT_AT"}
    if halt_at:
        environment["BULKHEAD_HALT_AT"] = halt_at
    return environment


def is_stopped(process):
    return is_pid_stopped(process.pid)


def is_pid_stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


class Place:
    """An HTTP address as the helpers of harness.py take it."""

    def __init__(self, host, port, key=None):
        self.host, self.port, self.key = host, port, key


class Worker:
    """A worker process that may be killed and started again at the same address."""

    def __init__(self, role, key_file, flags=(), model=None):
        self.role, self.key_file, self.flags = role, key_file, list(flags)
        self.model = model or find_model()
        handle, self.log_path = tempfile.mkstemp(prefix=f"bulkhead-{role}-", suffix=".log")
        os.close(handle)
        self.port = 0
        self.process = None
        self.start()

    def start(self, halt_at=None):
        """`halt_at`: the step at which it stops itself once (docs/transfer.md)."""
        port_file = pathlib.Path(self.log_path + ".port")
        command = [find_binary(), "serve", "--model", self.model, "--role", self.role]
        command += ["--listen", f"127.0.0.1:{self.port}", "--port-file", str(port_file)]
        command += ["--worker-key-file", self.key_file, *self.flags]
        with open(self.log_path, "a", encoding="utf-8") as log:
            self.process = start_process(command, log, environment_with(halt_at))
        end = time.monotonic() + START_SECONDS
        while not port_file.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the {self.role} worker is not ready:\n{self.log_text()}")
            time.sleep(0.02)
        self.port = int(port_file.read_text())
        port_file.unlink()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def http(self, key=None):
        """Where it answers over HTTP, as its last banner says."""
        told = re.findall(r"^  http +http://([\d.]+):(\d+)$", self.whole_log(), re.M)[-1]
        return Place(told[0], int(told[1]), key)

    def whole_log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def log_text(self):
        return self.whole_log()[-5000:]

    def send(self, what):
        self.process.send_signal(what)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """SIGTERM, and the exit code."""
        if self.process.poll() is None:
            self.send(signal.SIGCONT)
            self.send(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def stop(self):
        code = self.end()
        os.unlink(self.log_path)
        return code


class Deployment(Case):
    """One worker of each role and their gateway, for all tests of a class."""

    model = None  # the fetched one
    common = ("--context-length", "1024", "--page-size", "16")
    pool = ("--kv-cache-memory", "64M", "--threads", "1")
    both = ()  # of both workers, besides
    chunk = ("--chunked-prefill-size", "64")
    heartbeat = 4  # seconds; on a busy machine a step may take that long

    @classmethod
    def setUpClass(cls):
        if not can_start_servers():
            raise unittest.SkipTest("needs the binary and the model")
        handle, cls.key_file = tempfile.mkstemp(prefix="bulkhead-key-")
        os.write(handle, KEY.encode())
        os.close(handle)
        beat = ["--heartbeat", str(int(cls.heartbeat * 1000))]
        cls.shared_flags = [*cls.common, *beat]
        flags = [*cls.shared_flags, *cls.pool, *cls.both]
        cls.prefill = Worker("prefill", cls.key_file, [*flags, *cls.chunk], cls.model)
        cls.decode = Worker("decode", cls.key_file, flags, cls.model)
        cls.start_gateway()

    @classmethod
    def start_gateway(cls, halt_at=None):
        flags = ["--role", "gateway", "--worker-key-file", cls.key_file, *cls.shared_flags]
        flags += ["--prefill-workers", cls.prefill.address]
        flags += ["--decode-workers", cls.decode.address]
        cls.server = Server(flags, model=cls.model, environment=environment_with(halt_at))

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
        """Nobody has a request, and no page is held for one."""

        def idle():
            samples, sums = metrics(self.server)
            used = [
                value
                for name, value in samples.items()
                if name.startswith("bulkhead_kv_pages") and 'state="used"' in name
            ]
            return (
                sums["bulkhead_worker_sequences"] == 0
                and sums["vllm:num_requests_running"] == 0
                and sums["bulkhead_worker_up"] == 2
                and len(used) == 2
                and sum(used) == 0
            )

        wait_until(idle, "nobody holds anything", 120)
