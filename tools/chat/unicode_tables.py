#!/usr/bin/env python3
"""Writes src/chat/jinja/unicode_tables.inc: str's character classes and case mappings.

usage: unicode_tables.py > src/chat/jinja/unicode_tables.inc
"""
import sys
import unicodedata

LIMIT = sys.maxunicode + 1
CLASSES = [
    ("kPrintable", str.isprintable),
    ("kAlpha", str.isalpha),
    ("kDecimal", str.isdecimal),
    ("kDigit", str.isdigit),
    ("kNumeric", str.isnumeric),
    ("kLower", str.islower),
    ("kUpper", str.isupper),
    ("kTitle", lambda c: unicodedata.category(c) == "Lt"),
]
MAPS = [
    ("kToLower", str.lower),
    ("kToUpper", str.upper),
    ("kToTitle", str.title),
    ("kToFold", str.casefold),
]


def rows(items, per_line):
    for start in range(0, len(items), per_line):
        yield "    " + " ".join(items[start : start + per_line])


def class_table(name, test):
    ranges = []
    for code in range(LIMIT):
        if not test(chr(code)):
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    yield f"constexpr CodeRange {name}[] = {{"
    yield from rows([f"{{0x{a:X}, 0x{b:X}}}," for a, b in ranges], 5)
    yield "};"


def map_tables(name, mapping):
    """Runs of equal distance (every second or every character), and the longer mappings."""
    runs, long = [], []
    for code in range(LIMIT):
        mapped = mapping(chr(code))
        if mapped == chr(code):
            continue
        if len(mapped) > 1:
            long.append((code, [ord(c) for c in mapped] + [0, 0]))
            continue
        distance = ord(mapped) - code
        last = runs[-1] if runs else None
        if last and last[3] == distance:
            gap = code - last[1]
            if gap in (1, 2) and (last[2] == gap or last[0] == last[1]):
                last[1], last[2] = code, gap
                continue
        runs.append([code, code, 1, distance])
    yield f"constexpr CaseRun {name}[] = {{"
    yield from rows([f"{{0x{a:X}, 0x{b:X}, {s}, {d}}}," for a, b, s, d in runs], 4)
    yield "};"
    yield f"constexpr LongCase {name}Long[] = {{"
    yield from rows(
        [f"{{0x{c:X}, {{0x{m[0]:X}, 0x{m[1]:X}, 0x{m[2]:X}}}}}," for c, m in long], 3
    )
    yield "};"


def main():
    print("// Written by tools/chat/unicode_tables.py from Unicode", unicodedata.unidata_version)
    print("// clang-format off")
    for name, test in CLASSES:
        print("\n".join(class_table(name, test)))
    for name, mapping in MAPS:
        print("\n".join(map_tables(name, mapping)))


if __name__ == "__main__":
    main()
