"""What a running Bulkhead can be asked from outside: a load, its metrics, its threads' CPU time."""

import json
import pathlib
import subprocess
import tempfile

import httpx


class BenchFailed(RuntimeError):
    pass


def bench_serve(binary, url, **options):
    """One run of `bulkhead bench serve`; its JSON. A failed request is an error here too."""
    words = []
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run.json"
        done = subprocess.run([str(binary), "bench", "serve", "--url", url, "--output", str(out),
                               *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchFailed(f"bench serve {' '.join(words)}:\n{done.stdout[-800:]}{done.stderr}")
        return json.loads(out.read_text(encoding="utf-8"))


def metrics(url):
    """Sums of the samples by name."""
    sums = {}
    for line in httpx.get(f"{url}/metrics", timeout=30).text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            plain = name.split("{")[0]
            sums[plain] = sums.get(plain, 0.0) + float(value)
    return sums


def mean_seconds(before, after, histogram):
    """Mean of what a histogram observed between two readings."""
    count = after[f"{histogram}_count"] - before[f"{histogram}_count"]
    total = after[f"{histogram}_sum"] - before[f"{histogram}_sum"]
    return total / count if count else 0.0


def io_thread(pid):
    """The thread that waits for sockets: the one that sleeps in epoll while the server is idle."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            if (task / "wchan").read_text() in ("ep_poll", "do_epoll_wait"):
                return int(task.name)
            # x86-64: epoll_wait, epoll_pwait and epoll_pwait2.
            if (task / "syscall").read_text().split()[0] in ("232", "281", "441"):
                return int(task.name)
        except OSError:
            continue
    return None


def cpu_seconds(pid, thread):
    """CPU time of one thread, in the scheduler's own resolution."""
    return int(pathlib.Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0]) / 1e9
