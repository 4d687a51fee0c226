"""How long files, functions and lines may be, and how many files a folder may hold."""

import ast
import collections

from source_tree import Finding, functions

FILE_LINES = 800
FUNCTION_LINES = 70
KERNEL_FUNCTION_LINES = 150
LINE_COLUMNS = 100
FOLDER_FILES = 25

_COUNTED = (".h", ".cc", ".py", ".sh", ".cmake")


def check(tree):
    findings = []
    for file in tree.files:
        if file.suffix not in _COUNTED or file.is_generated:
            continue
        if len(file.lines) > FILE_LINES:
            findings.append(Finding(file.path, len(file.lines),
                                    f"{len(file.lines)} lines, at most {FILE_LINES}"))
        for number, line in enumerate(file.lines, 1):
            if len(line) > LINE_COLUMNS:
                findings.append(Finding(file.path, number,
                                        f"{len(line)} columns, at most {LINE_COLUMNS}"))
        findings += _check_functions(file)
    return findings + _check_folders(tree)


def _check_functions(file):
    limit = KERNEL_FUNCTION_LINES if file.path.startswith("src/kernels/") else FUNCTION_LINES
    if file.is_cpp:
        try:
            extents = [(f.name, f.first_line, f.lines) for f in functions(file)]
        except ValueError as problem:
            return [Finding(file.path, 1, str(problem))]
    elif file.suffix == ".py":
        try:
            module = ast.parse(file.text)
        except SyntaxError as problem:
            return [Finding(file.path, problem.lineno or 1, f"not Python: {problem.msg}")]
        extents = [(node.name, node.lineno, node.end_lineno - node.lineno + 1)
                   for node in ast.walk(module)
                   if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    else:
        extents = []
    return [Finding(file.path, line, f"function {name} has {length} lines, at most {limit}")
            for name, line, length in extents if length > limit]


def _check_folders(tree):
    """A header and its source count once, and so do tests: what is counted is things to know."""
    things = collections.defaultdict(set)
    for file in tree.cpp:
        if not file.is_test:
            things[file.folder].add(file.name.rpartition(".")[0])
    return [Finding(folder, 1, f"{len(names)} source files, at most {FOLDER_FILES}")
            for folder, names in sorted(things.items()) if len(names) > FOLDER_FILES]
