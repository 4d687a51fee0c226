// Which positions a row attends to, by the lightning indexer of DeepSeek-V3.2 (and GLM-5): a small
// attention score per position, the best ones chosen.
//
//   score(row, t) = sum over heads h, ascending, of weight[row][h] * relu(q[row][h] . k[t])
//
// in FP32, over all t that the row sees. Positive factors that all scores share are left out: they
// change no choice. The top_k best are chosen; of equal scores the earlier
// position goes first, and a score that is NaN is the worst. A row that sees no more than top_k
// positions chooses all of them.
//
// Over an FP8 cache q . k is the sum over codes times the position's power of two (attention.h).
//
// The keys lie in the cache as one kv head whose values are not stored (attention.h): head_dim is
// the indexer's, latent_dim is not looked at.
//
// Bound: each dot product as gemm.h's on vector paths; scores that differ by less than the error of
// both may change places.
//
// Threads: one caller at a time, the one that owns the pool.
// Scratch: select_scratch_bytes() per worker.
#pragma once

#include <cstdint>

#include "kernels/attention.h"

namespace bulkhead::kernels {

struct SelectArgs {
  KvLayerView keys;
  const AttentionSlice* slices = nullptr;
  int32_t slice_count = 0;
  const float* q = nullptr;  // [rows][q_stride]: heads * keys.head_dim values, rotated
  int64_t q_stride = 0;
  const float* weights = nullptr;  // [rows][weights_stride]: heads values
  int64_t weights_stride = 0;
  int32_t heads = 0;
  int32_t top_k = 0;
  int32_t* selected = nullptr;  // [rows][top_k]: positions, ascending
  int32_t* counts = nullptr;    // [rows]: how many of them
};
using SelectFn = void (*)(const SelectArgs& args, device::ThreadPool& pool);

size_t select_scratch_bytes(const SelectArgs& args);

}  // namespace bulkhead::kernels
