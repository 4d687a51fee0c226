#!/usr/bin/env python3
"""Rewrites a safetensors checkpoint of the DeepSeek-V3 family (Kimi K2 alike) as the BF16 GGUF that
llama.cpp reads, bit for bit the same weights, so that both sides of a comparison run one model.

    to_deepseek2_gguf.py build/bench/mini-K build/bench/mini-K.gguf

The vocabulary is a stand-in of the same size: prompts of the comparison are token ids.
"""

import argparse
import json
import pathlib

import gguf
import numpy as np

from make_random_gguf import write_vocabulary

BF16 = gguf.GGMLQuantizationType.BF16

# In layers, behind "model.layers.N." and "blk.N.".
NAMES = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_a_proj.weight": "attn_q_a.weight",
    "self_attn.q_a_layernorm.weight": "attn_q_a_norm.weight",
    "self_attn.q_b_proj.weight": "attn_q_b.weight",
    "self_attn.kv_a_proj_with_mqa.weight": "attn_kv_a_mqa.weight",
    "self_attn.kv_a_layernorm.weight": "attn_kv_a_norm.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "mlp.gate.weight": "ffn_gate_inp.weight",
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.shared_experts.gate_proj.weight": "ffn_gate_shexp.weight",
    "mlp.shared_experts.up_proj.weight": "ffn_up_shexp.weight",
    "mlp.shared_experts.down_proj.weight": "ffn_down_shexp.weight",
}


class Tensors:
    """The checkpoint's tensors by name: BF16 as codes (uint16), F32 as numbers."""

    def __init__(self, folder):
        self._places = {}
        for path in sorted(folder.glob("*.safetensors")):
            data = np.memmap(path, dtype=np.uint8, mode="r")
            size = int.from_bytes(data[:8].tobytes(), "little")
            header = json.loads(data[8:8 + size].tobytes())
            header.pop("__metadata__", None)
            for name, entry in header.items():
                self._places[name] = data, 8 + size, entry

    def __contains__(self, name):
        return name in self._places

    def __getitem__(self, name):
        data, start, entry = self._places[name]
        begin, end = entry["data_offsets"]
        kind = {"BF16": np.uint16, "F32": np.float32}[entry["dtype"]]
        return data[start + begin:start + end].view(kind).reshape(entry["shape"])


def widened(tensor):
    if tensor.dtype == np.float32:
        return np.array(tensor)
    return (tensor.astype(np.uint32) << 16).view(np.float32)


def add(writer, name, tensor):
    # Norms, the router and its bias are FP32 in such files.
    if tensor.ndim == 1 or "ffn_gate_inp" in name:
        writer.add_tensor(name, widened(tensor))
        return
    codes = np.ascontiguousarray(tensor)
    writer.add_tensor(name, codes.view(np.uint8), raw_dtype=BF16)


def add_layer(writer, tensors, config, layer):
    inside, outside = f"model.layers.{layer}.", f"blk.{layer}."
    for name, target in NAMES.items():
        if inside + name in tensors:
            add(writer, outside + target, tensors[inside + name])
    heads, nope = config["num_attention_heads"], config["qk_nope_head_dim"]
    up = tensors[inside + "self_attn.kv_b_proj.weight"].reshape(heads, -1, config["kv_lora_rank"])
    add(writer, outside + "attn_k_b.weight", up[:, :nope].transpose(0, 2, 1))
    add(writer, outside + "attn_v_b.weight", up[:, nope:])
    if inside + "mlp.gate.weight" not in tensors:
        return
    for part in ("gate", "up", "down"):
        stack = [tensors[f"{inside}mlp.experts.{expert}.{part}_proj.weight"]
                 for expert in range(config["n_routed_experts"])]
        add(writer, f"{outside}ffn_{part}_exps.weight", np.stack(stack))


def write_config(writer, config):
    latent, rope = config["kv_lora_rank"], config["qk_rope_head_dim"]
    writer.add_name("random")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_q_lora_rank(config["q_lora_rank"])
    writer.add_kv_lora_rank(latent)
    writer.add_key_length(latent + rope)
    writer.add_value_length(latent)
    writer.add_key_length_mla(config["qk_nope_head_dim"] + rope)
    writer.add_value_length_mla(config["v_head_dim"])
    writer.add_rope_dimension_count(rope)
    writer.add_rope_freq_base(config["rope_theta"])
    scaling = config["rope_scaling"]
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(scaling["factor"])
    writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
    writer.add_rope_scaling_yarn_log_mul(0.1 * scaling["mscale_all_dim"])
    writer.add_leading_dense_block_count(config["first_k_dense_replace"])
    writer.add_expert_count(config["n_routed_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    writer.add_expert_weights_norm(config["norm_topk_prob"])
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    options = parser.parse_args()
    config = json.loads((options.checkpoint / "config.json").read_text(encoding="utf-8"))
    tensors = Tensors(options.checkpoint)
    partial = options.out.with_suffix(".partial")
    writer = gguf.GGUFWriter(partial, "deepseek2")
    write_config(writer, config)
    write_vocabulary(writer, config["vocab_size"])
    add(writer, "token_embd.weight", tensors["model.embed_tokens.weight"])
    for layer in range(config["num_hidden_layers"]):
        add_layer(writer, tensors, config, layer)
    add(writer, "output_norm.weight", tensors["model.norm.weight"])
    add(writer, "output.weight", tensors["lm_head.weight"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(options.out)
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
