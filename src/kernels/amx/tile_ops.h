// What the tile driver asks of a tile unit's translation unit: plain numbers in and out.
//
// Threads: pure functions on the caller's memory; each call configures and releases its thread's
// tiles. Two implementations of one source: AMX (amx/ops_amx.cc) and a unit written out in plain
// C++ (amx/ops_emulated.cc), so that packing, tiling and edges are tested on every machine.
#pragma once

#include <cstdint>

namespace bulkhead::kernels {

inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileK = 32;
// Codes of one tile: 16 rows of 32.
inline constexpr int64_t kTileCodes = kTileRows * kTileK;

// c[r][16 p + i] = start + sum over k, tile by tile.
struct TileProduct {
  const uint16_t* a = nullptr;  // [row tile][k tile][16][32], as round_rows wrote it
  int64_t a_k_tiles = 0;        // k tiles from one row tile to the next
  int64_t rows = 0;
  // Panel p starts, with the k tile `w_k_tile`, at w + p * panel_stride.
  const uint16_t* w = nullptr;
  int64_t panel_stride = 0;
  int64_t w_k_tile = 0;
  int64_t panels = 0;
  int64_t columns = 0;  // real columns of all the panels, 16 * panels but for a ragged last one
  int64_t k_tile_begin = 0;
  int64_t k_tile_end = 0;
  const float* start = nullptr;  // null: zero; may be c
  int64_t start_stride = 0;      // 0: one row for all (a bias)
  // Null, or 16 factors for each panel: the sums start from zero, and c = fma(sum, factor, start).
  const float* scales = nullptr;
  int64_t scale_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
};

inline constexpr int64_t kTileRoundFlops = 4 * 16 * 16 * 32 * 2;

struct TileOps {
  // Rounds up to 16 rows of `k` floats to one row tile of ceil(k / 32) k tiles, zero beyond.
  void (*round_rows)(const float* a, int64_t a_stride, int64_t rows, int64_t k, uint16_t* out);
  void (*multiply)(const TileProduct& product);
  // `lines` lines of FP8 codes (fp8_panels.h) as BF16, 2^-56 times what they stand for; as much is
  // asked for from `ahead` on.
  void (*expand_fp8)(const void* codes, int64_t lines, const void* ahead, void* out);
  // `groups` groups of one panel of int4_panels.h (the first one even) as tiles of k-pairs: BF16 of
  // code times scale, to nearest even.
  void (*expand_int4)(const uint8_t* codes, int64_t groups, uint16_t* tiles);
  // For the benches: kTileRoundFlops per round, from registers.
  void (*tile_rounds)(int64_t rounds);
};

extern const TileOps kAmxOps;
extern const TileOps kEmulatedTileOps;

}  // namespace bulkhead::kernels
