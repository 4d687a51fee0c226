"""Writes tests/golden/block_formats.json: raw GGUF blocks and the floats PyPI's gguf reads in them.

Codes are random bytes; scales are finite halves of every size, both zeros, and subnormals.
"""

import json
import pathlib

import gguf
import numpy

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "block_formats.json"
# Byte offsets of the f16 fields in a block.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208], "F16": [0], "BF16": []}
SCALES = numpy.array([0.0, -0.0, 1.0, -1.0, 0.0123, -0.37, 6e-8, -3.1e-5, 65504.0, 0.3333],
                     dtype=numpy.float16)


def main():
    random = numpy.random.default_rng(3)
    cases = []
    for name, halves in HALVES.items():
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = 3 if elements == 256 else 10
        raw = random.integers(0, 256, (blocks, size), dtype=numpy.uint8)
        for i in range(blocks):
            for j, at in enumerate(halves):
                raw[i, at:at + 2] = SCALES[(3 * i + 5 * j + 2) % len(SCALES)].reshape(1).view(
                    numpy.uint8)
        if name == "BF16":
            raw[:, 1] &= 0x3F  # no infinities, no NaN
        values = gguf.dequantize(raw, kind).astype(numpy.float32).reshape(-1)
        assert numpy.isfinite(values).all(), name
        cases.append({"type": name, "blocks": raw.tobytes().hex(),
                      "values": values.astype("<f4").tobytes().hex()})
    OUT.write_text(json.dumps(cases, indent=0))


if __name__ == "__main__":
    main()
