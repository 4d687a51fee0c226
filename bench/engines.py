"""The servers, started the same way: one process each, on loopback, on a port of its own."""

import contextlib
import dataclasses
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import httpx

import machine


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
    weight_file: pathlib.Path = None  # what it holds in memory as it is; None: see its log
    equal_bytes: bool = True  # its weights take as many bytes as Bulkhead's
    rounds_max: int = None    # fewer rounds than the others, for a floor that takes long


@dataclasses.dataclass(frozen=True)
class Running:
    url: str
    pid: int
    log: pathlib.Path


# Every matrix in the format, head and embedding table too: as many bytes as the peers have.
_RECIPES = {"bf16": [], "int4": ["--weights", "int4,head=int4,embedding=int4", "--activations",
                                 "int8"]}
_PAGE = 64  # tokens of a cache page of ours


def bulkhead(binary, model, limits, more=()):
    return Engine("Bulkhead", [
        str(binary), "serve", "--model", str(model), "--threads", str(limits.threads),
        "--context-length", str(limits.context_tokens), "--max-running-requests",
        str(limits.concurrent_max), "--max-queued-requests", "256", *more], {})


def bulkhead_options(weights, limits, cache_token_bytes):
    """Flags for the weight format, and for a cache with the room that the peers are given."""
    options = list(_RECIPES[weights])
    if cache_token_bytes:
        pages = limits.concurrent_max * -(-limits.context_tokens // _PAGE)
        options += ["--kv-cache-memory", str(pages * _PAGE * cache_token_bytes)]
    return options


def llama(binary, model, limits, more=()):
    return Engine("llama.cpp", [
        str(binary), "--model", str(model), "--threads", str(limits.threads), "--threads-batch",
        str(limits.threads), "--parallel", str(limits.concurrent_max), "--ctx-size",
        str(limits.concurrent_max * limits.context_tokens), "--flash-attn", "on", "--no-webui",
        "--cache-ram", "0", "--slot-prompt-similarity", "0", "--log-disable", *more],
        {"cache_prompt": False}, model)


def cpuid_mask(bulkhead):
    """The library of cpuid_mask.cc from the build that this program is of; EngineFailed where it
    cannot do its work."""
    library = bulkhead.resolve().parents[1] / "lib" / "libbench_cpuid_mask.so"
    if not library.is_file():
        raise EngineFailed(f"{library} is not there; build the target bench_cpuid_mask")
    tried = subprocess.run(masked(["true"], library), capture_output=True, text=True, check=False)
    # The loader goes on without what it cannot load, and says so.
    if tried.returncode != 0 or tried.stderr:
        raise EngineFailed("an engine that chooses by CPUID cannot be held to AVX2 here, llama "
                           f"alone can: {tried.stderr.strip().removeprefix('error: ')}")
    return library


def masked(command, mask):
    """The command, on a processor of the AVX2 class as far as it can see; `mask` None: as it is."""
    return ["env", f"LD_PRELOAD={mask}", *command] if mask else list(command)


def _multiplies_bf16(mask):
    """Where the processor has no products of BF16, FP32 is the faster one."""
    return not mask and bool({"avx512_bf16", "amx_bf16"} & set(machine.instruction_sets()))


def _served_here(python, script, model, limits, more, mask):
    return masked([str(python), str(machine.ROOT / "bench" / script), "--model", str(model),
                   "--threads", str(limits.threads), "--concurrent", str(limits.concurrent_max),
                   "--context", str(limits.context_tokens), *more], mask)


def openvino(python, model, limits, precision, mask=None):
    return Engine("OpenVINO GenAI" + (" in BF16" if precision == "bf16" else ""),
                  _served_here(python, "openvino_server.py", model, limits,
                               ["--precision", precision, "--cache-precision", "f16"], mask), {},
                  model / "openvino_model.bin")


def transformers(python, model, limits, equal_bytes, mask=None):
    native = _multiplies_bf16(mask)
    dtype = "bfloat16" if native else "float32"
    return Engine(f"transformers ({'BF16' if native else 'FP32'})",
                  _served_here(python, "transformers_server.py", model, limits,
                               ["--dtype", dtype], mask), {},
                  model / "model.safetensors", equal_bytes, rounds_max=1)


_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def weight_bytes(engine, log):
    """Bytes of the weights that the engine works with."""
    if engine.weight_file is not None:
        return engine.weight_file.stat().st_size
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.split()[:1] == ["weights"]:
            if found := re.search(r"([\d.]+) ([KMG])iB in memory", line):
                return int(float(found[1]) * _UNITS[found[2]])
    raise EngineFailed(f"{log} does not say what the weights of {engine.name} take")


def memory(pid):
    """(most bytes resident since the start, bytes resident now that no file backs)"""
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    sizes = {line.split()[0]: int(line.split()[1]) * 1024
             for line in status.splitlines() if line.startswith(("VmHWM:", "RssAnon:"))}
    return sizes["VmHWM:"], sizes["RssAnon:"]


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
            yield Running(url, process.pid, log_path)
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
