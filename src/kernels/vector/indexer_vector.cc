#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"
#include "kernels/fp8_cache.h"
#include "kernels/kv_layout.h"
#include "kernels/selection.h"
#include "kernels/vector/drivers.h"
#include "kernels/vector/fp8_product.h"

namespace bulkhead::kernels::vector {
namespace {

constexpr int64_t kCutPanels = kKvSplit / kPanelColumns;

bool is_fp8(const SelectArgs& args) { return args.keys.format == CacheFormat::kFp8E4m3; }
int64_t lifted_floats(const SelectArgs& args) {
  return is_fp8(args) ? int64_t{args.heads} * args.keys.head_dim : 0;
}
int64_t expanded_key_bytes(const SelectArgs& args) {
  return is_fp8(args) ? expanded_bytes(packed_pairs(args.keys.head_dim) * 2) : 0;
}

// A worker's memory for one row.
struct Space {
  float* scores;   // [heads][kKvSplit]
  float* totals;   // [kKvSplit]
  float* factors;  // [kKvSplit], of an FP8 cache
  std::byte* expanded;
  float* q;  // lifted, where the cache is FP8
  std::span<Candidate> candidates;

  Space(std::span<std::byte> scratch, const SelectArgs& args) {
    BH_CHECK(scratch.size() >= select_scratch_bytes(args),
             "a worker's scratch is too small for the indexer");
    scores = reinterpret_cast<float*>(scratch.data());
    totals = scores + int64_t{args.heads} * kKvSplit;
    factors = totals + kKvSplit;
    expanded = reinterpret_cast<std::byte*>(factors + kKvSplit);
    q = reinterpret_cast<float*>(expanded + expanded_key_bytes(args));
    candidates = {reinterpret_cast<Candidate*>(q + lifted_floats(args)),
                  static_cast<size_t>(2 * args.top_k + kKvSplit)};
  }
};

// The dot products of all heads (`q`) with the `count` positions from `begin` on.
void multiply_cut(const VectorOps& ops, const SelectArgs& args, const AttentionSlice& slice,
                  const float* q, int32_t begin, int32_t count, const Space& space) {
  const KvLayerView& keys = args.keys;
  std::array<const void*, kCutPanels> runs;
  std::array<const void*, kCutPanels> scales;
  const int64_t panels = packed_panels(count);
  for (int64_t panel = 0; panel < panels; ++panel) {
    const auto position = static_cast<int32_t>(begin + panel * kPanelColumns);
    runs[static_cast<size_t>(panel)] =
        k_base(keys, slice.pages[position / keys.page_tokens], 0) +
        position % keys.page_tokens / kPanelColumns * k_panel_bytes(keys.format, keys.head_dim);
    scales[static_cast<size_t>(panel)] = space.factors + panel * kPanelColumns;
  }
  PanelProduct product{.a = q,
                       .a_stride = keys.head_dim,
                       .rows = args.heads,
                       .runs = runs.data(),
                       .panels = panels,
                       .run_k = packed_pairs(keys.head_dim) * 2,
                       .k_begin = 0,
                       .k_end = keys.head_dim,
                       .c = space.scores,
                       .c_stride = kKvSplit};
  if (!is_fp8(args)) {
    ops.multiply(product);
    return;
  }
  load_powers(keys, slice.pages, 0, begin, count, kFp8Rescale, space.factors);
  // Those beyond `count` share a panel with some that are seen.
  std::fill_n(space.factors + count, panels * kPanelColumns - count, 0.0f);
  product.scales = scales.data();
  multiply_fp8(ops, product, space.expanded);
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
  const float* q = args.q + row * args.q_stride;
  if (is_fp8(args)) {
    ops.scale(q, ops.fp8_lift, space.q, lifted_floats(args));
    q = space.q;
  }
  Selection best(space.candidates, args.top_k);
  for (int32_t begin = 0; begin < visible; begin += kKvSplit) {
    const int32_t count = std::min(kKvSplit, visible - begin);
    multiply_cut(ops, args, slice, q, begin, count, space);
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

size_t select_scratch_bytes(const SelectArgs& args) {
  const auto floats = static_cast<size_t>(args.heads + 2) * static_cast<size_t>(kKvSplit) +
                      static_cast<size_t>(vector::lifted_floats(args));
  return floats * sizeof(float) + static_cast<size_t>(vector::expanded_key_bytes(args)) +
         static_cast<size_t>(2 * args.top_k + kKvSplit) * sizeof(Candidate);
}

}  // namespace bulkhead::kernels
