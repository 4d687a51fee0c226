"""A byte-level vocabulary of any size, so that a model with random weights can be asked in text."""

import json

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
            "message['content'] + '<|im_end|>\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def byte_alphabet():
    """The printable stand-in of every byte, as byte-level BPE vocabularies spell them."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spelled, extra = {}, 0
    for byte in range(256):
        if byte in plain:
            spelled[byte] = chr(byte)
        else:
            spelled[byte] = chr(256 + extra)
            extra += 1
    return spelled


def tokens_and_merges(size):
    """Byte tokens, then pairs of printable characters and pairs of those, with their merges; the
    special tokens come after them."""
    alphabet = byte_alphabet()
    tokens = [alphabet[byte] for byte in range(256)]
    letters = [alphabet[byte] for byte in range(0x20, 0x7F)]
    pairs = [(left, right) for left in letters for right in letters]
    words = [left + right for left, right in pairs]
    longer = ((left, right) for left in words for right in words)
    wanted = size - len(tokens) - len(SPECIAL)
    merges = pairs[:wanted]
    while len(merges) < wanted:
        merges.append(next(longer))
    return tokens + [left + right for left, right in merges], merges


def write(directory, size):
    """tokenizer.json, tokenizer_config.json and generation_config.json; nothing when the bytes and
    the special tokens do not fit into `size`."""
    if size < 256 + len(SPECIAL):
        return
    tokens, merges = tokens_and_merges(size)
    added = [{"id": len(tokens) + i, "content": text, "special": True, "single_word": False,
              "lstrip": False, "rstrip": False, "normalized": False}
             for i, text in enumerate(SPECIAL)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    vocabulary = {text: index for index, text in enumerate(tokens)}
    vocabulary.update({token["content"]: token["id"] for token in added})
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "ignore_merges": False, "vocab": vocabulary,
             "merges": [f"{left} {right}" for left, right in merges]}
    document = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
                "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
                "decoder": byte_level, "model": model}
    (directory / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False))
    settings = {"bos_token": SPECIAL[0], "eos_token": SPECIAL[-1], "chat_template": TEMPLATE}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))
    ids = {"bos_token_id": len(tokens), "eos_token_id": len(tokens) + 2}
    (directory / "generation_config.json").write_text(json.dumps(ids, indent=1))
