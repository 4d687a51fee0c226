#include "model/layers/indexer.h"

#include <algorithm>

#include "kernels/layer_norm.h"

namespace bulkhead::model {
namespace {

constexpr float kNormEps = 1e-6f;  // fixed, whatever the model's own norms use

}  // namespace

Indexer::Indexer(const ModelConfig& config, const ModelWeights& weights, const Machine& machine)
    : config_(config), weights_(weights), machine_(machine) {
  int32_t before = 0;
  for (const uint8_t full : config.indexer.full_layers) {
    places_.push_back(before);
    before += full;
  }
}

void Indexer::place(ArenaCursor& memory, int64_t rows_max) {
  const IndexerConfig& indexer = config_.indexer;
  if (indexer.heads == 0) return;
  q_ = memory.take<float>(rows_max * indexer.heads * indexer.head_dim);
  k_ = memory.take<float>(rows_max * indexer.head_dim);
  head_weights_ = memory.take<float>(rows_max * indexer.heads);
  selected_ = memory.take<int32_t>(rows_max * indexer.top_k);
  counts_ = memory.take<int32_t>(rows_max);
}

void Indexer::rotate(const Step& step, float* x, int32_t heads) {
  machine_.kernels.rope({.x = x,
                         .x_stride = int64_t{heads} * config_.indexer.head_dim,
                         .rows = step.rows,
                         .heads = heads,
                         .head_dim = config_.indexer.head_dim,
                         .half = config_.mla.rope / 2,
                         .cos = step.cos,
                         .sin = step.sin},
                        machine_.pool);
}

void Indexer::project(const IndexerWeights& weights, const Step& step, Rows queries,
                      const float* normed) {
  const IndexerConfig& indexer = config_.indexer;
  const auto multiply = [&](Rows x, const kernels::PackedWeights& w, float* out) {
    machine_.multiply(
        {.a = x.x, .a_stride = x.stride, .rows = step.rows, .w = w, .c = out, .c_stride = w.n});
  };
  multiply({normed, config_.hidden}, weights.k, k_);
  kernels::layer_norm({.x = k_,
                       .x_stride = indexer.head_dim,
                       .out = k_,
                       .out_stride = indexer.head_dim,
                       .rows = step.rows,
                       .width = indexer.head_dim,
                       .weight = weights.k_norm,
                       .bias = weights.k_norm_bias,
                       .eps = kNormEps},
                      machine_.pool);
  rotate(step, k_, 1);
  if (!selects_) return;
  multiply(queries, weights.q, q_);
  rotate(step, q_, indexer.heads);
  multiply({normed, config_.hidden}, weights.weights, head_weights_);
}

void Indexer::run(int32_t layer, const Step& step, const kv::CacheView& cache, Rows queries,
                  const float* normed) {
  if (!config_.has_indexer(layer)) return;
  const IndexerConfig& indexer = config_.indexer;
  const std::span slices(step.slices, static_cast<size_t>(step.slice_count));
  selects_ = std::ranges::any_of(slices, [&](const kernels::AttentionSlice& slice) {
    return slice.position + slice.tokens > indexer.top_k;
  });
  project(weights_.layers[static_cast<size_t>(layer)].indexer, step, queries, normed);
  const kernels::KvLayerView keys = cache.index_layer(places_[static_cast<size_t>(layer)]);
  machine_.kernels.kv_write({.kv = keys,
                             .slices = step.slices,
                             .slice_count = step.slice_count,
                             .k = k_,
                             .k_stride = indexer.head_dim},
                            machine_.pool);
  if (!selects_) return;
  machine_.kernels.select({.keys = keys,
                           .slices = step.slices,
                           .slice_count = step.slice_count,
                           .q = q_,
                           .q_stride = int64_t{indexer.heads} * indexer.head_dim,
                           .weights = head_weights_,
                           .weights_stride = indexer.heads,
                           .heads = indexer.heads,
                           .top_k = indexer.top_k,
                           .selected = selected_,
                           .counts = counts_},
                          machine_.pool);
}

}  // namespace bulkhead::model
