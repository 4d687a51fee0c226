#include "model/layers/feed_forward.h"

#include <algorithm>
#include <cstring>

#include "kernels/router.h"
#include "model/layers/residual.h"

namespace bulkhead::model {

FeedForward::FeedForward(const ModelConfig& config, const ModelWeights& weights,
                         const Machine& machine)
    : config_(config), weights_(weights), machine_(machine) {}

void FeedForward::place(ArenaCursor& memory, int64_t rows_max) {
  const MoeConfig& moe = config_.moe;
  const int64_t entries = rows_max * moe.per_token;
  const int64_t widest = std::max(int64_t{config_.intermediate}, config_.shared_width());
  gate_up_ = memory.take<float>(2 * std::max(rows_max * widest, entries * moe.intermediate));
  if (moe.experts == 0) return;
  ids_ = memory.take<int32_t>(entries);
  expert_weights_ = memory.take<float>(entries);
  places_ = memory.take<int32_t>(entries);
  begins_ = memory.take<int32_t>(int64_t{moe.experts} + 1);
  in_ = memory.take<float>(entries * config_.hidden);
  out_ = memory.take<float>(entries * config_.hidden);
  sum_ = memory.take<float>(rows_max * config_.hidden);
  products_ = memory.take<kernels::GemmArgs>(moe.experts);
}

void FeedForward::run(int32_t layer, const Step& step, const float* normed, float* residual) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  if (!weights.moe.experts.empty()) {
    run_experts(weights.moe, step.rows, normed, residual);
    return;
  }
  if (weights.down_bias != nullptr) {
    add_bias(machine_.pool, step.rows, config_.hidden, weights.down_bias, residual);
  }
  run_gated(normed, step.rows, weights.mlp, weights.gate_up_bias, residual, true);
}

// out (+)= down(silu(gate x) * up x) for `rows` rows of width hidden.
void FeedForward::run_gated(const float* x, int64_t rows, const MlpWeights& weights,
                            const float* bias, float* out, bool accumulate) {
  const int64_t inner = weights.down.k;
  machine_.multiply({.a = x,
                     .a_stride = config_.hidden,
                     .rows = rows,
                     .w = weights.gate_up,
                     .bias = bias,
                     .c = gate_up_,
                     .c_stride = 2 * inner});
  activate(rows, inner);
  machine_.multiply({.a = gate_up_,
                     .a_stride = 2 * inner,
                     .rows = rows,
                     .w = weights.down,
                     .c = out,
                     .c_stride = config_.hidden,
                     .accumulate = accumulate});
}

// gate_up_ = silu(gate) * up, over the gates of `rows` rows.
void FeedForward::activate(int64_t rows, int64_t inner) {
  machine_.kernels.swiglu({.gate = gate_up_,
                           .up = gate_up_ + inner,
                           .out = gate_up_,
                           .stride = 2 * inner,
                           .out_stride = 2 * inner,
                           .rows = rows,
                           .width = inner},
                          machine_.pool);
}

void FeedForward::run_experts(const MoeWeights& moe, int64_t rows, const float* normed,
                              float* residual) {
  route(moe, rows, normed);
  group_rows(rows);
  gather(rows, normed);
  multiply_experts(moe, rows * config_.moe.per_token);
  sum_experts(rows);
  if (config_.moe.shared > 0) run_gated(normed, rows, moe.shared, nullptr, sum_, true);
  const int64_t hidden = config_.hidden;
  machine_.pool.run(static_cast<size_t>(rows), [&](size_t row, unsigned) {
    const int64_t begin = static_cast<int64_t>(row) * hidden;
    for (int64_t i = begin; i < begin + hidden; ++i) residual[i] += sum_[i];
  });
}

void FeedForward::route(const MoeWeights& moe, int64_t rows, const float* normed) {
  kernels::route({.x = normed,
                  .x_stride = config_.hidden,
                  .rows = rows,
                  .width = config_.hidden,
                  .weight = moe.router,
                  .bias = moe.selection_bias,
                  .experts = config_.moe.experts,
                  .per_token = config_.moe.per_token,
                  .groups = config_.moe.groups,
                  .groups_used = config_.moe.groups_used,
                  .score = config_.moe.score,
                  .normalise = config_.moe.normalise,
                  .scale = static_cast<float>(config_.moe.scale),
                  .ids = ids_,
                  .weights = expert_weights_},
                 machine_.pool);
}

// Turns "the experts of each row" into "the rows of each expert".
void FeedForward::group_rows(int64_t rows) {
  const int64_t entries = rows * config_.moe.per_token;
  const int32_t experts = config_.moe.experts;
  std::fill_n(begins_, experts + 1, 0);
  for (int64_t i = 0; i < entries; ++i) ++begins_[ids_[i] + 1];
  for (int32_t expert = 0; expert < experts; ++expert) begins_[expert + 1] += begins_[expert];
  // begins[e] moves on while expert e is filled, and ends up where expert e + 1 began.
  for (int64_t i = 0; i < entries; ++i) places_[i] = begins_[ids_[i]]++;
  std::move_backward(begins_, begins_ + experts, begins_ + experts + 1);
  begins_[0] = 0;
}

void FeedForward::gather(int64_t rows, const float* normed) {
  const int64_t hidden = config_.hidden;
  const int64_t per_token = config_.moe.per_token;
  machine_.pool.run(static_cast<size_t>(rows), [&](size_t item, unsigned) {
    const auto row = static_cast<int64_t>(item);
    for (int64_t slot = 0; slot < per_token; ++slot) {
      std::memcpy(in_ + places_[row * per_token + slot] * hidden, normed + row * hidden,
                  static_cast<size_t>(hidden) * sizeof(float));
    }
  });
}

// Every expert's network on its entries: two groups of products with one pass of SiLU between.
void FeedForward::multiply_experts(const MoeWeights& moe, int64_t entries) {
  const int64_t hidden = config_.hidden;
  const int64_t inner = config_.moe.intermediate;
  const std::span<kernels::GemmArgs> products(products_, moe.experts.size());
  for (size_t expert = 0; expert < products.size(); ++expert) {
    const int64_t begin = begins_[expert];
    products[expert] = {.a = in_ + begin * hidden,
                        .a_stride = hidden,
                        .rows = begins_[expert + 1] - begin,
                        .w = moe.experts[expert].gate_up,
                        .c = gate_up_ + begin * 2 * inner,
                        .c_stride = 2 * inner};
  }
  machine_.multiply_group(products);
  activate(entries, inner);
  for (size_t expert = 0; expert < products.size(); ++expert) {
    const int64_t begin = begins_[expert];
    products[expert] = {.a = gate_up_ + begin * 2 * inner,
                        .a_stride = 2 * inner,
                        .rows = begins_[expert + 1] - begin,
                        .w = moe.experts[expert].down,
                        .c = out_ + begin * hidden,
                        .c_stride = hidden};
  }
  machine_.multiply_group(products);
}

void FeedForward::sum_experts(int64_t rows) {
  const int64_t hidden = config_.hidden;
  const int64_t per_token = config_.moe.per_token;
  machine_.pool.run(static_cast<size_t>(rows), [&](size_t item, unsigned) {
    const auto row = static_cast<int64_t>(item);
    float* sum = sum_ + row * hidden;
    std::fill_n(sum, hidden, 0.0f);
    for (int64_t i = row * per_token; i < (row + 1) * per_token; ++i) {
      const float weight = expert_weights_[i];
      const float* out = out_ + places_[i] * hidden;
      for (int64_t k = 0; k < hidden; ++k) sum[k] += weight * out[k];
    }
  });
}

}  // namespace bulkhead::model
