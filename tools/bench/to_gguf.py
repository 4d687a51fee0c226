#!/usr/bin/env python3
"""Writes a GGUF of any quantisation in another: matrices in it, vectors in F32, metadata as it was.

    to_gguf.py bf16 models/SmolLM2-135M-Instruct.Q4_1.gguf build/bench/smollm2-bf16.gguf
    to_gguf.py q4_0 build/bench/smollm2-bf16.gguf build/bench/smollm2-q4_0.gguf

q4_0 has every matrix in groups of 32 with a scale of 16 bits, the embedding and the head too: what
`llama-quantize --pure` writes.
"""

import argparse
import pathlib

import gguf

# Written by the writer itself, or no longer true of the new file.
_LEFT_OUT = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")
_TYPES = {"bf16": (gguf.GGMLQuantizationType.BF16, gguf.LlamaFileType.MOSTLY_BF16),
          "q4_0": (gguf.GGMLQuantizationType.Q4_0, gguf.LlamaFileType.MOSTLY_Q4_0)}


def copy_metadata(reader, writer, file_type):
    for field in reader.fields.values():
        if field.name.startswith(_LEFT_OUT):
            continue
        sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub_type)
    writer.add_file_type(file_type)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def copy_tensors(reader, writer, tensor_type):
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, gguf.quants.quantize(values, tensor_type),
                              raw_dtype=tensor_type)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("type", choices=_TYPES)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    options = parser.parse_args()

    reader = gguf.GGUFReader(options.source)
    architecture = reader.fields["general.architecture"].contents()
    tensor_type, file_type = _TYPES[options.type]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    partial = options.out.with_suffix(".partial")
    writer = gguf.GGUFWriter(partial, architecture)
    copy_metadata(reader, writer, file_type)
    copy_tensors(reader, writer, tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(options.out)
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
