"""Every file is built, read and introduced: no dead files, a README a folder, headers that open."""

import re

from source_tree import Finding


def check(tree):
    return (_check_sources_are_built(tree) + _check_headers_are_included(tree) +
            _check_headers(tree) + _check_readmes(tree))


def _check_sources_are_built(tree):
    """A .cc file must be named by the CMakeLists.txt of its folder or of one above it."""
    builds = {file.folder: re.sub(r"#[^\n]*", "", file.text)
              for file in tree.named("CMakeLists.txt")}
    findings = []
    for file in tree.cpp:
        if file.suffix == ".cc" and not _is_named(file, builds):
            findings.append(Finding(file.path, 1, "no CMakeLists.txt builds this file"))
    return findings


def _is_named(file, builds):
    parts = file.path.split("/")
    for depth in range(len(parts) - 1, -1, -1):
        build = builds.get("/".join(parts[:depth]))
        if build is None:
            continue
        relative = "/".join(parts[depth:])
        stem = relative.rpartition(".")[0]
        # Lists name a file in full, by its stem, or as a whole folder (GLOB).
        if re.search(rf"(?<![\w/]){re.escape(relative)}(?![\w.])", build):
            return True
        if re.search(rf"(?<![\w/]){re.escape(stem)}(?![\w./])", build):
            return True
        folder = relative.rpartition("/")[0]
        pattern = (folder + "/" if folder else "") + "*.cc"
        if re.search(rf"(?<![\w/]){re.escape(pattern)}", build):
            return True
    return False


def _check_headers_are_included(tree):
    included = set()
    for file in tree.cpp:
        for include in file.includes:
            for folder in ("src/", "tests/", "", file.folder + "/"):
                included.add(folder + include.path)
    return [Finding(file.path, 1, "no file includes this header")
            for file in tree.cpp if file.suffix == ".h" and file.path not in included]


def _check_headers(tree):
    findings = []
    for file in tree.cpp:
        if file.suffix != ".h":
            continue
        first_code = next((line for line in file.lines
                           if line.strip() and not line.startswith("//")), "")
        if first_code.strip() != "#pragma once":
            findings.append(Finding(file.path, 1, "the first line of code is not #pragma once"))
        if not file.lines or not re.match(r"// \S", file.lines[0]):
            findings.append(Finding(file.path, 1, "the header does not open with its purpose"))
        elif _is_public(file) and not _opening_names_threads(file):
            findings.append(Finding(file.path, 1,
                                    "the opening comment gives no thread rule (\"Threads: ...\")"))
    return findings


def _is_public(file):
    """Headers of a module's own folder; folders below it are the module's private rooms."""
    return re.fullmatch(r"src/\w+/\w+\.h", file.path) is not None and not file.is_generated


def _opening_names_threads(file):
    opening = []
    for line in file.lines:
        if not line.startswith("//"):
            break
        opening.append(line)
    return re.search(r"\b[Tt]hreads?\b", "\n".join(opening)) is not None


def _check_readmes(tree):
    present = {file.folder for file in tree.named("README.md")}
    wanted = {"src", "tests", "tools", "bench", "apps"}
    for file in tree.files:
        match = re.match(r"src/\w+(?=/)", file.path)
        if match:
            wanted.add(match.group(0))
    return [Finding(folder, 1, "the folder has no README.md")
            for folder in sorted(wanted)
            if (tree.root / folder).is_dir() and folder not in present]
