#!/usr/bin/env python3
"""Writes tests/golden/formats: quantised weights packed by the libraries that own each format, with
the values that those libraries decode from them.

CASE.safetensors holds one weight's stored tensors, `expected` (what the library decodes, widened to
FP32) and `expected_bf16`; cases.json has each case's quantization_config. qwen3_FORMAT is a tiny
model in that format, qwen3_FORMAT_plain the same after decoding by the library.

compressed-tensors packs and decodes its own; AutoAWQ packs and decodes AWQ; GPTQModel packs GPTQ
and decodes it; transformers decodes FP8 (its blocks must divide the shape, so partial blocks are
decoded here by the formula, and where both can, they are compared).
"""

import importlib.util
import json
import pathlib
import sys
import types

import torch
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "formats"
NAME = "model.layers.0.mlp.down_proj"
FP8 = torch.float8_e4m3fn


def bare_packages(*names):
    """Enters packages without running their __init__, which would import what nobody needs here."""
    for name in names:
        module = types.ModuleType(name)
        module.__path__ = list(importlib.util.find_spec(name).submodule_search_locations)
        sys.modules[name] = module


bare_packages("awq", "awq.utils", "awq.modules", "awq.modules.linear")
from awq.modules.linear.gemm import WQLinear_GEMM  # noqa: E402
from awq.utils.packing_utils import dequantize_gemm  # noqa: E402

bare_packages("gptqmodel", "gptqmodel.nn_modules", "gptqmodel.quantization", "gptqmodel.models")
import gptqmodel.quantization.config as gptq_config  # noqa: E402

sys.modules["gptqmodel.quantization"].FORMAT = gptq_config.FORMAT
sys.modules["gptqmodel.quantization"].METHOD = gptq_config.METHOD
from gptqmodel.nn_modules.qlinear.torch import TorchLinear  # noqa: E402

from compressed_tensors.compressors.pack_quantized.base import (  # noqa: E402
    PackedQuantizationCompressor)
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme  # noqa: E402


def weights(rows, columns, seed):
    torch.manual_seed(seed)
    values = torch.randn(rows, columns)
    # Rows and columns of different size make a scale in the wrong place a gross error.
    values *= torch.linspace(0.02, 2.0, rows)[:, None] * torch.linspace(2.0, 0.1, columns)
    return values


# FP8 ----------------------------------------------------------------------------------------------

def fp8_config(block, scale_fmt=None):
    config = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
              "weight_block_size": list(block)}
    return config | ({"scale_fmt": scale_fmt} if scale_fmt else {})


def fp8_by_library(values, block, scale_fmt=None):
    config = types.SimpleNamespace(weight_block_size=block, scale_fmt=scale_fmt)
    quantizer = types.SimpleNamespace(quantization_config=config)
    pair = Fp8Quantize(quantizer).convert({"m.weight": values})
    return pair["m.weight"], pair["m.weight_scale_inv"]


def fp8_by_formula(codes, scales, block):
    """Element (n, k) times scale (n / b0, k / b1), which holds for partial blocks too."""
    if scales.dtype == torch.uint8:
        scales = torch.pow(2.0, scales.float() - 127)
    rows, columns = codes.shape
    wide = scales.float().repeat_interleave(block[0], 0)[:rows]
    return codes.float() * wide.repeat_interleave(block[1], 1)[:, :columns]


def fp8_case(codes, scales, block, suffix=".weight_scale_inv"):
    expected = fp8_by_formula(codes, scales, block)
    if codes.shape[0] % block[0] == 0 and codes.shape[1] % block[1] == 0:
        library = Fp8Dequantize(None)._dequantize_one(codes, scales, torch.float32)
        assert torch.equal(library, expected), "transformers decodes otherwise"
    return {NAME + ".weight": codes, NAME + suffix: scales}, expected


def fp8_cases():
    block = (16, 32)
    codes, scales = fp8_by_library(weights(48, 64, 1), block)
    yield "fp8_f32", fp8_config(block), *fp8_case(codes, scales, block)
    yield "fp8_bf16", fp8_config(block), *fp8_case(codes, scales.bfloat16(), block)
    yield "fp8_f16", fp8_config(block), *fp8_case(codes, scales.half(), block)
    codes, scales = fp8_by_library(weights(48, 64, 2), block, "ue8m0")
    yield "fp8_ue8m0", fp8_config(block, "ue8m0"), *fp8_case(codes, scales, block, ".scale")
    raw = scales.view(torch.uint8)
    yield "fp8_u8", fp8_config(block, "ue8m0"), *fp8_case(codes, raw, block)
    # Every code that is not NaN; partial blocks at both edges.
    codes = torch.arange(40 * 70, dtype=torch.int64).remainder(256).to(torch.uint8).view(40, 70)
    codes[(codes & 127) == 127] = 0
    scales = torch.rand(3, 3) + 0.25
    yield "fp8_partial", fp8_config(block), *fp8_case(codes.view(FP8), scales, block)


# compressed-tensors -------------------------------------------------------------------------------

def packed_config(**weights_args):
    arguments = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group",
                 "group_size": 32, "dynamic": False, "actorder": None, "observer": "minmax"}
    arguments |= weights_args
    return {"quant_method": "compressed-tensors", "format": "pack-quantized",
            "quantization_status": "compressed", "kv_cache_scheme": None, "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": arguments,
                                          "input_activations": None, "output_activations": None}}}


def packed_case(values, config, dtype):
    arguments = config["config_groups"]["group_0"]["weights"]
    group = arguments["group_size"] or values.shape[1]
    parts = values.view(values.shape[0], -1, group)
    zero = None
    if arguments["symmetric"]:
        scales = (parts.abs().amax(2) / 7).to(dtype)
    else:
        low, high = parts.amin(2).clamp(max=0), parts.amax(2).clamp(min=0)
        scales = ((high - low) / 15).to(dtype)
        zero = (-8 - low / scales.float()).round().clamp(-8, 7).to(torch.int8)
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(
        **{key: value for key, value in arguments.items() if key != "observer"}))
    state = {"weight": values.to(dtype), "weight_scale": scales}
    if zero is not None:
        state["weight_zero_point"] = zero
    stored = PackedQuantizationCompressor.compress(state, scheme)
    expected = PackedQuantizationCompressor.decompress(dict(stored), scheme)["weight"]
    assert expected.dtype == dtype
    return {f"{NAME}.{key}": value.contiguous() for key, value in stored.items()}, expected


def packed_cases():
    for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16), ("f32", torch.float32)):
        config = packed_config()
        yield f"packed_{name}", config, *packed_case(weights(24, 96, 3), config, dtype)
    stored, expected = packed_case(weights(24, 96, 4), packed_config(), torch.bfloat16)
    # Another writer's types, and the shape left empty.
    stored[NAME + ".weight_shape"] = stored[NAME + ".weight_shape"].int()
    yield "packed_i32_shape", packed_config(), stored, expected
    stored = dict(stored, **{NAME + ".weight_shape": torch.empty(0, dtype=torch.int64)})
    yield "packed_no_shape", packed_config(), stored, expected
    config = packed_config(strategy="channel", group_size=None)
    yield "packed_channel", config, *packed_case(weights(24, 64, 5), config, torch.bfloat16)
    config = packed_config(symmetric=False, group_size=16)
    yield "packed_asymmetric", config, *packed_case(weights(44, 64, 6), config, torch.bfloat16)


# AWQ ----------------------------------------------------------------------------------------------

def asymmetric(values, group):
    """Scales and zero points as AWQ's quantizer chooses them, [rows, groups]."""
    parts = values.view(values.shape[0], -1, group)
    low, high = parts.amin(2), parts.amax(2)
    scales = (high - low).clamp(min=1e-5) / 15
    return scales, (-(low / scales).round()).clamp(0, 15)


def awq_config(group):
    return {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True,
            "version": "gemm", "modules_to_not_convert": None}


def awq_case(values, group, name=NAME):
    scales, zeros = asymmetric(values, group)
    scales = scales.half()
    # AutoAWQ packs what its own pseudo quantisation left: values on the grid.
    grid = (values.view(values.shape[0], -1, group) / scales.float()[..., None]).round()
    grid = (grid + zeros[..., None]).clamp(0, 15) - zeros[..., None]
    linear = torch.nn.Linear(values.shape[1], values.shape[0], bias=False)
    linear.weight.data = (grid * scales.float()[..., None]).view_as(values)
    packed = WQLinear_GEMM.from_linear(linear, 4, group, scales=scales.t().contiguous().float(),
                                       zeros=zeros.t().contiguous())
    expected = dequantize_gemm(packed.qweight, packed.qzeros, packed.scales, 4, group).t()
    assert expected.dtype == torch.float16
    return {f"{name}.{key}": getattr(packed, key).contiguous()
            for key in ("qweight", "qzeros", "scales")}, expected


# GPTQ ---------------------------------------------------------------------------------------------

def gptq_config(group, version="gptq", ordered=False, symmetric=False):
    return {"quant_method": "gptq", "bits": 4, "group_size": group, "desc_act": ordered,
            "sym": symmetric, "checkpoint_format": version, "pack_dtype": "int32",
            "damp_percent": 0.01, "true_sequential": True}


def gptq_case(values, config, name=NAME):
    rows, columns = values.shape
    group = config["group_size"] if config["group_size"] != -1 else columns
    index = torch.arange(columns, dtype=torch.int32) // group
    if config["desc_act"]:
        index = index[torch.randperm(columns)]
    scales = torch.zeros(rows, columns // group)
    zeros = torch.zeros_like(scales)
    for i in range(columns // group):
        part = values[:, index == i]
        if config["sym"]:
            scales[:, i], zeros[:, i] = part.abs().amax(1) / 7, 8
        else:
            one, zero = asymmetric(part, part.shape[1])
            scales[:, i], zeros[:, i] = one[:, 0], zero[:, 0]
    scales = scales.half().float()
    grid = (values / scales[:, index.long()]).round() + zeros[:, index.long()]
    grid = (grid.clamp(0, 15) - zeros[:, index.long()]) * scales[:, index.long()]
    linear = torch.nn.Linear(columns, rows, bias=False)
    linear.weight.data = grid
    layer = TorchLinear(bits=4, group_size=group, sym=config["sym"], desc_act=config["desc_act"],
                        in_features=columns, out_features=rows, bias=False,
                        pack_dtype=torch.int32, register_buffers=True)
    layer.pack(linear, scales, zeros, g_idx=index)
    layer.post_init()
    expected = layer.dequantize_weight().t().contiguous()
    assert expected.dtype == torch.float16 and torch.allclose(expected.float(), grid, rtol=2e-3)
    stored = {f"{name}.{key}": getattr(layer, key).clone().contiguous()
              for key in ("qweight", "qzeros", "scales", "g_idx")}
    if config["checkpoint_format"] == "gptq":
        # GPTQModel's convert_gptq_v2_to_v1_format_module, word by word.
        stored[f"{name}.qzeros"] -= 0b00010001000100010001000100010001
    return stored, expected


def gptq_cases():
    config = gptq_config(32)
    positive = weights(32, 128, 9)
    positive[:, :32] = positive[:, :32].abs() + 0.1  # zero point 0, stored with a borrow
    yield "gptq", config, *gptq_case(positive, config)
    config = gptq_config(64, symmetric=True)
    stored, expected = gptq_case(weights(32, 128, 10), config)
    del stored[NAME + ".g_idx"]
    yield "gptq_symmetric", config, stored, expected
    config = gptq_config(32, "gptq_v2")
    yield "gptq_v2", config, *gptq_case(weights(32, 96, 11), config)
    config = gptq_config(32, ordered=True)
    yield "gptq_ordered", config, *gptq_case(weights(32, 128, 12), config)
    config = gptq_config(-1)
    yield "gptq_row", config, *gptq_case(weights(32, 64, 13), config)


def all_cases():
    yield from fp8_cases()
    yield from packed_cases()
    for name, group in (("awq", 32), ("awq_g64", 64)):
        yield name, awq_config(group), *awq_case(weights(32, 128, 7), group)
    yield from gptq_cases()


# A whole model ------------------------------------------------------------------------------------

MODEL = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "dtype": "bfloat16",
         "vocab_size": 32, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
         "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
         "rms_norm_eps": 1e-6, "max_position_embeddings": 64, "rope_theta": 1e6,
         "tie_word_embeddings": False, "hidden_act": "silu", "eos_token_id": 1}
LAYER = "model.layers.0."
LINEARS = {"self_attn.q_proj": (64, 64), "self_attn.k_proj": (32, 64),
           "self_attn.v_proj": (32, 64), "self_attn.o_proj": (64, 64), "mlp.gate_proj": (96, 64),
           "mlp.up_proj": (96, 64), "mlp.down_proj": (64, 96)}


def renamed(stored, name):
    return {key.replace(NAME, name): value for key, value in stored.items()}


def model_formats():
    """(format, quantization_config, what makes a case of a linear's values)."""
    block = (16, 16)
    yield "fp8", fp8_config(block), lambda values: fp8_case(*fp8_by_library(values, block), block)
    packed = packed_config()
    yield "packed", packed, lambda values: packed_case(values, packed, torch.bfloat16)
    yield "awq", awq_config(32), lambda values: awq_case(values, 32)
    gptq = gptq_config(32, ordered=True)
    yield "gptq", gptq, lambda values: gptq_case(values, gptq)


def write_models():
    torch.manual_seed(14)
    plain = {"model.embed_tokens.weight": torch.randn(32, 64),
             "lm_head.weight": torch.randn(32, 64), "model.norm.weight": torch.rand(64) + 0.5}
    for name, size in (("input_layernorm", 64), ("post_attention_layernorm", 64),
                       ("self_attn.q_norm", 32), ("self_attn.k_norm", 32)):
        plain[f"{LAYER}{name}.weight"] = torch.rand(size) + 0.5
    plain = {key: value.bfloat16() for key, value in plain.items()}
    for name, config, make in model_formats():
        quantised, decoded = dict(plain), dict(plain)
        for seed, (linear, shape) in enumerate(LINEARS.items()):
            stored, expected = make(weights(*shape, 20 + seed))
            quantised |= renamed(stored, LAYER + linear)
            decoded[f"{LAYER}{linear}.weight"] = expected.to(torch.bfloat16).contiguous()
        for suffix, tensors, extra in (("", quantised, {"quantization_config": config}),
                                       ("_plain", decoded, {})):
            directory = OUT / f"qwen3_{name}{suffix}"
            directory.mkdir(exist_ok=True)
            save_file(tensors, directory / "model.safetensors", {"format": "pt"})
            (directory / "config.json").write_text(json.dumps(MODEL | extra, indent=1) + "\n")


def main():
    OUT.mkdir(exist_ok=True)
    cases = []
    for name, config, stored, expected in all_cases():
        tensors = dict(stored, expected=expected.float().contiguous(),
                       expected_bf16=expected.to(torch.bfloat16).contiguous())
        save_file(tensors, OUT / f"{name}.safetensors", {"format": "pt"})
        cases.append({"name": name, "quantization_config": config})
    (OUT / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")
    write_models()


if __name__ == "__main__":
    main()
