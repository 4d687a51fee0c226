"""Encoders of the formats that a checkpoint's matrices are stored in; numpy only."""

import numpy as np

FP8_BLOCK = 128
FP8_MAX = 448.0
INT4_GROUP = 32


def to_bf16(values):
    """FP32 to BF16 codes, to nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = bits >> 16
    rounded &= 1
    rounded += bits
    rounded += 0x7FFF
    rounded >>= 16
    return rounded.astype(np.uint16)


def from_bf16(codes):
    return (codes.astype(np.uint32) << 16).view(np.float32)


def to_e4m3(values):
    """FP32 to e4m3 codes, to nearest even, what is too large becomes +-448."""
    size = np.minimum(np.abs(values), np.float32(FP8_MAX))
    bits = size.view(np.uint32)
    normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20).astype(np.int32) - (120 << 3)
    small = np.rint(size * np.float32(512)).astype(np.int32)
    codes = np.where(size < np.float32(2.0**-6), small, normal).astype(np.uint8)
    return codes | (np.signbit(values).astype(np.uint8) << 7)


def fp8_blocks(values):
    """[rows <= 128, K] of FP32: e4m3 codes and one FP32 scale for each 128 columns."""
    rows, columns = values.shape
    blocks = -(-columns // FP8_BLOCK)
    padded = np.zeros((rows, blocks * FP8_BLOCK), np.float32)
    padded[:, :columns] = values
    parts = padded.reshape(rows, blocks, FP8_BLOCK)
    scales = np.abs(parts).max(axis=(0, 2)) / np.float32(FP8_MAX)
    scales[scales == 0] = 1.0
    codes = to_e4m3((parts / scales[None, :, None]).reshape(rows, -1)[:, :columns])
    return codes, scales


def int4_groups(values):
    """[rows, K] of FP32: words of eight codes, lowest first, and BF16 scales of groups of 32; the
    grid is -7..7 and the scale amax / 7."""
    rows, columns = values.shape
    parts = values.reshape(rows, columns // INT4_GROUP, INT4_GROUP)
    scales = to_bf16(np.maximum(np.abs(parts).max(axis=2) / np.float32(7), np.float32(1e-5)))
    codes = np.rint(parts / from_bf16(scales)[:, :, None]).clip(-7, 7).astype(np.int8) + 8
    nibbles = codes.reshape(rows, columns).astype(np.uint8)
    return (nibbles[:, 0::2] | (nibbles[:, 1::2] << 4)).view(np.int32), scales
