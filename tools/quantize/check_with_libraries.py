#!/usr/bin/env python3
"""Shows that transformers and compressed-tensors load what `bulkhead quantize` writes, and records
what they read in tests/golden/quantise, which src/model/write/library_test.cc compares with.

    check_with_libraries.py BULKHEAD        (packages: tools/golden/README.md)

For each small model and recipe the program writes a checkpoint Q, and from Q a plain BF16 one P.
Then, without any of Bulkhead's code:
- compressed-tensors decodes every tensor of Q by the group of config.json that names its module
  (FP8 of quant_method fp8: transformers' own dequantiser), with the bits of P;
- every module that no group names is stored plain;
- transformers loads Q and P, and their logits are equal to the bit.
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
from safetensors.torch import load_file, save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "golden" / "quantise"
MODELS = ROOT / "tests" / "golden" / "models"
CASES = [("wide", "fp8"), ("wide", "int4"), ("wide", "attention=int4,mlp=fp8"),
         ("qwen3_moe", "fp8"), ("qwen3_moe", "int4"), ("qwen3_moe", "kimi-fp8"),
         ("deepseek_v3", "fp8"), ("deepseek_v3", "kimi"), ("deepseek_v3", "kimi-fp8"),
         ("glm_moe_dsa", "fp8"), ("glm_moe_dsa", "kimi-fp8")]


def make_wide(path):
    """A llama whose matrices are several blocks of 128, seeded; rows and columns differ in size."""
    torch.manual_seed(7)
    config = transformers.LlamaConfig(
        hidden_size=128, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, vocab_size=64, tie_word_embeddings=False,
        max_position_embeddings=512, bos_token_id=1, eos_token_id=2, dtype=torch.bfloat16)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.copy_(torch.randn(weight.shape) * 0.05 *
                             torch.linspace(0.3, 2.0, weight.shape[0])[:, None])
    model.save_pretrained(path)


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


def check_tensors(quantised, plain):
    """Decodes Q by the libraries; returns the checksums of what they read."""
    settings = quantisation_of(json.loads((quantised / "config.json").read_text()))
    stored, expected = (load_file(path / "model.safetensors") for path in (quantised, plain))
    config = None
    if settings["quant_method"] == "compressed-tensors":
        config = QuantizationConfig.model_validate(settings)
    sums = {}
    for key, value in expected.items():
        name, _, part = key.rpartition(".")
        decoded = None
        if config is not None and part == "weight" and value.ndim == 2:
            decoded, own = decode_compressed(stored, name, config)
            assert decoded is not None or list(own) == ["weight"], f"{name}: named by no group"
        elif name + ".weight_scale_inv" in stored:
            decoded = decode_fp8(stored, name)
        if decoded is None:
            decoded = stored[key]
        assert torch.equal(decoded, value), key
        sums[key] = zlib.crc32(decoded.contiguous().view(torch.uint8).numpy().tobytes())
    return sums


def logits_of(path):
    extra = {}
    settings = quantisation_of(json.loads((path / "config.json").read_text()))
    if settings and settings["quant_method"] == "compressed-tensors":
        extra["quantization_config"] = transformers.CompressedTensorsConfig(dequantize=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16, **extra)
    ids = torch.arange(3, 51)[None]
    with torch.no_grad():
        return model(ids).logits.float()


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    OUT.mkdir(exist_ok=True)
    if not (OUT / "wide" / "model.safetensors").exists():
        make_wide(OUT / "wide")
    cases = []
    for model, recipe in CASES:
        source = OUT / model if model == "wide" else MODELS / model
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
