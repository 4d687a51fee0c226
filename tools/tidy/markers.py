"""What must not be left lying about: unfinished-work marks, prints, misplaced ISA switches."""

import re

from source_tree import Finding

_UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
_CONSOLE = re.compile(
    r"\bstd::(?:cout|cerr|clog|puts|printf|fprintf|fputs)\b|\bfmt::print\b"
    r"|(?<![\w:.])(?:printf|puts|putchar|perror)\s*\(|\bfprintf\s*\(\s*std(?:out|err)\b")
# Where the process may speak: the logger, the last words of a failed check, the start-up banner.
_MAY_SPEAK = ("src/base/log.cc", "src/base/check.cc", "src/serve/", "src/kernels/bench/")

_ISA_SWITCH = re.compile(
    r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b.*\b(?:__AVX\w*|__SSE\w*|__AMX\w*|__FMA__|__F16C__"
    r"|__BMI2?__|__x86_64__|__i386__|__aarch64__|__ARM_\w+|__CUDA\w*|_M_X64|_M_ARM64)\b")
_MAY_SWITCH = ("src/device/", "src/kernels/", "src/base/spin.h")


def check(tree):
    findings = []
    for file in tree.files:
        for number, line in enumerate(file.lines, 1):
            match = _UNFINISHED.search(line)
            if match:
                findings.append(Finding(file.path, number, f"leftover mark {match.group(0)}"))
        if not file.is_cpp or not file.path.startswith("src/"):
            continue
        if not file.is_test and not file.path.startswith(_MAY_SPEAK):
            findings += file.findings(_CONSOLE, "console output in src/ ({0}): use base/log.h")
        if not file.path.startswith(_MAY_SWITCH):
            findings += file.findings(_ISA_SWITCH,
                                      "instruction-set switch outside device/, kernels/ and "
                                      "base/spin.h: {0}")
    return findings
