"""Vocabularies for the tokenizer tests: real ones out of GGUF files, small ones trained here."""
import base64
import collections
import json
import os
import pathlib

import gguf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = pathlib.Path(os.environ.get("BULKHEAD_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
SHARED = pathlib.Path(os.environ.get("BULKHEAD_SHARED", ROOT.parent / "shared"))
SMOLLM2 = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
KIMI_FOLDER = SHARED / "data" / "models" / "kimi-tokenizer"
VOCABULARIES = SHARED / "data" / "models" / "vocab"

CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
KIMI = (r"[\p{Han}]+|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
          r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
STARCODER2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
DEEPSEEK_V3 = ["\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
               "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
               "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|"
               "\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]
DEEPSEEK_CODER = ["[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+"]


def split(regex, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def byte_level(use_regex, add_prefix_space=False):
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True,
            "use_regex": use_regex}


def digits(individual=True):
    return {"type": "Digits", "individual_digits": individual}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


# Family -> (pre_tokenizer, normalizer, ignore_merges)
NFC = {"type": "NFC"}
FAMILIES = {
    "gpt-2": (byte_level(True), None, False),
    "gpt-2 prefix space": (byte_level(True, True), None, False),
    "smollm": (sequence(digits(), byte_level(True)), None, False),
    "llama3": (sequence(split(CL100K % "{1,3}"), byte_level(False)), None, True),
    "llama3 removed": (sequence(split(CL100K % "{1,3}", "Removed", True), byte_level(False)),
                       None, False),
    "qwen2": (sequence(split(CL100K % ""), byte_level(False)), NFC, False),
    "qwen3.5": (sequence(split(QWEN35), byte_level(False)),
                {"type": "Sequence", "normalizers": [NFC]}, False),
    "o200k": (sequence(split(O200K), byte_level(False)), None, True),
    "deepseek-v3": (sequence(*map(split, DEEPSEEK_V3), byte_level(False)), None, False),
    "deepseek-coder": (sequence(*map(split, DEEPSEEK_CODER), digits(), byte_level(False)),
                       None, False),
    "split gpt-2": (sequence(split(GPT2), byte_level(False)), None, False),
    "starcoder2": (sequence(digits(), split(STARCODER2), byte_level(False)), None, False),
    "digit runs, prefix space": (sequence(digits(False), byte_level(True, True)), None, False),
    "three digits": (sequence(split("[0-9][0-9][0-9]"), split(r"\s?\p{Lu}+"), byte_level(True)),
                     None, False),
}


def read_tiktoken(path):
    """{bytes: rank} of a tiktoken.model file."""
    pairs = (line.split() for line in pathlib.Path(path).read_bytes().splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def tiktoken_ranks(texts, merges):
    """A small tiktoken vocabulary that is grown on `texts`: always the commonest pair of tokens."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    words = [[bytes([byte]) for byte in word.encode()] for text in texts for word in text.split()]
    for _ in range(merges):
        pairs = collections.Counter(pair for word in words for pair in zip(word, word[1:]))
        if not pairs:
            break
        left, right = max(pairs, key=lambda pair: (pairs[pair], pair))
        ranks.setdefault(left + right, len(ranks))
        for word in words:
            at = 0
            while at + 1 < len(word):
                if (word[at], word[at + 1]) == (left, right):
                    word[at:at + 2] = [left + right]
                at += 1
    return ranks


def write_tiktoken(path, ranks):
    lines = (base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())
    pathlib.Path(path).write_bytes(b"".join(lines))


def read_gguf(path):
    """The tokenizer fields of a GGUF file, as GgufVocabulary names them."""
    fields = gguf.GGUFReader(path).fields
    get = lambda name: fields[f"tokenizer.ggml.{name}"].contents()
    return {"model": get("model"), "pre": get("pre"), "tokens": get("tokens"),
            "types": get("token_type"), "merges": get("merges")}


def tokenizer_json(vocabulary, family, merges_as_pairs=False):
    """The tokenizer.json that a checkpoint with this GGUF vocabulary would publish."""
    pre_tokenizer, normalizer, ignore_merges = FAMILIES[family]
    vocab, added = {}, []
    last_normal = max(i for i, kind in enumerate(vocabulary["types"]) if kind not in (3, 4))
    for i, (token, kind) in enumerate(zip(vocabulary["tokens"], vocabulary["types"])):
        if kind in (3, 4):
            added.append(added_token(i, token, special=kind == 3))
        if kind not in (3, 4) or i < last_normal:
            vocab[token] = i
    merges = vocabulary["merges"]
    if merges_as_pairs:
        merges = [merge.split(" ") for merge in merges]
    return document(vocab, merges, pre_tokenizer, normalizer, ignore_merges, added)


def added_token(i, content, special=True, **flags):
    return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": special} | flags


def document(vocab, merges, pre_tokenizer, normalizer, ignore_merges, added):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None,
            "decoder": byte_level(True),
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": ignore_merges,
                      "vocab": vocab, "merges": merges}}


def trained(family, texts, size, alphabet=True):
    """A small vocabulary that `tokenizers` trains on `texts` behind the family's pre-tokenizer.
    Without `alphabet` it has tokens only for the bytes that the texts contain."""
    pre_tokenizer, normalizer, ignore_merges = FAMILIES[family]
    shell = document({"a": 0}, [], pre_tokenizer, normalizer, ignore_merges, [])
    tokenizer = Tokenizer.from_str(json.dumps(shell))
    tokenizer.model = models.BPE()
    tokenizer.decoder = decoders.ByteLevel()
    initial = pre_tokenizers.ByteLevel.alphabet() if alphabet else []
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=initial, show_progress=False,
                                  special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.train_from_iterator(texts, trainer)
    out = json.loads(tokenizer.to_str())
    out["model"]["ignore_merges"] = ignore_merges
    return out
