#!/usr/bin/env python3
"""clang-tidy on the C++ files a change touches, within a time budget.

The change is what differs from BASE: $BULKHEAD_LINT_BASE, else the merge base with origin/main,
else the commit before HEAD; uncommitted files count. A changed header brings the source beside it.
Files that passed before in the same state are not read again. When the budget runs out the rest is
named, not failed: a whole-tree run is `clang_tidy.py --all --budget 0`.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIDY = "clang-tidy-19"


def git(*arguments):
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True,
                          check=False)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else None


def base_commit():
    given = os.environ.get("BULKHEAD_LINT_BASE")
    head = git("rev-parse", "HEAD")
    for candidate in ([given] if given else []) + ["origin/main", "origin/master"]:
        found = git("merge-base", "HEAD", candidate)
        if found and head and found[0] != head[0]:
            return found[0]
    before = git("rev-parse", "--verify", "-q", "HEAD~1")
    return before[0] if before else None


def changed_files():
    base = base_commit()
    # Without a commit to compare with, everything is the change.
    names = set(git("diff", "--name-only", "--diff-filter=d", base) if base else
                git("ls-files") or [])
    names |= set(git("ls-files", "--others", "--exclude-standard") or [])
    return names


class Cache:
    """Which (file, included project files, settings) states are known to be clean."""

    def __init__(self, path):
        self._path = path
        self._settings = (ROOT / ".clang-tidy").read_bytes()
        self._clean = set(json.loads(path.read_text())) if path.is_file() else set()

    def key(self, command):
        digest = hashlib.sha256(self._settings)
        digest.update(command["command"].encode())
        for path in self._reached(pathlib.Path(command["file"])):
            digest.update(path.as_posix().encode() + path.read_bytes())
        return digest.hexdigest()

    def _reached(self, source):
        seen, todo = set(), [source]
        while todo:
            path = todo.pop()
            if path in seen or not path.is_file():
                continue
            seen.add(path)
            text = path.read_text(encoding="utf-8", errors="replace")
            for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.MULTILINE):
                todo += [ROOT / "src" / name, path.parent / name]
        return sorted(seen)

    def __contains__(self, key):
        return key in self._clean

    def add(self, key):
        self._clean.add(key)
        self._path.write_text(json.dumps(sorted(self._clean)))


def select(commands, everything):
    """The compile commands to check: those of changed sources and of changed headers' sources."""
    own = [c for c in commands if pathlib.Path(c["file"]).is_relative_to(ROOT)
           and not pathlib.Path(c["file"]).is_relative_to(ROOT / "build")]
    if everything:
        return own
    wanted = set()
    for name in changed_files():
        path = ROOT / name
        if path.suffix in (".cc", ".h"):
            wanted.add(path.with_suffix(".cc"))
    return [c for c in own if pathlib.Path(c["file"]) in wanted]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/clang", help="build tree of a clang preset")
    parser.add_argument("--budget", type=float, default=300, help="seconds; 0: no limit")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--all", action="store_true", help="every file, not only the change")
    options = parser.parse_args()

    build = ROOT / options.build
    commands = json.loads((build / "compile_commands.json").read_text())
    cache = Cache(build / "clang-tidy-passed.json")
    todo = [(cache.key(c), c) for c in select(commands, options.all)]
    fresh = [(key, c) for key, c in todo if key not in cache]
    print(f"clang-tidy: {len(todo)} files of the change, {len(todo) - len(fresh)} passed before")

    deadline = time.monotonic() + options.budget if options.budget else float("inf")
    lock = threading.Lock()
    failed, unread = [], []

    def read(item):
        key, command = item
        name = pathlib.Path(command["file"]).relative_to(ROOT).as_posix()
        if time.monotonic() >= deadline:
            unread.append(name)
            return
        done = subprocess.run([TIDY, "--quiet", "-p", str(build), command["file"]],
                              capture_output=True, text=True, check=False)
        with lock:
            if done.returncode == 0:
                cache.add(key)
            else:
                failed.append(name)
                print(done.stdout + "\n".join(
                    line for line in done.stderr.splitlines() if "warnings generated" not in line))

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(read, fresh))
    if unread:
        print(f"clang-tidy: {options.budget:.0f} s are over; not read: {' '.join(sorted(unread))}")
    if failed:
        print(f"clang-tidy: findings in {' '.join(sorted(failed))}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
