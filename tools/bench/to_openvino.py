#!/usr/bin/env python3
"""Exports a checkpoint of transformers as OpenVINO's form, by Optimum and NNCF.

    build/peers-venv/bin/python tools/bench/to_openvino.py int4 \
        build/bench/smollm2-hf build/bench/smollm2-openvino-int4

int4 has every matrix in groups of 32, symmetric, with a scale of 16 bits, the embedding and the
head too: as many bytes as Q4_0.
"""

import argparse
import pathlib

import torch
from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig

INT4 = {"bits": 4, "sym": True, "group_size": 32, "ratio": 1.0, "all_layers": True}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("type", choices=("bf16", "int4"))
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    options = parser.parse_args()
    partial = options.out.with_name(options.out.name + ".partial")
    how = ({"quantization_config": OVWeightQuantizationConfig(**INT4)}
           if options.type == "int4" else {"load_in_8bit": False})
    model = OVModelForCausalLM.from_pretrained(options.source, export=True, compile=False,
                                               dtype=torch.bfloat16, **how)
    model.save_pretrained(partial)
    partial.rename(options.out)
    print(f"{options.out}: {(options.out / 'openvino_model.bin').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
