#!/usr/bin/env python3
"""Writes a BF16 GGUF of a Llama as the safetensors checkpoint that transformers reads, bit for bit
the same matrices, so that all sides of a comparison run one model.

    to_hf_checkpoint.py build/bench/smollm2-bf16.gguf build/bench/smollm2-hf

There is no tokenizer beside it: prompts of the comparison are token ids.
"""

import argparse
import json
import pathlib
import sys

import gguf
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "checkpoints"))
import encode  # noqa: E402

OUTSIDE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight":
           "model.norm.weight", "output.weight": "lm_head.weight"}
# In layers, behind "blk.N." and "model.layers.N.".
INSIDE = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}


def config_of(reader):
    def value(name):
        return reader.fields[name].contents()

    heads, hidden = value("llama.attention.head_count"), value("llama.embedding_length")
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16",
        "hidden_size": hidden, "num_hidden_layers": value("llama.block_count"),
        "intermediate_size": value("llama.feed_forward_length"), "num_attention_heads": heads,
        "num_key_value_heads": value("llama.attention.head_count_kv"), "head_dim": hidden // heads,
        "rms_norm_eps": value("llama.attention.layer_norm_rms_epsilon"),
        "rope_theta": value("llama.rope.freq_base"), "hidden_act": "silu",
        "max_position_embeddings": value("llama.context_length"),
        "vocab_size": int(tensors["token_embd.weight"].shape[1]),
        "tie_word_embeddings": "output.weight" not in tensors,
        "bos_token_id": value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": value("tokenizer.ggml.eos_token_id"),
    }


def name_of(name):
    if name in OUTSIDE:
        return OUTSIDE[name]
    _, layer, rest = name.split(".", 2)
    return f"model.layers.{layer}.{INSIDE[rest]}"


def bf16_of(tensor, config):
    """The tensor's BF16 codes, rows of queries and keys in the order of rotation by halves."""
    if tensor.tensor_type == gguf.GGMLQuantizationType.F32:
        return encode.to_bf16(tensor.data)
    if tensor.tensor_type != gguf.GGMLQuantizationType.BF16:
        raise SystemExit(f"{tensor.name} is {tensor.tensor_type.name}, not BF16")
    codes = tensor.data.view(np.uint16)
    heads = {"attn_q.weight": config["num_attention_heads"],
             "attn_k.weight": config["num_key_value_heads"]}.get(tensor.name.split(".", 2)[-1])
    if heads is None:
        return codes
    pairs = codes.reshape(heads, codes.shape[0] // heads // 2, 2, codes.shape[1])
    return pairs.swapaxes(1, 2).reshape(codes.shape)


def write_tensors(path, reader, config):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for tensor in reader.tensors:
        shape = [int(size) for size in reversed(tensor.shape)]
        size = 2 * int(np.prod(shape))
        header[name_of(tensor.name)] = {"dtype": "BF16", "shape": shape,
                                        "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in reader.tensors:
            file.write(np.ascontiguousarray(bf16_of(tensor, config)).tobytes())


def dump(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    options = parser.parse_args()
    reader = gguf.GGUFReader(options.source)
    config = config_of(reader)
    partial = options.out.with_name(options.out.name + ".partial")
    partial.mkdir(parents=True, exist_ok=True)
    write_tensors(partial / "model.safetensors", reader, config)
    dump(partial / "config.json", config)
    dump(partial / "generation_config.json",
         {key: config[key] for key in ("bos_token_id", "eos_token_id")})
    partial.rename(options.out)
    print(f"{options.out}: {(options.out / 'model.safetensors').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
