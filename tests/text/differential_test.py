#!/usr/bin/env python3
"""Token ids of Bulkhead against PyPI `tokenizers`, id for id, on seeded text.

    differential_test.py path/to/text_encode_tool [--scale 1.0]

Every comparison that has to be left out (no model file, no ../shared) is named in the output.
"""
import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

import corpus
import tiktoken
import vocabularies as v
from tokenizers import Tokenizer

TOOL = None
SCALE = 1.0
VOLUME = {"bytes": 0, "ids": 0}
SPELLINGS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_start|>assistant\n", "<|"]
REPLACEMENT = "\ufffd"


def run_tool(kind, spec, records):
    """(prefix ids, suffix ids, ids per record); records are (mode, bytes)."""
    stdin = b"".join(mode.encode() + struct.pack("=I", len(raw)) + raw for mode, raw in records)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(spec, file, ensure_ascii=False)
        file.flush()
        done = subprocess.run([TOOL, kind, file.name], input=stdin, capture_output=True)
    if done.returncode != 0:
        raise AssertionError(f"the tool failed: {done.stderr.decode(errors='replace')}")
    lists, at = [], 0
    while at < len(done.stdout):
        count, = struct.unpack_from("=I", done.stdout, at)
        lists.append(list(struct.unpack_from(f"={count}i", done.stdout, at + 4)))
        at += 4 + 4 * count
    loading, speed = done.stderr.decode().split()
    timing = f"loaded in {float(loading):.2f} s, {float(speed):.1f} MB/s of processor time"
    return lists[0], lists[1], lists[2:], timing


def without_added(spec):
    plain = dict(spec)
    plain["added_tokens"] = []
    return plain


def reference(spec, texts):
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    return [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


class Differential(unittest.TestCase):
    def compare(self, name, spec, texts, kind="json", tool_spec=None, plain=True):
        records, expected = [], []
        modes = [("r", spec)] + ([("t", without_added(spec))] if plain else [])
        for mode, oracle_spec in modes:
            records += [(mode, text.encode()) for text in texts]
            expected += reference(oracle_spec, texts)
        _, _, actual, speed = run_tool(kind, tool_spec or spec, records)
        self.assertEqual(len(actual), len(expected))
        for (mode, raw), want, got in zip(records, expected, actual):
            if want != got:
                self.fail(self.difference(name, mode, raw, want, got, spec))
        size = sum(len(raw) for _, raw in records)
        VOLUME["bytes"] += size
        VOLUME["ids"] += sum(map(len, expected))
        print(f"  {name}: {size / 1e6:.2f} MB equal; {speed}", flush=True)

    @staticmethod
    def difference(name, mode, raw, want, got, spec):
        differing = (i for i, (a, b) in enumerate(zip(want, got)) if a != b)
        at = next(differing, min(len(want), len(got)))
        tokenizer = Tokenizer.from_str(json.dumps(spec))
        show = lambda ids: [(i, tokenizer.id_to_token(i)) for i in ids[max(0, at - 3):at + 6]]
        return (f"{name} (mode {mode}) differs at id {at}:\nwant {show(want)}\ngot  {show(got)}\n"
                f"in {raw[:3000]!r}")

    @staticmethod
    def texts(seed, megabytes):
        return corpus.documents(seed, int(megabytes * 1e6 * SCALE), SPELLINGS)

    def test_smollm2_from_its_gguf_file(self):
        if not v.SMOLLM2.exists():
            self.skipTest(f"{v.SMOLLM2.name} is not in models/")
        vocabulary = v.read_gguf(v.SMOLLM2)
        spec = v.tokenizer_json(vocabulary, "smollm", merges_as_pairs=True)
        self.compare("SmolLM2 (tokenizer.json)", spec, self.texts(1, 1))
        self.compare("SmolLM2 (GGUF)", spec, self.texts(2, 1), "gguf", vocabulary)

    def test_real_vocabularies_from_gguf_files(self):
        if not v.VOCABULARIES.is_dir():
            self.skipTest("../shared with its vocabularies is absent (BULKHEAD_SHARED)")
        for name, family in [("gpt-2", "gpt-2"), ("starcoder", "smollm")]:
            vocabulary = v.read_gguf(v.VOCABULARIES / f"ggml-vocab-{name}.gguf")
            spec = v.tokenizer_json(vocabulary, family)
            self.compare(f"{name} (GGUF)", spec, self.texts(name, 0.4), "gguf", vocabulary)

    def compare_with_tiktoken(self, name, path, ranks, added, texts):
        special = {content: int(i) for i, content in added.items()}
        oracle = tiktoken.Encoding(name, pat_str=v.KIMI, mergeable_ranks=ranks,
                                   special_tokens=special)
        records = [(mode, text.encode()) for mode in "rt" for text in texts]
        expected = [oracle.encode(text, allowed_special="all") for text in texts]
        expected += [oracle.encode_ordinary(text) for text in texts]
        _, _, actual, speed = run_tool("tiktoken", {"path": str(path), "added": added}, records)
        for (mode, raw), want, got in zip(records, expected, actual, strict=True):
            if want != got:
                at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), 0)
                show = lambda ids: [oracle.decode_single_token_bytes(i) for i in ids[at:at + 6]]
                self.fail(f"{name} (mode {mode}) differs at id {at}: want {show(want)}, "
                          f"got {show(got)}\nin {raw[:3000]!r}")
        size = sum(len(raw) for _, raw in records)
        VOLUME["bytes"] += size
        VOLUME["ids"] += sum(map(len, expected))
        print(f"  {name}: {size / 1e6:.2f} MB equal; {speed}", flush=True)

    def test_kimis_published_tiktoken_file(self):
        path = v.KIMI_FOLDER / "tiktoken.model"
        if not path.exists():
            self.skipTest("../shared with Kimi's tokenizer is absent (BULKHEAD_SHARED)")
        config = json.loads((v.KIMI_FOLDER / "tokenizer_config.json").read_text())
        added = {i: token["content"] for i, token in config["added_tokens_decoder"].items()}
        spellings = SPELLINGS + list(added.values())
        texts = corpus.documents(20, int(5e6 * SCALE), spellings)
        texts += corpus.every_kind_of_code_point()
        self.compare_with_tiktoken("Kimi", path, v.read_tiktoken(path), added, texts)

    def test_tiktoken_files_of_our_own(self):
        texts = self.texts(21, 0.3) + corpus.every_kind_of_code_point()
        ranks = v.tiktoken_ranks(corpus.documents(22, 40_000), 600)
        first = len(ranks)
        added = {str(first): "[BOS]", str(first + 3): "<|im_end|>", str(first + 255): "[PAD]"}
        with tempfile.NamedTemporaryFile(suffix=".model") as file:
            v.write_tiktoken(file.name, ranks)
            self.compare_with_tiktoken("own tiktoken file", file.name, ranks, added, texts)

    # C155
    def test_published_token_lists(self):
        if not v.VOCABULARIES.is_dir():
            self.skipTest("../shared with its vocabularies is absent (BULKHEAD_SHARED)")
        for name, family in [("gpt-2", "gpt-2"), ("starcoder", "smollm"),
                             ("deepseek-coder", "deepseek-coder")]:
            path = v.VOCABULARIES / f"ggml-vocab-{name}.gguf"
            spec = v.tokenizer_json(v.read_gguf(path), family)
            texts = pathlib.Path(f"{path}.inp").read_bytes().decode()
            texts = texts.split("\n__ggml_vocab_test__\n")
            wanted = pathlib.Path(f"{path}.out").read_text().split("\n")
            _, _, ids, _ = run_tool("json", spec, [("r", text.encode()) for text in texts])
            for text, want, got in zip(texts, wanted, ids):
                self.assertEqual(list(map(int, want.split())), got, f"{name}: {text!r}")

    # C155
    def test_every_family_with_a_trained_vocabulary(self):
        for number, family in enumerate(v.FAMILIES):
            texts = self.texts(100 + number, 0.25)
            spec = v.trained(family, texts[:len(texts) // 2], 1500)
            self.compare(f"trained, {family}", spec, texts)

    # C155
    def test_every_kind_of_code_point(self):
        texts = corpus.every_kind_of_code_point()
        for family in ["smollm", "qwen3.5", "o200k", "deepseek-v3"]:
            spec = v.trained(family, corpus.documents(3, 50_000), 400)
            self.compare(f"code points, {family}", spec, texts, plain=False)

    def test_normal_form_c_of_heaps_of_marks(self):
        rng = random.Random(11)
        spec = v.trained("qwen2", corpus.documents(3, 50_000), 400)
        self.compare("marks", spec, [corpus.random_marks(rng) for _ in range(int(30_000 * SCALE))])

    def test_vocabularies_that_lack_bytes(self):
        texts = self.texts(4, 0.2)
        spec = v.trained("smollm", ["plain words only"] * 50, 100, alphabet=False)
        self.compare("bytes dropped", spec, texts)
        for fuse in (False, True):
            spec["model"] |= {"unk_token": "<|endoftext|>", "fuse_unk": fuse}
            self.compare(f"unknown token, fused {fuse}", spec, texts)

    def test_added_tokens_with_every_flag(self):
        rng = random.Random(5)
        contents = ["<a>", "<a><b>", "<a><", "word", "wor", "é", "e\u0301x", "字", "  ", "\n\n",
                    "'s", "A<", "[X]", "<|x|>", "<|x|>y", "123", "\u3000"]
        for round_number in range(24):
            family = rng.choice(["smollm", "qwen2", "llama3", "gpt-2 prefix space"])
            spec = v.trained(family, corpus.documents(6, 30_000), 350)
            first = len(spec["model"]["vocab"])
            flag = lambda: rng.random() < 0.3
            # `tokenizers` panics where one token's rstrip reaches into a token of white space.
            rstrips = round_number % 2 == 0
            for content in rng.sample(contents, rng.randrange(1, 9)):
                if content in spec["model"]["vocab"] or (rstrips and content.isspace()):
                    continue
                spec["added_tokens"].append(v.added_token(
                    first, content, special=flag(), lstrip=flag(), rstrip=rstrips and flag(),
                    single_word=flag(), normalized=flag()))
                first += 1
            pieces = contents + [" ", " ", "\t", "x", "_", "1", "\u0301", ".", "<", "é", "\u00a0",
                                 "Ⅷ", "ⓐ"]
            texts = ["".join(rng.choices(pieces, k=rng.randrange(1, 20))) for _ in range(300)]
            self.compare(f"added tokens, round {round_number}", spec, texts)

    def test_invalid_utf8_follows_the_documented_rule(self):
        """Each byte that is part of no character is cut like U+FFFD and encoded as itself."""
        rng = random.Random(7)
        for family in ["smollm", "qwen2", "o200k", "deepseek-v3"]:
            spec = v.trained(family, corpus.documents(8, 60_000), 500)
            raws = [corpus.mangled(rng, text) for text in corpus.documents(9, int(60_000 * SCALE))]
            tokenizer = Tokenizer.from_str(json.dumps(without_added(spec)))
            expected = [ids_of_invalid(tokenizer, raw) for raw in raws]
            _, _, actual, _ = run_tool("json", spec, [("t", raw) for raw in raws])
            for raw, want, got in zip(raws, expected, actual):
                if want != got:
                    self.fail(self.difference(family, "t", raw, want, got, spec))
            VOLUME["bytes"] += sum(map(len, raws))

    def test_templates_give_prefix_and_suffix(self):
        spec = v.trained("llama3", corpus.documents(10, 30_000), 300)
        special = {name: {"id": name, "ids": [i], "tokens": [name]}
                   for i, name in enumerate(["<|endoftext|>", "<|im_start|>"])}
        item = lambda name: {"SpecialToken": {"id": name, "type_id": 0}}
        text = {"Sequence": {"id": "A", "type_id": 0}}
        template = {"type": "TemplateProcessing", "special_tokens": special,
                    "single": [item("<|endoftext|>"), text, item("<|im_start|>"),
                               item("<|endoftext|>")],
                    "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}]}
        chain = {"type": "Sequence", "processors": [v.byte_level(True), template]}
        for processor in (template, chain):
            spec["post_processor"] = processor
            prefix, suffix, ids, _ = run_tool("json", spec, [("r", b"some words")])
            self.assertEqual(Tokenizer.from_str(json.dumps(spec)).encode("some words").ids,
                             prefix + ids[0] + suffix)
            self.assertEqual((prefix, suffix), ([0], [1, 0]))


def invalid_bytes_replaced(raw):
    """Text with one U+FFFD per byte that is part of no character, and those bytes in order."""
    text, strays, at = [], [], 0
    while at < len(raw):
        for length in (1, 2, 3, 4):
            try:
                text.append(raw[at:at + length].decode())
                strays.append(None)
                at += length
                break
            except UnicodeDecodeError:
                continue
        else:
            text.append(REPLACEMENT)
            strays.append(raw[at])
            at += 1
    return "".join(text), strays


BYTE_TO_CHAR = {}


def spelled(raw):
    if not BYTE_TO_CHAR:
        plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
        BYTE_TO_CHAR.update({b: chr(b) for b in plain})
        others = [b for b in range(256) if b not in plain]
        BYTE_TO_CHAR.update({b: chr(256 + i) for i, b in enumerate(others)})
    return "".join(BYTE_TO_CHAR[b] for b in raw)


def ids_of_invalid(tokenizer, raw):
    text, strays = invalid_bytes_replaced(raw)
    stray_bytes = iter([b for b in strays if b is not None])
    genuine = iter([b is None for b, c in zip(strays, text) if c == REPLACEMENT])
    if tokenizer.normalizer:
        text = tokenizer.normalizer.normalize_str(text)
    ids, at = [], 0
    pieces = tokenizer.pre_tokenizer.pre_tokenize_str(text)
    for _, (begin, end) in pieces:
        assert begin == at
        at = end
        piece = b"".join(
            bytes([next(stray_bytes)]) if c == REPLACEMENT and not next(genuine) else c.encode()
            for c in text[begin:end])
        ids += [token.id for token in tokenizer.model.tokenize(spelled(piece))]
    assert at == len(text)
    return ids


def main():
    global TOOL, SCALE
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--scale", type=float, default=1.0)
    arguments, rest = parser.parse_known_args()
    TOOL, SCALE = arguments.tool, arguments.scale
    program = unittest.main(argv=[sys.argv[0], *rest], verbosity=2, exit=False)
    print(f"{VOLUME['bytes'] / 1e6:.1f} MB compared, {VOLUME['ids']} ids")
    sys.exit(not program.result.wasSuccessful())


if __name__ == "__main__":
    main()
