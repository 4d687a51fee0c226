#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/ref/cache_values.h"
#include "kernels/ref/ref.h"

namespace bulkhead::kernels::ref {
namespace {

// One query head of one row.
struct Query {
  const AttentionArgs& args;
  const int32_t* pages;
  const float* q;
  int32_t kv_head;
  const int32_t* selected;  // null: entry i of what it attends to is position i
};

bool is_fp8(const KvLayerView& kv) { return kv.format == CacheFormat::kFp8E4m3; }

int32_t position_of(const Query& query, int32_t entry) {
  return query.selected != nullptr ? query.selected[entry] : entry;
}

// The dot product over dims [begin, end) of a key.
float key_sum(const Query& query, const std::byte* k, int32_t slot, int32_t begin, int32_t end) {
  const KvLayerView& kv = query.args.kv;
  float sum = 0.0f;
  for (int32_t dim = begin; dim < end; ++dim) {
    const float value = code_value(kv.format, k + k_offset(kv, slot, dim));
    sum = std::fma(query.q[dim] * query.args.scale, value, sum);
  }
  return sum;
}

float score(const Query& query, int32_t entry) {
  const KvLayerView& kv = query.args.kv;
  const int32_t position = position_of(query, entry);
  const int32_t page = query.pages[position / kv.page_tokens];
  const int32_t slot = position % kv.page_tokens;
  const std::byte* k = k_base(kv, page, query.kv_head);
  if (!is_fp8(kv)) return key_sum(query, k, slot, 0, kv.head_dim);
  const int32_t first_part = kv.latent_dim > 0 ? kv.latent_dim : kv.head_dim;
  const float first = key_sum(query, k, slot, 0, first_part) * score_factor(kv, page, slot, 0);
  if (first_part == kv.head_dim) return first;
  const float rest = key_sum(query, k, slot, first_part, kv.head_dim);
  return std::fma(rest, score_factor(kv, page, slot, 1), first);
}

// Turns weights into what codes of V are multiplied by.
void scale_weights(const Query& query, int32_t begin, int32_t end, float* weights) {
  const KvLayerView& kv = query.args.kv;
  if (!is_fp8(kv)) return;
  for (int32_t entry = begin; entry < end; ++entry) {
    const int32_t position = position_of(query, entry);
    const int32_t page = query.pages[position / kv.page_tokens];
    weights[entry - begin] *=
        power_of(kv, page, position % kv.page_tokens, kv.latent_dim > 0 ? 0 : 1);
  }
}

float weighted_value(const Query& query, int32_t begin, int32_t end, const float* weights,
                     int32_t dim) {
  const KvLayerView& kv = query.args.kv;
  float sum = 0.0f;
  for (int32_t entry = begin; entry < end; ++entry) {
    const int32_t position = position_of(query, entry);
    const int32_t page = query.pages[position / kv.page_tokens];
    const int32_t slot = position % kv.page_tokens;
    const std::byte* at = kv.latent_dim > 0
                              ? k_base(kv, page, query.kv_head) + k_offset(kv, slot, dim)
                              : v_base(kv, page, query.kv_head) + v_offset(kv, slot, dim);
    sum = std::fma(weights[entry - begin], code_value(kv.format, at), sum);
  }
  return sum;
}

// Softmax over the first `count` entries, cut by cut; `scratch` holds kKvSplit floats.
void attend(const Query& query, int32_t count, float* scratch, float* out) {
  const int32_t dims = query.args.kv.value_dim();
  float running_max = 0.0f;
  float running_sum = 0.0f;
  for (int32_t begin = 0; begin < count; begin += kKvSplit) {
    const int32_t end = std::min(count, begin + kKvSplit);
    float cut_max = -INFINITY;
    for (int32_t entry = begin; entry < end; ++entry) {
      scratch[entry - begin] = score(query, entry);
      cut_max = std::max(cut_max, scratch[entry - begin]);
    }
    float cut_sum = 0.0f;
    for (int32_t i = 0; i < end - begin; ++i) {
      scratch[i] = std::exp(scratch[i] - cut_max);
      cut_sum += scratch[i];
    }
    scale_weights(query, begin, end, scratch);
    const float merged_max = begin == 0 ? cut_max : std::max(running_max, cut_max);
    const float old_weight = begin == 0 ? 0.0f : std::exp(running_max - merged_max);
    const float new_weight = std::exp(cut_max - merged_max);
    for (int32_t dim = 0; dim < dims; ++dim) {
      const float value = weighted_value(query, begin, end, scratch, dim);
      out[dim] = begin == 0 ? value : std::fma(value, new_weight, out[dim] * old_weight);
    }
    running_sum = begin == 0 ? cut_sum : std::fma(cut_sum, new_weight, running_sum * old_weight);
    running_max = merged_max;
  }
  if (is_fp8(query.args.kv)) running_sum *= kFp8SumScale;
  for (int32_t dim = 0; dim < dims; ++dim) out[dim] /= running_sum;
}

}  // namespace

void attention(const AttentionArgs& args, device::ThreadPool& pool) {
  const KvLayerView& kv = args.kv;
  const int32_t group = args.q_heads / kv.kv_heads;
  for (int32_t s = 0; s < args.slice_count; ++s) {
    const AttentionSlice& slice = args.slices[s];
    const size_t items = static_cast<size_t>(slice.tokens) * static_cast<size_t>(args.q_heads);
    pool.run(items, [&](size_t item, unsigned worker) {
      BH_CHECK(pool.scratch(worker).size() >= kKvSplit * sizeof(float), "scratch is too small");
      const auto token = static_cast<int32_t>(item / static_cast<size_t>(args.q_heads));
      const auto head = static_cast<int32_t>(item % static_cast<size_t>(args.q_heads));
      const int64_t row = slice.first_row + token;
      const bool selects = args.selected != nullptr;
      const Query query{args, slice.pages, args.q + row * args.q_stride + head * kv.head_dim,
                        head / group,
                        selects ? args.selected + row * args.selection_stride : nullptr};
      attend(query, selects ? args.selected_counts[row] : slice.position + token + 1,
             reinterpret_cast<float*>(pool.scratch(worker).data()),
             args.out + row * args.out_stride + head * kv.value_dim());
    });
  }
}

}  // namespace bulkhead::kernels::ref
