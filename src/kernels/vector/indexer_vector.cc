#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"
#include "kernels/kv_layout.h"
#include "kernels/selection.h"
#include "kernels/vector/drivers.h"

namespace bulkhead::kernels::vector {
namespace {

constexpr int64_t kCutPanels = kKvSplit / kPanelColumns;

// A worker's memory for one row.
struct Space {
  float* scores;  // [heads][kKvSplit]
  float* totals;  // [kKvSplit]
  std::span<Candidate> candidates;

  Space(std::span<std::byte> scratch, const SelectArgs& args) {
    BH_CHECK(scratch.size() >= select_scratch_bytes(args.heads, args.top_k),
             "a worker's scratch is too small for the indexer");
    scores = reinterpret_cast<float*>(scratch.data());
    totals = scores + int64_t{args.heads} * kKvSplit;
    candidates = {reinterpret_cast<Candidate*>(totals + kKvSplit),
                  static_cast<size_t>(2 * args.top_k + kKvSplit)};
  }
};

// The dot products of all heads with the `count` positions from `begin` on.
void multiply_cut(const VectorOps& ops, const SelectArgs& args, const AttentionSlice& slice,
                  int64_t row, int32_t begin, int32_t count, const Space& space) {
  const KvLayerView& keys = args.keys;
  std::array<const void*, kCutPanels> runs;
  const int64_t panels = packed_panels(count);
  for (int64_t panel = 0; panel < panels; ++panel) {
    const auto position = static_cast<int32_t>(begin + panel * kPanelColumns);
    runs[static_cast<size_t>(panel)] = k_base(keys, slice.pages[position / keys.page_tokens], 0) +
                                       k_offset(keys.head_dim, position % keys.page_tokens, 0);
  }
  ops.multiply({.a = args.q + row * args.q_stride,
                .a_stride = keys.head_dim,
                .rows = args.heads,
                .runs = runs.data(),
                .panels = panels,
                .run_k = packed_pairs(keys.head_dim) * 2,
                .k_begin = 0,
                .k_end = keys.head_dim,
                .c = space.scores,
                .c_stride = kKvSplit});
}

void select_row(const VectorOps& ops, const SelectArgs& args, const AttentionSlice& slice,
                int32_t token, std::span<std::byte> scratch) {
  const int64_t row = slice.first_row + token;
  const int32_t visible = slice.position + token + 1;
  int32_t* selected = args.selected + row * args.top_k;
  if (visible <= args.top_k) {
    std::iota(selected, selected + visible, 0);
    args.counts[row] = visible;
    return;
  }
  const Space space(scratch, args);
  const float* weights = args.weights + row * args.weights_stride;
  Selection best(space.candidates, args.top_k);
  for (int32_t begin = 0; begin < visible; begin += kKvSplit) {
    const int32_t count = std::min(kKvSplit, visible - begin);
    multiply_cut(ops, args, slice, row, begin, count, space);
    std::fill_n(space.totals, count, 0.0f);
    for (int32_t head = 0; head < args.heads; ++head) {
      const float* scores = space.scores + int64_t{head} * kKvSplit;
      const float weight = weights[head];
      for (int32_t i = 0; i < count; ++i) {
        space.totals[i] += weight * (scores[i] > 0.0f ? scores[i] : 0.0f);
      }
    }
    for (int32_t i = 0; i < count; ++i) best.offer(space.totals[i], begin + i);
  }
  args.counts[row] = best.finish(selected);
}

}  // namespace

void select(const VectorOps& ops, const SelectArgs& args, device::ThreadPool& pool) {
  for (int32_t s = 0; s < args.slice_count; ++s) {
    const AttentionSlice& slice = args.slices[s];
    pool.run(static_cast<size_t>(slice.tokens), [&](size_t item, unsigned worker) {
      // From the back: later rows see more.
      const int32_t token = slice.tokens - 1 - static_cast<int32_t>(item);
      select_row(ops, args, slice, token, pool.scratch(worker));
    });
  }
}

}  // namespace bulkhead::kernels::vector

namespace bulkhead::kernels {

size_t select_scratch_bytes(int32_t heads, int32_t top_k) {
  const auto floats = static_cast<size_t>(heads + 1) * static_cast<size_t>(kKvSplit);
  return floats * sizeof(float) + static_cast<size_t>(2 * top_k + kKvSplit) * sizeof(Candidate);
}

}  // namespace bulkhead::kernels
