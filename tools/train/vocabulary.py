"""A byte-level vocabulary in the file format of Kimi K2: `tiktoken.model` and control tokens.

Ids 0 to BASE - 1 are ranks; the 256 after them are control tokens at the offsets that Kimi gives
them, so that a reader of its files reads these. Few base tokens, because each must be seen often
to be learnt from little text. Neither digits nor capital letters merge with one another: a random
code is always a token a character, and numbers line up for arithmetic.
"""

import base64
import collections
import json
import pathlib

import regex
import tiktoken

BASE = 512
CONTROLS = 256
SIZE = BASE + CONTROLS
BOS, EOS, TURN_END, PAD = BASE, BASE + 1, BASE + 2, BASE + 255

# Offset from BASE -> (spelling, hidden in plain text). The names between are reserved ones.
_CONTROL_NAMES = {
    0: ("[BOS]", True), 1: ("[EOS]", True), 2: ("<|im_end|>", True), 3: ("<|im_user|>", True),
    4: ("<|im_assistant|>", True), 6: ("<|start_header_id|>", True),
    7: ("<|end_header_id|>", True), 9: ("[EOT]", True), 10: ("<|im_system|>", True),
    11: ("<|tool_calls_section_begin|>", False), 12: ("<|tool_calls_section_end|>", False),
    13: ("<|tool_call_begin|>", False), 14: ("<|tool_call_argument_begin|>", False),
    15: ("<|tool_call_end|>", False), 17: ("<|im_middle|>", True), 18: ("<|media_begin|>", True),
    19: ("<|media_content|>", True), 20: ("<|media_end|>", True), 21: ("<|media_pad|>", True),
    22: ("<think>", False), 23: ("</think>", False), 254: ("[UNK]", True), 255: ("[PAD]", True),
}

_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
# How text of Kimi's tokenizers is cut before merging.
PATTERN = "|".join((
    r"[\p{Han}]+",
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDING}",
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDING}",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"))
# Besides, while learning: between digits and between capitals.
_NEVER_JOINED = regex.compile(r"(?<=\p{N})(?=\p{N})|(?<=\p{Lu})(?=\p{Lu})")


def control_tokens():
    """Spelling -> id of all control tokens, reserved ones included."""
    return {_CONTROL_NAMES.get(offset, (f"<|reserved_token_{BASE + offset}|>",))[0]: BASE + offset
            for offset in range(CONTROLS)}


def learn_ranks(texts, size=BASE):
    """Byte pair encoding: the 256 bytes, then the most frequent pair again and again."""
    pieces = collections.Counter()
    cut = regex.compile(PATTERN, regex.V1)
    for text in texts:
        for piece in cut.findall(text):
            pieces.update(part for part in _NEVER_JOINED.split(piece) if part)
    words = [[bytes([byte]) for byte in piece.encode()] for piece in pieces]
    counts = list(pieces.values())
    pairs, places = collections.Counter(), collections.defaultdict(set)
    for index, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pairs[pair] += counts[index]
            places[pair].add(index)
    ranks = [bytes([byte]) for byte in range(256)]
    known = set(ranks)
    while len(ranks) < size:
        # Ties go to the pair that sorts first: the same text gives the same vocabulary.
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        joined = best[0] + best[1]
        if joined not in known:
            known.add(joined)
            ranks.append(joined)
        for index in places.pop(best):
            word = words[index]
            for pair in zip(word, word[1:]):
                pairs[pair] -= counts[index]
            word = words[index] = _merge(word, best, joined)
            for pair in zip(word, word[1:]):
                pairs[pair] += counts[index]
                places[pair].add(index)
        del pairs[best]
    return ranks


def _merge(word, pair, joined):
    merged, index = [], 0
    while index < len(word):
        if index + 1 < len(word) and (word[index], word[index + 1]) == pair:
            merged.append(joined)
            index += 2
        else:
            merged.append(word[index])
            index += 1
    return merged


def write(ranks, folder):
    """`tiktoken.model` and `tokenizer_config.json`, as a Kimi checkpoint has them."""
    folder = pathlib.Path(folder)
    lines = (b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(ranks))
    (folder / "tiktoken.model").write_bytes(b"".join(lines))
    declared = {str(BASE + offset): {
        "content": name, "lstrip": False, "normalized": False, "rstrip": False,
        "single_word": False, "special": special,
    } for offset, (name, special) in _CONTROL_NAMES.items()}
    config = {"added_tokens_decoder": declared, "bos_token": "[BOS]", "eos_token": "[EOS]",
              "pad_token": "[PAD]", "unk_token": "[UNK]", "clean_up_tokenization_spaces": False,
              "model_max_length": 4096, "tokenizer_class": "TikTokenTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


def read(folder):
    """The encoding of a folder that `write` filled."""
    ranks = {}
    for line in (pathlib.Path(folder) / "tiktoken.model").read_bytes().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    return encoding(ranks)


def encoding(ranks):
    """A tiktoken encoding of ranks: a mapping, or the list that `learn_ranks` gives."""
    if isinstance(ranks, list):
        ranks = {token: rank for rank, token in enumerate(ranks)}
    return tiktoken.Encoding("tiny-moe", pat_str=PATTERN, mergeable_ranks=ranks,
                             special_tokens=control_tokens())
