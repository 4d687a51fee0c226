#!/usr/bin/env python3
"""Writes a GGUF of any quantisation as BF16: matrices in BF16, vectors in F32, metadata as it was.

    to_bf16_gguf.py models/SmolLM2-135M-Instruct.Q4_1.gguf build/bench/smollm2-bf16.gguf
"""

import argparse
import pathlib

import gguf

# Written by the writer itself, or no longer true of the new file.
_LEFT_OUT = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")


def copy_metadata(reader, writer):
    for field in reader.fields.values():
        if field.name.startswith(_LEFT_OUT):
            continue
        sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub_type)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)


def copy_tensors(reader, writer):
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values)
        else:
            bf16 = gguf.GGMLQuantizationType.BF16
            writer.add_tensor(tensor.name, gguf.quants.quantize(values, bf16), raw_dtype=bf16)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    options = parser.parse_args()

    reader = gguf.GGUFReader(options.source)
    architecture = reader.fields["general.architecture"].contents()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    partial = options.out.with_suffix(".partial")
    writer = gguf.GGUFWriter(partial, architecture)
    copy_metadata(reader, writer)
    copy_tensors(reader, writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(options.out)
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
