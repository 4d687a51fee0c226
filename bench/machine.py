"""What a benchmark table must say about where it was measured."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
_INSTRUCTION_SETS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def instruction_sets():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            flags = set(line.split())
            return [name for name in _INSTRUCTION_SETS if name in flags]
    return []


def kind():
    """"amx", "avx512" or "avx2": the class of machine that targets are stated for."""
    found = instruction_sets()
    if "amx_bf16" in found:
        return "amx"
    return "avx512" if "avx512f" in found else "avx2"


def commit():
    def git(*arguments):
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True,
                              check=False).stdout.strip()

    dirty = "+changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    return git("rev-parse", "--short", "HEAD") + dirty


def describe():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"{cpu_model()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, "
            f"{' '.join(instruction_sets())}")


def load_average():
    return os.getloadavg()[0]
