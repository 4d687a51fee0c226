"""One word per concept, as docs/glossary.md keeps them: the second words, where they are banned."""

import re

from source_tree import Finding

# Only identifiers are looked at: prose may say that a call blocks. The rule binds where the word
# could be mistaken for the concept.
_FOLDERS = ("src/kv/", "src/engine/", "src/prefill/", "src/decode/", "src/transfer/",
            "src/router/", "src/wire/")
_BANNED = {
    "block": "page",
    "blocks": "pages",
    "seq": "sequence",
    "seqs": "sequences",
    "iteration": "step",
    "iterations": "steps",
    "detok": "detokenizer",
    "req": "request",
    "reqs": "requests",
}
_IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*\b")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# memory_order_seq_cst is the standard's name, not ours.
_NOT_OURS = {"memory_order_seq_cst", "seq_cst"}


def check(tree):
    findings = []
    for file in tree.cpp:
        if not file.path.startswith(_FOLDERS):
            continue
        for number, line in enumerate(file.code.splitlines(), 1):
            for identifier in _IDENTIFIER.findall(line):
                if identifier in _NOT_OURS:
                    continue
                for word in _WORD.findall(identifier):
                    better = _BANNED.get(word.lower())
                    if better:
                        findings.append(Finding(
                            file.path, number, f"{identifier}: say {better}, not {word.lower()}"))
    return findings
