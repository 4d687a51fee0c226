#!/usr/bin/env python3
"""opcodes_test.py BINARY BUILD: no instruction beyond the base set outside the chosen files.

The program must start and serve on any x86-64 processor: only the files whose kernels are chosen at
run time may hold AVX, AVX-512 or AMX instructions, and nothing they define may be shared with the
rest of the program (the linker would keep one copy, and it might be theirs).
"""

import collections
import pathlib
import re
import subprocess
import sys
import unittest

# File compiled beyond the base set -> the registers that it alone may use.
GATED = {"simd/ops_avx2.cc": "ymm", "simd/ops_avx512.cc": "zmm",
         "simd/ops_avx512_vbmi.cc": "zmm", "simd/ops_avx512_vnni.cc": "zmm",
         "amx/ops_amx.cc": "tmm"}

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
# A register of 256 bits or more, a tile, or a mnemonic of the VEX and EVEX encodings.
BEYOND_BASE = re.compile(r"%([yzt])mm\d|\t(v)[a-z0-9]+\s")


def tool(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def objects(build):
    """Object file of each gated source."""
    folder = pathlib.Path(build) / "src/kernels/CMakeFiles/bulkhead_kernels.dir"
    return {source: folder / (source + ".o") for source in GATED}


def symbols(path):
    """(kind, name) of what an object file defines."""
    lines = tool("nm", "--defined-only", str(path)).splitlines()
    return [tuple(line.split()[-2:]) for line in lines]


def registers_by_function(binary):
    """Function -> kinds of register beyond the base set that it touches."""
    found = collections.defaultdict(set)
    name = "?"
    for line in tool("objdump", "-d", "--no-show-raw-insn", str(binary)).splitlines():
        head = FUNCTION.match(line)
        if head:
            name = head.group(1)
            continue
        for match in BEYOND_BASE.finditer(line):
            found[name].add((match.group(1) or "v") + ("mm" if match.group(1) else "ex"))
    return found


class Opcodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.objects = objects(BUILD)
        cls.names = {source: {name for kind, name in symbols(path) if kind in "tT"}
                     for source, path in cls.objects.items()}
        cls.functions = registers_by_function(BINARY)

    # C218
    def test_gated_files_share_no_function_with_the_rest_of_the_program(self):
        for source, path in self.objects.items():
            shared = [name for kind, name in symbols(path) if kind in "TWVu"]
            self.assertEqual(shared, [], f"{source} defines functions that others may be given")

    # C217, C218
    def test_only_gated_files_hold_instructions_beyond_the_base_set(self):
        ours = [path for top in ("src", "apps")
                for path in pathlib.Path(BUILD, top).glob("**/CMakeFiles/bulkhead*.dir/**/*.o")]
        self.assertTrue(set(self.objects.values()) < set(ours))
        for path in set(ours) - set(self.objects.values()):
            self.assertEqual(dict(registers_by_function(path)), {}, path)

    # C217, C218
    def test_nothing_linked_beside_them_holds_any_either(self):
        gated = set().union(*self.names.values())
        for function, registers in self.functions.items():
            self.assertIn(function, gated, f"{sorted(registers)} outside the gated files")

    # C217
    def test_each_gated_file_stays_within_its_own_instruction_set(self):
        weaker = self.names["simd/ops_avx2.cc"]
        for function, registers in self.functions.items():
            if function in weaker and function not in self.names["simd/ops_avx512.cc"]:
                self.assertFalse(registers & {"zmm", "tmm"}, function)

    def test_the_disassembly_was_read(self):
        for source, register in GATED.items():
            seen = [function for function in self.names[source]
                    if f"{register}" in self.functions.get(function, ())]
            self.assertTrue(seen, f"no %{register} in {source}: was the program disassembled?")


if __name__ == "__main__":
    BINARY, BUILD = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
