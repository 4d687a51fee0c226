"""docs/cases.md against the tests it names: every case has one row; every named test exists and the
comment above it names the case."""

import re

from source_tree import Finding

PAGE = "docs/cases.md"
STATES = ("test", "later", "not applicable")

# The bank's numbers. They are not contiguous: what turned out to be no case keeps its number.
NUMBERS = frozenset(int(number) for number in """
    001 003 005 006 009 011 012 013 014 015 016 017 019 020 023 025 027 028 029 030 032 033 034 037
    038 039 040 041 042 044 045 047 051 052 053 055 056 057 058 059 060 063 065 067 068 069 070 071
    073 074 075 076 077 078 079 081 083 084 085 087 088 094 095 096 099 100 101 102 104 105 107 108
    109 110 111 112 113 114 115 116 119 120 122 123 128 129 131 134 135 136 137 139 142 143 144 145
    146 148 149 150 151 152 154 155 158 159 160 162 163 164 165 167 168 169 170 171 175 176 179 181
    182 183 184 185 186 187 191 192 193 194 196 197 199 201 203 206 207 209 210 211 212 214 215 216
    217 218 219 222 223 224
""".split())

_ROW = re.compile(r"^\| (?:\[C(\d{3})\]\(\S+\)|C(\d{3})) \|")
_TEST = re.compile(r"`([\w./-]+): ([\w.]+)`")


def check(tree):
    files = {file.path: file for file in tree.files}
    page = files.get(PAGE)
    if page is None:
        return [Finding(PAGE, 1, "the page is missing")]
    findings, seen = [], {}
    for line, text in enumerate(page.lines, 1):
        head = _ROW.match(text)
        if not head:
            continue
        number = int(head.group(1) or head.group(2))
        if number in seen:
            findings.append(Finding(PAGE, line, f"C{number:03} has a row in line {seen[number]}"))
        seen[number] = line
        if number not in NUMBERS:
            findings.append(Finding(PAGE, line, f"C{number:03} is no case of the bank"))
        findings += [Finding(PAGE, line, f"C{number:03}: {what}")
                     for what in _wrong_with_row(text, number, files)]
    findings += [Finding(PAGE, 1, f"C{number:03} has no row") for number in NUMBERS - seen.keys()]
    return findings


def _wrong_with_row(text, number, files):
    cells = [cell.strip() for cell in text.strip().strip("|").split(" | ")]
    if len(cells) != 5:
        return [f"{len(cells)} cells, not 5"]
    state, where = cells[3], cells[4]
    named = _TEST.findall(where)
    wrong = []
    if state not in STATES:
        wrong.append(f"state '{state}' is none of {', '.join(STATES)}")
    if not where.strip("| "):
        wrong.append("the row does not say where or why")
    if state == "test" and not named:
        wrong.append("state 'test' without a test")
    for path, name in named:
        if path not in files:
            wrong.append(f"no file {path}")
            continue
        above = _comment_above(files[path].lines, path, name)
        if above is None:
            wrong.append(f"{path} has no test {name}")
        elif not re.search(rf"\bC{number:03}\b", above):
            wrong.append(f"the comment above {name} in {path} does not name it")
    return wrong


def _comment_above(lines, path, name):
    """The comment right above a test, "" where there is none, None where there is no such test."""
    at = _line_of_test(lines, path, name)
    if at is None:
        return None
    above = []
    while at > 0 and re.match(r"\s*(?://|#)", lines[at - 1]):
        at -= 1
        above.append(lines[at])
    return "\n".join(above)


def _line_of_test(lines, path, name):
    suite, _, test = name.rpartition(".")
    if path.startswith("tests/negative_compile/"):
        # The snippet is the test, and its opening comment the one above it.
        code = (i for i, line in enumerate(lines) if not line.startswith("//"))
        return next(code, None) if path.endswith(f"/{name}.cc") else None
    if path.endswith(".cc"):
        opening = re.compile(
            rf"(?:RC_GTEST_PROP|TEST(?:_F|_P)?)\({re.escape(suite)}, {re.escape(test)}[,)]")
        return next((i for i, line in enumerate(lines) if opening.match(line)), None)
    current = None
    for i, line in enumerate(lines):
        opening = re.match(r"class (\w+)", line)
        if opening:
            current = opening.group(1)
        if current == suite and re.match(rf"    def {re.escape(test)}\(self", line):
            return i
    return None
