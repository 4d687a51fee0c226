"""What a program sees of the processor with bench/cpuid_mask.cc preloaded: cpuid_mask_test.py LIB.

On a machine whose CPUID cannot fault the library must refuse, and that alone is looked at.
"""

import ctypes
import errno
import json
import mmap
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import engines  # noqa: E402

ARCH_PRCTL, ARCH_SET_CPUID = 158, 0x1012
REFUSAL = "CPUID cannot be masked"
# Bits of CPUID's answer: (leaf, subleaf, register from EAX on, bit).
HIDDEN = {"AVX512F": (7, 0, 1, 16), "AVX512BW": (7, 0, 1, 30), "AVX512VL": (7, 0, 1, 31),
          "AVX512_VBMI": (7, 0, 2, 1), "GFNI": (7, 0, 2, 8), "AVX512_VNNI": (7, 0, 2, 11),
          "AVX512_FP16": (7, 0, 3, 23), "AMX_BF16": (7, 0, 3, 22), "AMX_TILE": (7, 0, 3, 24),
          "AMX_INT8": (7, 0, 3, 25), "AVX_VNNI": (7, 1, 0, 4), "AVX512_BF16": (7, 1, 0, 5),
          "AVX10": (7, 1, 3, 19)}
LEAVES = [(0, 0), (1, 0), (7, 0), (7, 1), (7, 2), (0xd, 0), (0xd, 1), (0x14, 0), (0x1d, 1),
          (0x1e, 0), (0x24, 0), (0x80000001, 0), (0x80000008, 0)]


def make_cpuid():
    """CPUID as a function: (leaf, subleaf) -> [eax, ebx, ecx, edx]."""
    code = bytes.fromhex("53"          # push rbx
                         "4989d0"      # mov r8, rdx
                         "89f8"        # mov eax, edi
                         "89f1"        # mov ecx, esi
                         "0fa2"        # cpuid
                         "418900"      # mov [r8], eax
                         "41895804"    # mov [r8 + 4], ebx
                         "41894808"    # mov [r8 + 8], ecx
                         "4189500c"    # mov [r8 + 12], edx
                         "5b" "c3")    # pop rbx, ret
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    function = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(
        ctypes.addressof(ctypes.c_char.from_buffer(page)))

    def cpuid(leaf, subleaf):
        out = (ctypes.c_uint32 * 4)()
        function(leaf, subleaf, out)
        return list(out)

    cpuid.page = page  # lives as long as its code may run
    return cpuid


def print_answers():
    """Of this thread, of another, of a fork, and of a program that this one becomes."""
    cpuid = make_cpuid()

    def answers():
        return [cpuid(*leaf) for leaf in LEAVES]

    found = [answers()]
    thread = threading.Thread(target=lambda: found.append(answers()))
    thread.start()
    thread.join()
    print(json.dumps(found), flush=True)
    if os.fork() == 0:
        print(json.dumps([answers()]), flush=True)
        os._exit(0)
    os.wait()
    os.execv(sys.executable, [sys.executable, __file__, "--print-one"])


def run(mask, *words, **more):
    return subprocess.run(engines.masked([sys.executable, __file__, *words], mask),
                          capture_output=True, text=True, check=False, **more)


def faulting_refused():
    """In a process about to start another: the kernel says of CPUID faulting that there is none."""
    def step(code, k, when=0, otherwise=0):
        return struct.pack("HBBI", code, when, otherwise, k)

    load, equal, answer = 0x20, 0x15, 0x06
    program = (step(load, 0) + step(equal, ARCH_PRCTL, 0, 3) +          # the number of the call
               step(load, 16) + step(equal, ARCH_SET_CPUID, 0, 1) +     # its first argument
               step(answer, 0x00050000 | errno.ENODEV) + step(answer, 0x7fff0000))
    steps = ctypes.create_string_buffer(program, len(program))
    filter_of = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, filter_of, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no seccomp filter")


class Mask(unittest.TestCase):
    def setUp(self):
        if can_fault():
            self.plain, self.masked = (
                [one for line in run(mask, "--print").stdout.splitlines()
                 for one in json.loads(line)] for mask in (None, MASK))
        else:
            self.skipTest("this machine cannot make CPUID fault")

    def test_what_is_beyond_avx2_is_hidden_from_every_thread_and_process(self):
        self.assertEqual(len(self.masked), 4)
        for answers in self.masked:
            for name, (leaf, subleaf, register, bit) in HIDDEN.items():
                self.assertEqual(answers[LEAVES.index((leaf, subleaf))][register] >> bit & 1, 0,
                                 name)
            for leaf in ((0x1d, 1), (0x1e, 0), (0x24, 0)):
                self.assertEqual(answers[LEAVES.index(leaf)], [0, 0, 0, 0])

    def test_bits_are_taken_and_none_is_added_and_avx2_stays(self):
        for leaf, plain, masked in zip(LEAVES, self.plain[0], self.masked[0]):
            if leaf[0] in (1, 0xd):  # say which core answered, and what XSAVE holds just now
                continue
            for before, after in zip(plain, masked):
                self.assertEqual(before & after, after)
            if leaf[0] not in (7, 0x1d, 0x1e, 0x24):
                self.assertEqual(plain, masked)
        for name, (register, bit) in {"AVX2": (1, 5), "BMI2": (1, 8), "VAES": (2, 9)}.items():
            for answers in (self.plain[0], self.masked[0]):
                self.assertEqual(answers[LEAVES.index((7, 0))][register] >> bit & 1,
                                 self.plain[0][LEAVES.index((7, 0))][register] >> bit & 1, name)

    def test_libraries_believe_it(self):
        code = ("from numpy._core._multiarray_umath import __cpu_features__ as found\n"
                "print(*sorted(name for name, there in found.items() if there))")
        seen = {}
        for mask in (None, MASK):
            done = subprocess.run(engines.masked([sys.executable, "-c", code], mask),
                                  capture_output=True, text=True, check=True)
            seen[mask] = done.stdout.split()
        beyond = [name for name in seen[None] if name.startswith("AVX512") or name == "GFNI"]
        self.assertFalse(set(beyond) & set(seen[MASK]))
        self.assertIn("AVX2", seen[MASK])

    def test_other_faults_and_signals_end_a_program_as_before(self):
        for word in ("--read-nothing", "--signal"):
            self.assertEqual(run(MASK, word).returncode, -signal.SIGSEGV, word)
        self.assertEqual(run(MASK, "--handle").stdout, "handled\n")


class Refusal(unittest.TestCase):
    def test_a_machine_that_cannot_fault_ends_the_program(self):
        done = run(MASK, "--print", preexec_fn=faulting_refused)
        self.assertEqual(done.returncode, 1)
        self.assertIn(REFUSAL, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_the_comparison_says_what_it_cannot_hold(self):
        with tempfile.TemporaryDirectory() as folder:
            binary = pathlib.Path(folder) / "bin" / "bulkhead"
            library = pathlib.Path(folder) / "lib" / MASK.name
            with self.assertRaisesRegex(engines.EngineFailed, "build the target bench_cpuid_mask"):
                engines.cpuid_mask(binary)
            library.parent.mkdir()
            library.write_text("no library")
            with self.assertRaisesRegex(engines.EngineFailed, "cannot be held to AVX2 here"):
                engines.cpuid_mask(binary)
            library.unlink()
            library.symlink_to(MASK)
            if can_fault():
                self.assertEqual(engines.cpuid_mask(binary).name, MASK.name)
            else:
                with self.assertRaisesRegex(engines.EngineFailed, REFUSAL):
                    engines.cpuid_mask(binary)


def can_fault():
    return run(MASK, "--nothing").returncode == 0


def handle():
    signal.signal(signal.SIGSEGV, lambda *_: print("handled", flush=True))
    os.kill(os.getpid(), signal.SIGSEGV)


WORDS = {"--print": print_answers,
         "--print-one": lambda: print(json.dumps([[make_cpuid()(*leaf) for leaf in LEAVES]])),
         "--read-nothing": lambda: ctypes.string_at(8),
         "--signal": lambda: os.kill(os.getpid(), signal.SIGSEGV),
         "--handle": handle, "--nothing": lambda: None}

if __name__ == "__main__":
    if sys.argv[1] in WORDS:
        WORDS[sys.argv[1]]()
    else:
        MASK = pathlib.Path(sys.argv.pop(1)).resolve()
        unittest.main()
