#!/usr/bin/env python3
"""Writes a Llama of a given shape with seeded random weights as a BF16 GGUF, for speed comparisons.

    make_random_gguf.py build/bench/llama-2048x16.gguf

The default shape has 0.85 billion parameters: hidden 2048, 16 layers, 32 query and 8 key heads of
64, feed-forward 5632, vocabulary 32000. The text it writes is noise; its cost is that of a real
model.
"""

import argparse
import pathlib
import sys

import gguf
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "checkpoints"))
import vocabulary  # noqa: E402


def write_vocabulary(writer, size):
    words, merges = vocabulary.tokens_and_merges(size)
    tokens = words + list(vocabulary.SPECIAL)
    types = ([gguf.TokenType.NORMAL] * len(words) +
             [gguf.TokenType.CONTROL] * len(vocabulary.SPECIAL))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([f"{left} {right}" for left, right in merges])
    writer.add_bos_token_id(len(tokens) - 3)
    writer.add_eos_token_id(len(tokens) - 1)
    writer.add_add_bos_token(False)
    writer.add_chat_template(vocabulary.TEMPLATE)


def write_shape(writer, shape):
    writer.add_name("random")
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)


def tensors(shape):
    """(name, rows, columns) in file order; one row means a norm."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    yield "token_embd.weight", shape.vocabulary, shape.hidden
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", 1, shape.hidden
        yield block + "attn_q.weight", queries, shape.hidden
        yield block + "attn_k.weight", keys, shape.hidden
        yield block + "attn_v.weight", keys, shape.hidden
        yield block + "attn_output.weight", shape.hidden, queries
        yield block + "ffn_norm.weight", 1, shape.hidden
        yield block + "ffn_gate.weight", shape.feed_forward, shape.hidden
        yield block + "ffn_up.weight", shape.feed_forward, shape.hidden
        yield block + "ffn_down.weight", shape.hidden, shape.feed_forward
    yield "output_norm.weight", 1, shape.hidden
    yield "output.weight", shape.vocabulary, shape.hidden


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    for name, value in (("hidden", 2048), ("layers", 16), ("heads", 32), ("kv-heads", 8),
                        ("head-dim", 64), ("feed-forward", 5632), ("vocabulary", 32000),
                        ("context", 4096)):
        parser.add_argument(f"--{name}", type=int, default=value)
    return parser.parse_args()


def main():
    shape = parse_arguments()
    shape.out.parent.mkdir(parents=True, exist_ok=True)
    partial = shape.out.with_suffix(".partial")
    writer = gguf.GGUFWriter(partial, "llama")
    write_shape(writer, shape)
    write_vocabulary(writer, shape.vocabulary)
    random = np.random.default_rng(shape.seed)
    bf16 = gguf.GGMLQuantizationType.BF16
    total = 0
    for name, rows, columns in tensors(shape):
        total += rows * columns
        if rows == 1:
            writer.add_tensor(name, np.ones(columns, dtype=np.float32))
            continue
        # The scale keeps activations of order one through the depth of the model.
        values = random.standard_normal((rows, columns), dtype=np.float32) / np.sqrt(columns)
        writer.add_tensor(name, gguf.quants.quantize(values, bf16), raw_dtype=bf16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(shape.out)
    print(f"{shape.out}: {total / 1e9:.3f} billion parameters, {shape.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
