#!/usr/bin/env python3
"""check.py [--all] [--only TEXT] [--markdown]: the Spin models, held to variants.toml.

Each variant is made into a verifier, compiled and run; it must come to the verdict that its row
names. One that holds must have visited every state, and every line marked as one that must be
reached. Exit code 1 for any difference, 77 (skipped) where `spin` is not installed.
"""

import argparse
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import tomllib

FOLDER = pathlib.Path(__file__).resolve().parent
MEGABYTES = 2000
SECONDS = 3600
MARK = "/* must be reached */"
# What a broken assertion is called, by what it asserts.
ASSERTIONS = {"a==r": "wrong-bytes", "seen==prompt": "wrong-bytes", "label[": "foreign-label",
              "on_the_way[": "early-reuse", "landing[": "early-reuse"}


class Failure(Exception):
    """A variant that could not be run, or says less than it should."""


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                          timeout=SECONDS)
    return done.returncode, done.stdout + done.stderr


def build(variant, folder, large):
    macros = [f"-D{macro}" for macro in variant["macros"].split()]
    model = FOLDER / f"{variant['model']}.pml"
    # -o3: with statements merged, one that was never run may count as reached.
    code, text = run(["spin", "-o3", *macros, "-a", str(model)], folder)
    if code != 0 or not (folder / "pan.c").exists():
        raise Failure(f"spin refuses the model:\n{text}")
    flags = ["-DCOLLAPSE", f"-DMEMLIM={MEGABYTES}"]
    flags += ["-DNFAIR=3"] if is_live(variant) else ["-DSAFETY"]
    flags += ["-O2" if large else "-O0", "-w"]
    code, text = run([compiler(), *flags, "-o", "pan", "pan.c"], folder)
    if code != 0:
        raise Failure(f"the verifier does not compile:\n{text}")


def is_live(variant):
    return "LIVE" in variant["macros"].split()


def compiler():
    return os.environ.get("CC") or shutil.which("gcc") or "cc"


def verdict(text):
    """What the verifier found."""
    found = re.search(r"^pan:1: (.*)$", text, re.MULTILINE)
    if not found:
        if "errors: 0" not in text or "Search not completed" in text or "too small" in text:
            raise Failure(f"the search is not complete:\n{text[-2000:]}")
        return "holds"
    if found[1].startswith("invalid end state"):
        return "stuck"
    if found[1].startswith("acceptance cycle"):
        return "never-freed"
    for part, name in ASSERTIONS.items():
        if found[1].startswith("assertion violated") and part in found[1]:
            return name
    raise Failure(found[1])


def must_be_reached(model):
    lines = (FOLDER / f"{model}.pml").read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if MARK in line}


def unreached(model, text):
    marked = must_be_reached(model)
    lines = {int(line) for line in re.findall(r"\.pml:(\d+), state", text)}
    return sorted(marked & lines)


def check(variant):
    """(verdict, states, CPU seconds of the search) of one variant; raises Failure."""
    with tempfile.TemporaryDirectory(prefix="spin.") as name:
        folder = pathlib.Path(name)
        build(variant, folder, variant.get("set") == "large")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        arguments = ["-a", "-f"] if is_live(variant) else []
        _, text = run(["./pan", "-m1000000", *arguments], folder)
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    found = verdict(text)
    states = int(float(re.search(r"([\d.e+]+) states, stored", text)[1]))
    if found == "holds" and not is_live(variant):
        if missed := unreached(variant["model"], text):
            raise Failure(f"it holds because nothing happens: line {missed[0]} is never reached")
    return found, states, seconds


def report(variant, outcome, markdown):
    found, states, seconds = outcome
    macros = " ".join(variant["macros"].split())
    if markdown:
        cells = [variant["name"], f"`{macros}`", found, f"{states:,}", f"{seconds:.1f}"]
        print(f"| {' | '.join(cells)} |", flush=True)
    else:
        print(f"{found:13} {states:>11,} states {seconds:7.1f} s  "
              f"{variant['model']}: {variant['name']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="the large variants too (minutes)")
    parser.add_argument("--only", default="", help="variants whose name has this in it")
    parser.add_argument("--markdown", action="store_true", help="rows for README.md")
    options = parser.parse_args()
    if not shutil.which("spin"):
        print("skipped: spin is not installed (tools/setup/apt.sh)")
        return 77
    variants = tomllib.loads((FOLDER / "variants.toml").read_text(encoding="utf-8"))["variant"]
    chosen = [variant for variant in variants if options.only in variant["name"] and
              (options.all or variant.get("set", "quick") == "quick")]
    wrong = 0
    for variant in chosen:
        try:
            outcome = check(variant)
        except (Failure, subprocess.TimeoutExpired) as error:
            wrong += 1
            print(f"FAILED  {variant['model']}: {variant['name']}: {error}", flush=True)
            continue
        report(variant, outcome, options.markdown)
        if outcome[0] != variant["verdict"]:
            wrong += 1
            print(f"FAILED  {variant['name']}: {variant['verdict']} was expected", flush=True)
    print(f"{len(chosen) - wrong} of {len(chosen)} variants come out as variants.toml says")
    return 1 if wrong or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
