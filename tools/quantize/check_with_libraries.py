#!/usr/bin/env python3
"""Shows that transformers and compressed-tensors load what `bulkhead quantize` writes, and records
what they read in tests/golden/quantise, which src/model/write/library_test.cc compares with.

    check_with_libraries.py BULKHEAD        (packages: tools/golden/README.md)

For each small model and recipe the program writes a checkpoint Q, and from Q a plain BF16 one P.
Then, without any of Bulkhead's code:
- compressed-tensors decodes every tensor of Q by the group of config.json that names its module
  (FP8 of quant_method fp8: transformers' own dequantiser), with the bits of P;
- every module that no group names is stored plain;
- transformers loads Q and P, and their logits are equal to the bit. The one exception that is
  recorded: it dequantises dense layers of one format only, so "attention=int4,mlp=fp8" is refused.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib

import torch
import transformers
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationConfig
from safetensors.torch import load_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "golden" / "quantise"
CASES = [("wide", "fp8"), ("wide", "int4"), ("wide", "attention=int4,mlp=fp8"),
         ("moe", "fp8"), ("moe", "int4"), ("moe", "kimi-fp8"),
         ("mla", "fp8"), ("mla", "kimi"), ("mla", "kimi-fp8")]


def configurations():
    """Matrices of several blocks of 128; experts whose columns are whole groups, as transformers
    wants them (it takes all of an expert's matrices for one format); rows that its FP8 dequantiser
    divides (it makes equal blocks of an edge that is left over)."""
    common = dict(vocab_size=64, tie_word_embeddings=False, max_position_embeddings=512,
                  bos_token_id=1, eos_token_id=2, dtype=torch.bfloat16)
    experts = dict(moe_intermediate_size=64, num_experts_per_tok=2, hidden_size=64,
                   intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
    return {
        "wide": (transformers.LlamaForCausalLM, transformers.LlamaConfig(
            hidden_size=128, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
            num_key_value_heads=2, head_dim=32, **common)),
        "moe": (transformers.Qwen3MoeForCausalLM, transformers.Qwen3MoeConfig(
            num_experts=4, num_key_value_heads=2, head_dim=16, **experts, **common)),
        "mla": (transformers.DeepseekV3ForCausalLM, transformers.DeepseekV3Config(
            n_routed_experts=4, n_shared_experts=1, n_group=1, topk_group=1,
            first_k_dense_replace=1,
            num_key_value_heads=4, q_lora_rank=32, kv_lora_rank=64, qk_nope_head_dim=16,
            qk_rope_head_dim=16, v_head_dim=16, num_nextn_predict_layers=0, **experts, **common)),
    }


def make_models():
    for name, (kind, config) in configurations().items():
        if (OUT / name / "model.safetensors").exists():
            continue
        torch.manual_seed(7)
        model = kind(config).to(torch.bfloat16)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.ndim >= 2:
                    rows = weight.shape[-2]
                    weight.copy_(torch.randn(weight.shape) * 0.05 *
                                 torch.linspace(0.3, 2.0, rows)[:, None])
        model.save_pretrained(OUT / name)


def quantize(program, source, out, recipe):
    subprocess.run([program, "quantize", source, out, "--recipe", recipe], check=True,
                   capture_output=True)


def quantisation_of(config):
    inner = config.get("text_config", {})
    return config.get("quantization_config") or inner.get("quantization_config")


def decode_fp8(stored, name):
    return Fp8Dequantize(None)._dequantize_one(
        stored[name + ".weight"], stored[name + ".weight_scale_inv"], torch.bfloat16)


def names_module(targets, name):
    """compressed-tensors' rule for a Linear module."""
    return any(target == "Linear" or target == name or
               (target.startswith("re:") and re.match(target[3:], name)) for target in targets)


def decode_compressed(stored, name, config):
    own = {key[len(name) + 1:]: value for key, value in stored.items()
           if key.rpartition(".")[0] == name}
    if names_module(config.ignore, name):
        return None, own
    for group in config.config_groups.values():
        if names_module(group.targets, name):
            compressor = BaseCompressor.get_value_from_registry(group.format)
            return compressor.decompress(own, group)["weight"].to(torch.bfloat16), own
    return None, own


def check_tensors(quantised, widened):
    """Decodes Q by the libraries; returns the checksums of what they read."""
    settings = quantisation_of(json.loads((quantised / "config.json").read_text()))
    stored, expected = (load_file(path / "model.safetensors") for path in (quantised, widened))
    config = None
    if settings["quant_method"] == "compressed-tensors":
        config = QuantizationConfig.model_validate(settings)
    sums = {}
    for key, value in expected.items():
        name, _, part = key.rpartition(".")
        decoded = None
        if config is not None and part == "weight" and value.ndim == 2:
            decoded, own = decode_compressed(stored, name, config)
            plain = not {"weight_packed", "weight_scale"} & own.keys()
            assert (decoded is None) == plain, f"{name}: stored otherwise than its group says"
        elif name + ".weight_scale_inv" in stored:
            decoded = decode_fp8(stored, name)
        if decoded is None:
            decoded = stored[key]
        assert torch.equal(decoded, value), key
        sums[key] = zlib.crc32(decoded.contiguous().view(torch.uint8).numpy().tobytes())
    return sums


def logits_of(path, dequantize=True):
    extra = {}
    settings = quantisation_of(json.loads((path / "config.json").read_text()))
    if settings and settings["quant_method"] == "compressed-tensors":
        extra["quantization_config"] = transformers.CompressedTensorsConfig(dequantize=dequantize)
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16, **extra)
    ids = torch.arange(3, 51)[None]
    with torch.no_grad():
        return model(ids).logits.float()


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    OUT.mkdir(exist_ok=True)
    make_models()
    cases = []
    for model, recipe in CASES:
        source = OUT / model
        with tempfile.TemporaryDirectory() as folder:
            quantised, plain = pathlib.Path(folder) / "q", pathlib.Path(folder) / "p"
            quantize(program, source, quantised, recipe)
            quantize(program, quantised, plain, "bf16")
            sums = check_tensors(quantised, plain)
            file = zlib.crc32((quantised / "model.safetensors").read_bytes())
            try:
                same = torch.equal(logits_of(quantised), logits_of(plain))
            except Exception as error:  # what transformers cannot do is recorded, not hidden
                same = f"{type(error).__name__}: {error}".splitlines()[0]
            print(f"{model} {recipe}: {len(sums)} tensors equal; logits {same}", flush=True)
            cases.append({"model": model, "recipe": recipe, "file_crc32": file,
                          "logits_equal": same, "tensors_crc32": sums})
    (OUT / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
