"""The two servers, started the same way: one process each, on loopback, on a port of its own."""

import contextlib
import dataclasses
import pathlib
import signal
import socket
import subprocess
import sys
import time

import httpx


@dataclasses.dataclass(frozen=True)
class Limits:
    threads: int
    concurrent_max: int
    context_tokens: int  # of one request


@dataclasses.dataclass(frozen=True)
class Engine:
    name: str
    command: list  # with the port left out
    # Fields of a request that switch off what would make two runs incomparable.
    extra_fields: dict


@dataclasses.dataclass(frozen=True)
class Running:
    url: str
    pid: int


def bulkhead(binary, model, limits, more=()):
    return Engine("Bulkhead", [
        str(binary), "serve", "--model", str(model), "--threads", str(limits.threads),
        "--context-length", str(limits.context_tokens), "--max-running-requests",
        str(limits.concurrent_max), "--max-queued-requests", "256", *more], {})


def llama(binary, model, limits, more=()):
    return Engine("llama.cpp", [
        str(binary), "--model", str(model), "--threads", str(limits.threads), "--threads-batch",
        str(limits.threads), "--parallel", str(limits.concurrent_max), "--ctx-size",
        str(limits.concurrent_max * limits.context_tokens), "--no-webui", "--cache-ram", "0",
        "--slot-prompt-similarity", "0", "--log-disable", *more], {"cache_prompt": False})


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def end_servers_when_ended():
    """SIGTERM leaves like any error, so that no server outlives the comparison."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


class EngineFailed(RuntimeError):
    pass


@contextlib.contextmanager
def running(engine, log_folder, ready_seconds=300):
    """Yields the started server as Running; ends it afterwards."""
    port = _free_port()
    log_path = pathlib.Path(log_folder) / f"{engine.name}.log"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with open(log_path, "wb") as log:
        process = subprocess.Popen([*engine.command, "--host", "127.0.0.1", "--port", str(port)],
                                   stdout=log, stderr=subprocess.STDOUT)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_ready(process, url, ready_seconds, log_path)
            yield Running(url, process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(process, url, seconds, log_path):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise EngineFailed(f"{process.args[0]} ended with {process.returncode}; "
                               f"its last words are in {log_path}")
        try:
            if httpx.get(f"{url}/health", timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise EngineFailed(f"{process.args[0]} was not ready after {seconds} s; see {log_path}")
