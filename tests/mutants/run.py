#!/usr/bin/env python3
"""run.py [--check] [--only TEXT] [--scratch FOLDER] [--jobs N]: the mutants of mutants.toml.

Each is a bug that others had, as a patch. In a scratch copy of HEAD (a git worktree whose build
folder serves all of them) each patch is applied, its test's executable is built, and the test has
to fail; the same tests have to pass without any patch. Prints a line for each and the score; exit
code 1 below the full score, for a mutant that does not build, and for a test that fails without it.

--check builds nothing: every patch still applies, and every named test exists.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
TEST_SECONDS = 300
ABSENT = "is not there"


def run(command, folder=ROOT, seconds=None):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                          timeout=seconds)
    return done.returncode, done.stdout + done.stderr


def must(command, folder=ROOT):
    code, text = run(command, folder)
    if code != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{text[-4000:]}")


def patch_of(mutant):
    return FOLDER / "patches" / f"{mutant['name']}.patch"


def mutants():
    listed = tomllib.loads((FOLDER / "mutants.toml").read_text(encoding="utf-8"))["mutant"]
    names = [mutant["name"] for mutant in listed]
    files = {path.stem for path in (FOLDER / "patches").glob("*.patch")}
    if len(set(names)) != len(names) or set(names) != files:
        sys.exit(f"mutants.toml and patches/ differ: {sorted(set(names) ^ files)}")
    return listed


# --- without building

def known_tests():
    tests = set()
    for top in ("src", "tests"):
        for path in (ROOT / top).rglob("*_test.cc"):
            text = path.read_text(encoding="utf-8")
            tests |= {f"{suite}.{name}" for suite, name in
                      re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", text, re.MULTILINE)}
    return tests


def check(listed):
    tests = known_tests()
    wrong = 0
    for mutant in listed:
        code, text = run(["git", "apply", "--check", str(patch_of(mutant))])
        if code != 0:
            wrong += 1
            print(f"{mutant['name']}: its patch does not apply any more:\n{text}")
        if mutant["test"] not in tests:
            wrong += 1
            print(f"{mutant['name']}: there is no test {mutant['test']}")
    print(f"{len(listed)} mutants, {wrong} findings")
    return 1 if wrong else 0


# --- building and running

class Scratch:
    """A worktree of HEAD with a build folder of its own."""

    def __init__(self, folder, jobs):
        self.tree = folder / "tree"
        self.build = self.tree / "build" / "dev"
        self.jobs = jobs

    def prepare(self):
        if (self.tree / ".git").exists():
            must(["git", "reset", "-q", "--hard"], self.tree)
            _, head = run(["git", "rev-parse", "HEAD"])
            must(["git", "checkout", "-q", "--detach", head.strip()], self.tree)
        else:
            must(["git", "worktree", "prune"])
            must(["git", "worktree", "add", "-q", "--detach", str(self.tree), "HEAD"])
        third_party = self.tree / "third_party"
        if not third_party.exists():
            third_party.symlink_to((ROOT / "third_party").resolve())
        must(["cmake", "--preset", "dev"], self.tree)

    def remove(self):
        must(["git", "worktree", "remove", "--force", str(self.tree)])

    def make(self, targets):
        return run(["cmake", "--build", str(self.build), "-j", str(self.jobs),
                    "--target", *targets], self.tree)

    def test(self, target, name):
        """Empty where it passes, or how it does not."""
        binary = next(self.build.rglob(target), None)
        if binary is None:
            sys.exit(f"{target} was not built")
        try:
            # The second form is that of a test with parameters.
            code, text = run([str(binary), f"--gtest_filter={name}:*/{name}/*"], self.tree,
                             TEST_SECONDS)
        except subprocess.TimeoutExpired:
            return "does not end"
        if code == 0:
            return "" if re.search(r"^\[  PASSED  \] [1-9]", text, re.MULTILINE) else ABSENT
        return "stopped by a check" if code < 0 else "fails"


def baseline(scratch, listed):
    code, text = scratch.make(sorted({mutant["target"] for mutant in listed}))
    if code != 0:
        sys.exit(f"the tests do not build without a mutant:\n{text[-4000:]}")
    wrong = 0
    for target, name in sorted({(mutant["target"], mutant["test"]) for mutant in listed}):
        if outcome := scratch.test(target, name):
            wrong += 1
            print(f"{name} {outcome} without any mutant")
    return wrong


def try_mutant(scratch, mutant):
    """(caught, what happened)"""
    must(["git", "apply", str(patch_of(mutant))], scratch.tree)
    try:
        code, text = scratch.make([mutant["target"]])
        if code != 0:
            return False, f"does not build:\n{text[-2000:]}"
        outcome = scratch.test(mutant["target"], mutant["test"])
        return outcome not in ("", ABSENT), outcome or "passes"
    finally:
        must(["git", "checkout", "-q", "--", "src"], scratch.tree)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="patches apply, tests exist; no build")
    parser.add_argument("--only", default="", help="mutants whose name has this in it")
    parser.add_argument("--scratch", type=pathlib.Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--keep", action="store_true", help="leave the scratch copy for next time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if not shutil.which("git"):
        print("skipped: git is not installed")
        return 77
    listed = [mutant for mutant in mutants() if options.only in mutant["name"]]
    if options.check:
        return check(listed)
    scratch = Scratch(options.scratch.resolve(), options.jobs)
    scratch.prepare()
    wrong = baseline(scratch, listed)
    caught = 0
    for mutant in listed:
        found, what = try_mutant(scratch, mutant)
        caught += found
        print(f"{'caught' if found else 'MISSED':7} {mutant['name']}: {mutant['test']} {what}",
              flush=True)
    print(f"score: {caught} of {len(listed)} mutants caught")
    if not options.keep:
        scratch.remove()
    return 1 if wrong or caught < len(listed) or not listed else 0


if __name__ == "__main__":
    sys.exit(main())
