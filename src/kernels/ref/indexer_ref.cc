#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "kernels/ref/cache_values.h"
#include "kernels/ref/ref.h"
#include "kernels/selection.h"

namespace bulkhead::kernels::ref {
namespace {

float index_score(const SelectArgs& args, const AttentionSlice& slice, int64_t row,
                  int32_t position) {
  const KvLayerView& keys = args.keys;
  const int32_t page = slice.pages[position / keys.page_tokens];
  const int32_t slot = position % keys.page_tokens;
  const std::byte* k = k_base(keys, page, 0);
  float total = 0.0f;
  for (int32_t head = 0; head < args.heads; ++head) {
    const float* q = args.q + row * args.q_stride + int64_t{head} * keys.head_dim;
    float sum = 0.0f;
    for (int32_t dim = 0; dim < keys.head_dim; ++dim) {
      sum = std::fma(q[dim], code_value(keys.format, k + k_offset(keys, slot, dim)), sum);
    }
    if (keys.format == CacheFormat::kFp8E4m3) sum *= score_factor(keys, page, slot, 0);
    total += args.weights[row * args.weights_stride + head] * (sum > 0.0f ? sum : 0.0f);
  }
  return total;
}

}  // namespace

void select(const SelectArgs& args, device::ThreadPool& pool) {
  for (int32_t s = 0; s < args.slice_count; ++s) {
    const AttentionSlice& slice = args.slices[s];
    pool.run(static_cast<size_t>(slice.tokens), [&](size_t item, unsigned worker) {
      const int64_t row = slice.first_row + static_cast<int64_t>(item);
      const int32_t visible = slice.position + static_cast<int32_t>(item) + 1;
      int32_t* selected = args.selected + row * args.top_k;
      if (visible <= args.top_k) {
        std::iota(selected, selected + visible, 0);
        args.counts[row] = visible;
        return;
      }
      const std::span<std::byte> scratch = pool.scratch(worker);
      Selection best(
          {reinterpret_cast<Candidate*>(scratch.data()), scratch.size() / sizeof(Candidate)},
          args.top_k);
      for (int32_t position = 0; position < visible; ++position) {
        best.offer(index_score(args, slice, row, position), position);
      }
      args.counts[row] = best.finish(selected);
    });
  }
}

}  // namespace bulkhead::kernels::ref
