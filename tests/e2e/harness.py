"""The server under test and small HTTP helpers, standard library only.

BULKHEAD_URL names a running server; otherwise BULKHEAD_BIN (default: the newest
build/*/bin/bulkhead) is started on a free loopback port with BULKHEAD_MODEL (default: the fetched
SmolLM2).
"""

import atexit
import concurrent.futures
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_SECONDS = 300  # a sanitizer build on a busy machine
REQUEST_SECONDS = 300


def quick(full, less):
    """`less` under sanitizers, where every token costs many times as much: fewer of the same."""
    return less if os.environ.get("BULKHEAD_QUICK") else full


def find_binary():
    named = os.environ.get("BULKHEAD_BIN")
    if named:
        return named
    build = os.environ.get("BULKHEAD_BUILD_DIR")
    places = [pathlib.Path(build)] if build else sorted(ROOT.glob("build/*"))
    found = [place / "bin" / "bulkhead" for place in places]
    found = [path for path in found if path.exists()]
    return str(max(found, key=lambda path: path.stat().st_mtime)) if found else None


def find_model():
    path = os.environ.get("BULKHEAD_MODEL")
    if path:
        return path
    path = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    return str(path) if path.exists() else None


def start_process(command, log, environment=None):
    """A process in a session of its own, which ends with this one at the latest.

    In our session the kernel would continue it, if it stands still, as soon as the shell that
    started us ends: a process group whose last link to its session ends gets SIGHUP and SIGCONT.
    """
    process = subprocess.Popen(
        command,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    )
    atexit.register(process.kill)  # does nothing to one whose end is known
    return process


class Server:
    """One server process of our own, or one that runs already."""

    def __init__(self, flags=(), key=None, model=None, environment=None):
        self.key = key
        self.environment = environment  # None: this process's
        self.model = model or find_model()
        self.process = None
        handle, self.log_path = tempfile.mkstemp(prefix="bulkhead-e2e-", suffix=".log")
        os.close(handle)
        atexit.register(os.unlink, self.log_path)
        self._start(list(flags))

    def _start(self, flags):
        binary, model = find_binary(), self.model
        port_file = pathlib.Path(self.log_path + ".port")
        command = [binary, "serve", "--model", model, "--port", "0", "--port-file", str(port_file)]
        if self.key:
            flags += ["--api-key", self.key]
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = start_process(command + flags, log, self.environment)
        end = time.monotonic() + START_SECONDS
        while not port_file.exists():
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended at start:\n{self.log_text()}")
            if time.monotonic() > end:
                self.process.kill()
                raise RuntimeError(f"the server is not ready:\n{self.log_text()}")
            time.sleep(0.05)
        self.port = int(port_file.read_text())
        self.host = "127.0.0.1"
        port_file.unlink()

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    def log_text(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()[-5000:]

    def alive(self):
        return self.process is None or self.process.poll() is None

    def stop(self):
        """SIGTERM, and the exit code."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


class RunningServer(Server):
    def __init__(self, url):
        parts = urllib.parse.urlparse(url)
        self.host, self.port = parts.hostname, parts.port or 80
        self.key = os.environ.get("BULKHEAD_API_KEY")
        self.process = None

    def log_text(self):
        return ""


_shared = None


def shared_server():
    """The server that most tests share."""
    global _shared
    if _shared is None:
        url = os.environ.get("BULKHEAD_URL")
        _shared = RunningServer(url) if url else Server()
    return _shared


def stop_shared_server():
    return _shared.stop() if _shared is not None else 0


def can_start_servers():
    return find_binary() is not None and find_model() is not None


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json()["error"]

    @property
    def choice(self):
        return self.json()["choices"][0]

    @property
    def text(self):
        choice = self.choice
        return choice["message"]["content"] if "message" in choice else choice["text"]

    @property
    def usage(self):
        return self.json()["usage"]


class Stream:
    """A stream as a client folds it."""

    def __init__(self, events):
        self.events = events
        self.done = bool(events) and events[-1] == "[DONE]"
        self.chunks = [json.loads(event) for event in events if event != "[DONE]"]
        self.text = ""
        self.finish_reason = self.stop_reason = self.usage = self.error = None
        for chunk in self.chunks:
            if "error" in chunk:
                self.error = chunk["error"]
                continue
            self.usage = chunk.get("usage") or self.usage
            for choice in chunk["choices"]:
                self.text += choice.get("text") or choice.get("delta", {}).get("content") or ""
                if choice["finish_reason"] is not None:
                    self.finish_reason = choice["finish_reason"]
                    self.stop_reason = choice.get("stop_reason")


def headers_for(server, extra=None):
    headers = {"Content-Type": "application/json"}
    if server.key:
        headers["Authorization"] = f"Bearer {server.key}"
    headers.update(extra or {})
    return headers


def call(server, method, path, body=None, headers=None, raw=False):
    """One request on a connection of its own; `body` is JSON unless raw."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=REQUEST_SECONDS)
    try:
        data = body if raw or body is None else json.dumps(body)
        connection.request(
            method, path, body=data, headers=headers_for(server) if headers is None else headers
        )
        response = connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, names, response.read().decode("utf-8"))
    finally:
        connection.close()


def chat(server, content, **fields):
    fields.setdefault("messages", [{"role": "user", "content": content}])
    return call(server, "POST", "/v1/chat/completions", fields)


def complete(server, prompt, **fields):
    return call(server, "POST", "/v1/completions", {"prompt": prompt, **fields})


def stream(server, path, **fields):
    """The whole stream; a refusal comes back as an Answer."""
    fields["stream"] = True
    answer = call(server, "POST", path, fields)
    if answer.status != 200:
        return answer
    events = [
        line[len("data: ") :] for line in answer.body.split("\n") if line.startswith("data: ")
    ]
    return Stream(events)


def open_request(server, path, **fields):
    """Sends a request and leaves the answer unread: a socket."""
    body = json.dumps(fields).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {server.host}:{server.port}",
        f"Content-Length: {len(body)}",
    ]
    lines += [f"{name}: {value}" for name, value in headers_for(server).items()]
    connection = socket.create_connection((server.host, server.port), timeout=REQUEST_SECONDS)
    connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    return connection


def metrics(server):
    """Samples by name with labels, e.g. 'a_total{model_name="x"}', and their sums by name."""
    samples, sums = {}, {}
    for line in call(server, "GET", "/metrics").body.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        name, value = line.rsplit(" ", 1)
        samples[name] = float(value)
        plain = name.split("{")[0]
        sums[plain] = sums.get(plain, 0.0) + float(value)
    return samples, sums


def together(jobs, width):
    """Runs callables with so many at once; results in order."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=width) as pool:
        return list(pool.map(lambda job: job(), jobs))


def wait_until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def idle(server):
    _, sums = metrics(server)
    return (
        sums["vllm:num_requests_running"] == 0
        and sums["vllm:num_requests_waiting"] == 0
        and sums["vllm:kv_cache_usage_perc"] == 0
    )


class Case(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.server = shared_server()

    def tearDown(self):
        self.assertTrue(self.server.alive(), f"the server died:\n{self.server.log_text()}")

    def assert_error(self, answer, status, code, param=None):
        self.assertEqual(answer.status, status, answer.body[:500])
        error = answer.error
        self.assertEqual((error["code"], error["param"]), (code, param), error["message"])
        self.assertTrue(error["message"] and error["type"])
        self.assertEqual(error["request_id"], answer.headers["x-request-id"])
