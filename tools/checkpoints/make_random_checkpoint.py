#!/usr/bin/env python3
"""Writes a checkpoint of any supported family with seeded random weights, in BF16, FP8 or INT4.

    make_random_checkpoint.py mini-K build/models/mini-K
    make_random_checkpoint.py mini-G build/models/mini-G-fp8 --format fp8
    make_random_checkpoint.py path/to/config.json build/models/x --format int4 --seed 7

The first argument is a preset (presets.py: nano, mini-K, mini-L, mini-G, ...) or a config.json.
Formats: bf16; fp8 (e4m3, 128 x 128 blocks, `weight_scale_inv`), every linear layer but router and
indexer weights; int4 (compressed-tensors pack-quantized, groups of 32), the routed experts, or
every linear layer of a model without experts. The same seed gives the same weights before
quantisation in every format.

A byte-level vocabulary of the configuration's size is written beside the weights, so that the
server can be asked in text; below 259 tokens there is none, and such a checkpoint only loads.
"""

import argparse
import copy
import json
import pathlib
import sys
import zlib

import numpy as np

import encode
import presets
import shapes
import vocabulary

SHARD_BYTES = 1 << 30
CHUNK_ELEMENTS = 4 << 20
DTYPE_NAMES = {np.dtype(np.float32): "F32", np.dtype(np.uint16): "BF16",
               np.dtype(np.uint8): "F8_E4M3", np.dtype(np.int32): "I32", np.dtype(np.int64): "I64"}
FP8_CONFIG = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
              "weight_block_size": [encode.FP8_BLOCK, encode.FP8_BLOCK]}
INT4_CONFIG = {
    "quant_method": "compressed-tensors", "format": "pack-quantized",
    "quantization_status": "compressed", "kv_cache_scheme": None,
    "config_groups": {"group_0": {
        "targets": ["Linear"], "input_activations": None, "output_activations": None,
        "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group",
                    "group_size": encode.INT4_GROUP, "dynamic": False, "observer": "minmax",
                    "actorder": None}}},
    "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
               r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]}


def draw(tensor, seed):
    """The tensor's values as BF16-exact FP32 (FP32 for a selection bias), in chunks of whole rows;
    a chunk of a matrix has a multiple of 128 rows."""
    rng = np.random.default_rng([seed, zlib.crc32(tensor.name.encode())])
    rows, columns = tensor.shape if len(tensor.shape) == 2 else (1, tensor.shape[0])
    if tensor.kind == "selection_bias":
        yield rng.uniform(-0.1, 0.1, (rows, columns)).astype(np.float32)
        return
    step = max(1, CHUNK_ELEMENTS // columns // 128) * 128
    for begin in range(0, rows, step):
        values = rng.standard_normal((min(step, rows - begin), columns), np.float32)
        if tensor.kind == "norm":
            values = 1 + np.float32(0.1) * values
        elif tensor.kind == "bias":
            values *= np.float32(0.05)
        elif tensor.kind != "embedding":
            values *= np.float32(tensor.gain * columns**-0.5)
        yield encode.from_bf16(encode.to_bf16(values))


class Part:
    """One stored tensor: its name, dtype and shape, known before any value is drawn."""

    def __init__(self, name, dtype, shape):
        self.name, self.dtype, self.shape = name, np.dtype(dtype), tuple(shape)
        self.bytes = int(np.prod(shape, dtype=np.int64)) * self.dtype.itemsize


class Store:
    """How logical tensors become stored ones in one format."""

    def __init__(self, name, experts):
        self.name = name
        self.kinds = {"bf16": (), "fp8": ("linear", "expert"),
                      "int4": ("expert",) if experts else ("linear",)}[name]

    def encoding(self, tensor):
        if tensor.kind not in self.kinds:
            return "bf16"
        return "bf16" if self.name == "int4" and tensor.shape[1] % encode.INT4_GROUP else self.name

    def parts(self, tensor):
        base = tensor.name.removesuffix(".weight")
        encoding = self.encoding(tensor)
        if encoding == "bf16":
            dtype = np.float32 if tensor.kind == "selection_bias" else np.uint16
            return [Part(tensor.name, dtype, tensor.shape)]
        rows, columns = tensor.shape
        if encoding == "fp8":
            blocks = (-(-rows // encode.FP8_BLOCK), -(-columns // encode.FP8_BLOCK))
            return [Part(tensor.name, np.uint8, tensor.shape),
                    Part(base + ".weight_scale_inv", np.float32, blocks)]
        return [Part(base + ".weight_packed", np.int32, (rows, columns // 8)),
                Part(base + ".weight_scale", np.uint16, (rows, columns // encode.INT4_GROUP)),
                Part(base + ".weight_shape", np.int64, (2,))]

    def write(self, tensor, seed, file):
        """Writes the parts' bytes one after the other; only scales are kept until their turn."""
        encoding = self.encoding(tensor)
        scales = []
        for values in draw(tensor, seed):
            if encoding == "bf16":
                plain = tensor.kind == "selection_bias"
                file.write((values if plain else encode.to_bf16(values)).tobytes())
            elif encoding == "fp8":
                for row in range(0, len(values), encode.FP8_BLOCK):
                    codes, scale = encode.fp8_blocks(values[row:row + encode.FP8_BLOCK])
                    file.write(codes.tobytes())
                    scales.append(scale)
            else:
                words, scale = encode.int4_groups(values)
                file.write(words.tobytes())
                scales.append(scale)
        for scale in scales:
            file.write(scale.tobytes())
        if encoding == "int4":
            file.write(np.array(tensor.shape, np.int64).tobytes())


def shards(tensors, store):
    """Cuts the tensors into files of at most SHARD_BYTES, never inside one."""
    files, used = [[]], 0
    for tensor in tensors:
        size = sum(part.bytes for part in store.parts(tensor))
        if files[-1] and used + size > SHARD_BYTES:
            files.append([])
            used = 0
        files[-1].append(tensor)
        used += size
    return files


def write_shard(path, tensors, store, seed):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for tensor in tensors:
        for part in store.parts(tensor):
            header[part.name] = {"dtype": DTYPE_NAMES[part.dtype], "shape": part.shape,
                                 "data_offsets": [at, at + part.bytes]}
            at += part.bytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors:
            store.write(tensor, seed, file)
        if file.tell() != 8 + len(text) + at:
            raise SystemExit(f"{path}: wrote {file.tell()} bytes, not what the header says")
    return at


def written_config(config, store):
    """The configuration as it is stored beside the weights."""
    config = copy.deepcopy(config)
    text = config.get("text_config", config)
    text.pop("quantization_config", None)
    config.pop("quantization_config", None)
    if "num_nextn_predict_layers" in text:
        text["num_nextn_predict_layers"] = 0
    if store.name == "fp8":
        text["quantization_config"] = FP8_CONFIG
    elif store.name == "int4":
        groups = copy.deepcopy(INT4_CONFIG)
        if store.kinds == ("linear",):
            groups["ignore"] = ["lm_head"]
        text["quantization_config"] = groups
    return config


def dump(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_checkpoint(config, store, seed, out):
    """Writes everything into `out`, which appears only once it is whole."""
    partial = out.with_name(out.name + ".partial")
    partial.mkdir(parents=True)
    tensors = shapes.tensors_of(config)
    files = shards(tensors, store)
    names = [f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))]
    if len(files) == 1:
        names = ["model.safetensors"]
    total = 0
    for name, members in zip(names, files):
        total += write_shard(partial / name, members, store, seed)
        print(f"{name}: {len(members)} tensors, {total / 1e9:.2f} GB so far", flush=True)
    if len(files) > 1:
        weight_map = {part.name: name for name, members in zip(names, files)
                      for tensor in members for part in store.parts(tensor)}
        dump(partial / "model.safetensors.index.json",
             {"metadata": {"total_size": total}, "weight_map": weight_map})
    dump(partial / "config.json", written_config(config, store))
    text = config.get("text_config", config)
    vocabulary.write(partial, text["vocab_size"])
    partial.rename(out)
    count = sum(int(np.prod(tensor.shape, dtype=np.int64)) for tensor in tensors)
    print(f"{out}: {count / 1e9:.3f} billion parameters, {total / 1e9:.2f} GB")


def read_config(source):
    if source in presets.PRESETS:
        return presets.PRESETS[source]
    path = pathlib.Path(source)
    if not path.is_file():
        raise SystemExit(f"{source}: neither a config.json nor one of {', '.join(presets.PRESETS)}")
    return json.loads(path.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", help="a preset or a config.json")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--format", choices=("bf16", "fp8", "int4"), default="bf16")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.out.exists():
        raise SystemExit(f"{arguments.out}: is there already")
    config = read_config(arguments.source)
    experts = config["model_type"] not in shapes.DENSE
    write_checkpoint(config, Store(arguments.format, experts), arguments.seed, arguments.out)


if __name__ == "__main__":
    sys.exit(main())
