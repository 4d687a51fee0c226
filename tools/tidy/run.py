#!/usr/bin/env python3
"""Runs the tidy checks on the repository: run.py [CHECK...]; no argument runs all.

Prints one line a finding (path:line: what) and exits with 1 if there is any.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import budgets
import cases
import layers
import markers
import structure
import words
from source_tree import SourceTree

CHECKS = {module.__name__: module.check
          for module in (layers, budgets, markers, structure, words, cases)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("check", nargs="*", choices=[[], *CHECKS], metavar="CHECK",
                        help=f"one of: {', '.join(CHECKS)}")
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2])
    options = parser.parse_args()

    tree = SourceTree(options.root)
    if not tree.cpp:
        print(f"no source files under {options.root}: nothing was checked")
        return 1
    failed = False
    for name in options.check or CHECKS:
        findings = sorted(CHECKS[name](tree))
        for finding in findings:
            print(f"{finding} [{name}]")
        print(f"{name}: {len(findings)} findings in {len(tree.files)} files")
        failed = failed or bool(findings)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
