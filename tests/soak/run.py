"""A long run with clients that leave: python tests/soak/run.py [--minutes 20].

Workers send greedy requests of mixed lengths, half of them with shared prefixes, streamed and
whole; 30 % disconnect at a random moment. Asserted: every answer that came whole equals its lone
run; the server's resident memory stays flat after a warm-up; at the end no socket, thread, running
request or page is left over. The environment chooses binary and model as in tests/e2e.
"""

import argparse
import json
import pathlib
import random
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import harness  # noqa: E402

SKIPPED = 77
ABORT_SHARE = 0.3
WORKERS = 12
TOPICS = ("the sea", "bread", "a clock", "mountains", "music", "rain", "a library", "trains")
# Memory that may come after the warm-up: allocator slack and the last pages of thread stacks.
GROWTH_BYTES = 24 << 20


def requests_to_draw_from(count):
    """Bodies of many lengths; every second one begins like seven others."""
    bodies = []
    for index in range(count):
        if index % 2:
            shared = " ".join(f"Rule {k}: speak of {TOPICS[(index // 16 + k) % 8]}."
                              for k in range(30))
        else:
            shared = ""
        own = " ".join(f"Note {k}: {TOPICS[(index + k) % 8]}." for k in range((index * 7) % 50))
        bodies.append({
            "prompt": f"{shared} {own} Story number {index} is about {TOPICS[index % 8]}:",
            "temperature": 0, "max_tokens": 2 + (index * 5) % 40, "ignore_eos": True})
    return bodies


class Process:
    """The server as /proc shows it."""

    def __init__(self, pid):
        self._folder = pathlib.Path(f"/proc/{pid}")

    def resident_bytes(self):
        for line in (self._folder / "status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
        raise RuntimeError("no VmRSS")

    def threads(self):
        return len(list((self._folder / "task").iterdir()))

    def sockets(self):
        count = 0
        for link in (self._folder / "fd").iterdir():
            try:
                count += link.readlink().name.startswith("socket:")
            except OSError:  # closed meanwhile
                continue
        return count


class Tally:
    def __init__(self):
        self._lock = threading.Lock()
        self.finished = self.aborted = self.refused = 0
        self.faults = []

    def count(self, what):
        with self._lock:
            setattr(self, what, getattr(self, what) + 1)

    def fault(self, text):
        with self._lock:
            self.faults.append(text)


def answer_of(raw):
    """(status, text of the answer or None, whether it came whole) from a response's bytes."""
    head, _, body = raw.partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1]) if head.startswith(b"HTTP/1.1 ") else 0
    if status != 200:
        return status, None, bool(head)
    if b"text/event-stream" in head.lower():
        text, done = "", False
        for line in unchunked(body).decode("utf-8").split("\n"):
            if line == "data: [DONE]":
                done = True
            elif line.startswith("data: "):
                for choice in json.loads(line[6:]).get("choices", []):
                    text += choice["text"]
        return status, text, done
    return status, json.loads(body)["choices"][0]["text"], True


def unchunked(body):
    out = bytearray()
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        out += rest[:length]
        body = rest[length + 2:]
    return bytes(out)


def send(server, body):
    """A connection whose server closes it after the answer, still unread."""
    data = json.dumps(body).encode()
    headers = {"Host": "soak", "Content-Length": len(data), "Connection": "close",
               **harness.headers_for(server)}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    connection = socket.create_connection((server.host, server.port),
                                          timeout=harness.REQUEST_SECONDS)
    connection.sendall(f"POST /v1/completions HTTP/1.1\r\n{head}\r\n".encode() + data)
    return connection


def read_all(connection, leave_at):
    """Everything the server sends, or None when the client left first."""
    raw = bytearray()
    while True:
        if leave_at is not None:
            left = leave_at - time.monotonic()
            if left <= 0:
                return None
            connection.settimeout(left)
        try:
            piece = connection.recv(65536)
        except TimeoutError:
            return None
        if not piece:
            return bytes(raw)
        raw += piece


class Worker(threading.Thread):
    def __init__(self, server, bodies, expected, deadline, seed, tally):
        super().__init__(daemon=True)
        self._server, self._bodies, self._expected = server, bodies, expected
        self._deadline, self._random, self._tally = deadline, random.Random(seed), tally

    def run(self):
        while time.monotonic() < self._deadline and not self._tally.faults:
            try:
                self._one()
            except Exception as problem:  # noqa: BLE001: whatever it is, the soak has failed
                self._tally.fault(f"a client met {problem!r}")

    def _one(self):
        index = self._random.randrange(len(self._bodies))
        leaves = self._random.random() < ABORT_SHARE
        # From before the prompt is computed to about the end of the answer.
        leave_at = time.monotonic() + self._random.uniform(0, 1.5) if leaves else None
        body = {**self._bodies[index], "stream": self._random.random() < 0.7}
        connection = send(self._server, body)
        try:
            raw = read_all(connection, leave_at)
        finally:
            # Half of those who leave do so rudely: reset instead of a polite end.
            if leaves and self._random.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                      (1).to_bytes(4, "little") + (0).to_bytes(4, "little"))
            connection.close()
        if raw is None:
            self._tally.count("aborted")
            return
        self._check(index, raw)

    def _check(self, index, raw):
        status, text, whole = answer_of(raw)
        if status == 429:
            self._tally.count("refused")
        elif status != 200 or not whole:
            self._tally.fault(f"request {index}: status {status}, whole: {whole}: {raw[:300]!r}")
        elif text != self._expected[index]:
            self._tally.fault(f"request {index}: {text!r} is not its lone answer "
                              f"{self._expected[index]!r}")
        else:
            self._tally.count("finished")


def lone_answers(server, bodies):
    return [harness.call(server, "POST", "/v1/completions", body).text for body in bodies]


def watch(process, workers, seconds, tally):
    """Resident memory, once a second or 200 times, until the workers are done."""
    samples = []
    started = time.monotonic()
    pause = max(0.1, min(5.0, seconds / 200))
    shown = started
    while any(worker.is_alive() for worker in workers):
        samples.append((time.monotonic() - started, process.resident_bytes()))
        if time.monotonic() - shown > 30:
            shown = time.monotonic()
            print(f"{samples[-1][0]:6.0f} s: {samples[-1][1] / 2**20:.1f} MiB resident, "
                  f"{tally.finished} answers, {tally.aborted} left", flush=True)
        time.sleep(pause)
    return samples


def memory_fault(samples, seconds):
    """Growth from the end of the first third to the end; None when it is bounded."""
    warm = [size for at, size in samples if seconds / 3 <= at < seconds / 2]
    late = [size for at, size in samples if at >= seconds * 5 / 6]
    if not warm or not late:
        return "too few samples of memory"
    growth = max(late) - max(warm)
    print(f"resident memory: {max(warm) / 2**20:.1f} MiB after the warm-up, "
          f"{max(late) / 2**20:.1f} MiB at the end")
    if growth > GROWTH_BYTES:
        return f"resident memory grew by {growth / 2**20:.1f} MiB after the warm-up"
    return None


def settle(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def left_over(server, process, before):
    """What is still held once all clients are gone."""
    faults = []
    if not settle(lambda: harness.idle(server)):
        sums = harness.metrics(server)[1]
        faults.append("not idle: " + ", ".join(
            f"{name} {sums[name]:g}" for name in ("vllm:num_requests_running",
                                                  "vllm:num_requests_waiting",
                                                  "vllm:kv_cache_usage_perc")))
    for name, now in (("sockets", process.sockets), ("threads", process.threads)):
        if not settle(lambda now=now, name=name: now() <= before[name]):
            faults.append(f"{now()} {name}, {before[name]} before")
    return faults


def soak(minutes, seed):
    server = harness.Server(("--max-running-requests", "8", "--max-queued-requests", "64",
                             "--context-length", "2048", "--kv-cache-memory", "64M"))
    try:
        process = Process(server.process.pid)
        bodies = requests_to_draw_from(harness.quick(48, 12) if minutes >= 1 else 12)
        expected = lone_answers(server, bodies)
        settle(lambda: harness.idle(server))
        before = {"sockets": process.sockets(), "threads": process.threads()}
        tally = Tally()
        seconds = 60 * minutes
        deadline = time.monotonic() + seconds
        workers = [Worker(server, bodies, expected, deadline, seed * 1000 + number, tally)
                   for number in range(WORKERS)]
        for worker in workers:
            worker.start()
        samples = watch(process, workers, seconds, tally)
        faults = tally.faults + left_over(server, process, before)
        # Short runs end inside the warm-up: they say nothing about growth.
        grown = memory_fault(samples, seconds) if minutes >= 1 else None
        faults += [grown] if grown else []
        if lone_answers(server, bodies[:4]) != expected[:4]:
            faults.append("after the soak a lone answer is another")
        print(f"{tally.finished} answers equal to their lone runs, {tally.aborted} clients left, "
              f"{tally.refused} refused for a full queue")
        if not tally.finished or not tally.aborted:
            faults.append("nothing was soaked")
    finally:
        code = server.stop()
    if code != 0:
        faults.append(f"the server ended with exit code {code}:\n{server.log_text()}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not harness.can_start_servers():
        print("skipped: needs the binary and the model to start a server of its own")
        return SKIPPED
    faults = soak(options.minutes, options.seed)
    for fault in faults:
        print(f"FAILED: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
