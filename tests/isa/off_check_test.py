#!/usr/bin/env python3
"""off_check_test.py BINARY SOURCE: what is left of the page check in a step where it is off.

A pool without a tracker has a guard of its own kind (engine/step_guard.cc). Read back from the
program: each of its functions that a step calls gives an answer and nothing else, without looking
at memory, and the step reaches it by one indirect call; what is asked of it for each sequence is no
call at all. With --print: the instructions.
"""

import pathlib
import re
import subprocess
import sys
import unittest

# What decode calls for each step.
CALLED = ("before", "after")
# What it asks for each sequence, where the answer is no call.
ASKED_OF_EACH = ("failed", "wrote_token")
MAX_INSTRUCTIONS = 3  # a landing pad, the answer, the way back
# Loading the guard and its table, arguments, the call, the test of its answer.
MAX_AT_THE_SITE = 16
GUARD = "bulkhead::engine::(anonymous namespace)::NoGuard::"
STEP = "bulkhead::decode::DecodePool::step("


def tool(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def functions(binary):
    """Demangled name -> (address, size) of everything defined."""
    found = {}
    for line in tool("nm", "-C", "-S", "--defined-only", str(binary)).splitlines():
        parts = line.split(maxsplit=3)
        if len(parts) == 4 and parts[2] in "tTwW" and "[clone" not in parts[3]:
            found[parts[3]] = int(parts[0], 16), int(parts[1], 16)
    return found


def instructions(binary, place, *options):
    address, size = place
    text = tool("objdump", "-d", "--no-show-raw-insn", *options, f"--start-address={address:#x}",
                f"--stop-address={address + size:#x}", str(binary))
    return text.splitlines()


def code(lines):
    """The instructions of a disassembly, without addresses."""
    return [line.split("\t", 1)[1].strip() for line in lines if re.match(r"\s+[0-9a-f]+:\t", line)]


def by_line(lines, source):
    """Line number -> instructions, of one source file."""
    found = {}
    number = None
    for line in lines:
        mark = re.match(r"(/\S+):(\d+)(?: |$)", line)
        if mark:
            number = int(mark.group(2)) if mark.group(1).endswith(source) else None
        elif number is not None:
            found.setdefault(number, []).extend(code([line]))
    return found


class OffCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.functions = functions(BINARY)

    def place(self, prefix):
        places = [place for name, place in self.functions.items() if name.startswith(prefix)]
        self.assertEqual(len(places), 1, f"{prefix}: {places}")
        return places[0]

    def test_a_guard_that_is_off_answers_and_looks_at_nothing(self):
        for name in CALLED:
            body = code(instructions(BINARY, self.place(f"{GUARD}{name}(")))
            self.assertIn(len(body), range(1, MAX_INSTRUCTIONS + 1), f"{name}: {body}")
            self.assertTrue(body[-1].startswith("ret"), f"{name}: {body}")
            for instruction in body[:-1]:
                self.assertNotIn("(%", instruction, f"{name} looks at memory: {body}")
                self.assertFalse(instruction.startswith(("call", "j")), f"{name}: {body}")

    def test_what_is_asked_for_each_sequence_is_no_function(self):
        for name in ASKED_OF_EACH:
            for owner in (GUARD, "bulkhead::engine::StepGuard::"):
                found = [one for one in self.functions if one.startswith(f"{owner}{name}(")]
                self.assertEqual(found, [], "it is to be a part of the step")

    def test_a_step_asks_by_one_indirect_call(self):
        lines = instructions(BINARY, self.place(STEP), "-l")
        found = by_line(lines, "decode/decode_pool.cc")
        if not found:
            self.skipTest("a build without line numbers")
        text = (pathlib.Path(SOURCE) / "src/decode/decode_pool.cc").read_text().splitlines()
        for call in ("guard_->before(plan_, sequences_)", "guard_->after()"):
            number = next(n for n, line in enumerate(text, 1) if call in line)
            site = found.get(number, [])
            calls = [one for one in site if one.startswith("call")]
            self.assertEqual(len(calls), 1, f"{call}: {site}")
            self.assertIn("*", calls[0], f"{call}: {site}")
            self.assertLessEqual(len(site), MAX_AT_THE_SITE, f"{call}: {site}")


def show():
    known = functions(BINARY)
    for name, place in known.items():
        if name.startswith(tuple(f"{GUARD}{one}(" for one in CALLED)):
            print(f"{name}\n    " + "\n    ".join(code(instructions(BINARY, place))))
    step = next(place for name, place in known.items() if name.startswith(STEP))
    found = by_line(instructions(BINARY, step, "-l"), "decode/decode_pool.cc")
    text = (pathlib.Path(SOURCE) / "src/decode/decode_pool.cc").read_text().splitlines()
    for number, line in enumerate(text, 1):
        if "guard_->" in line and number in found:
            print(f"{line.strip()}\n    " + "\n    ".join(found[number]))


if __name__ == "__main__":
    BINARY, SOURCE = sys.argv[1:3]
    if "--print" in sys.argv:
        show()
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)
