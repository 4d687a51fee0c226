#include "model/dense_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/router.h"

namespace bulkhead::model {

base::Result<std::unique_ptr<Decoder>> DenseDecoder::create(ModelFacts facts, DenseConfig config,
                                                            DenseWeights weights,
                                                            const kernels::KernelSet& kernels,
                                                            device::ThreadPool& pool,
                                                            StepLimits limits) {
  BH_CHECK(limits.rows_max > 0 && limits.logits_rows_max > 0 && limits.slices_max > 0,
           "step limits are positive");
  BH_ASSIGN(device::Buffer memory,
            device::Buffer::allocate(place_buffers(config, limits, nullptr, nullptr)));
  return std::unique_ptr<Decoder>(new DenseDecoder(std::move(facts), std::move(config),
                                                   std::move(weights), kernels, pool, limits,
                                                   std::move(memory)));
}

DenseDecoder::DenseDecoder(ModelFacts facts, DenseConfig config, DenseWeights weights,
                           const kernels::KernelSet& kernels, device::ThreadPool& pool,
                           StepLimits limits, device::Buffer step_memory)
    : facts_(std::move(facts)),
      config_(std::move(config)),
      weights_(std::move(weights)),
      kernels_(kernels),
      pool_(pool),
      limits_(limits),
      softmax_scale_(1.0f / std::sqrt(static_cast<float>(config_.head_dim))),
      step_memory_(std::move(step_memory)) {
  place_buffers(config_, limits_, step_memory_.data(), &buffers_);
}

// Bytes of all step buffers; sets the pointers when `out` is given.
size_t DenseDecoder::place_buffers(const DenseConfig& config, const StepLimits& limits,
                                   std::byte* base, StepBuffers* out) {
  size_t used = 0;
  const auto take = [&]<typename T>(T*& pointer, int64_t rows, int64_t width) {
    constexpr size_t kAlign = 64;
    if (base != nullptr) pointer = reinterpret_cast<T*>(base + used);
    const size_t bytes = static_cast<size_t>(rows) * static_cast<size_t>(width) * sizeof(T);
    used += (bytes + kAlign - 1) / kAlign * kAlign;
  };
  StepBuffers buffers{};
  const int64_t rows = limits.rows_max;
  take(buffers.residual, rows, config.hidden);
  take(buffers.normed, rows, config.hidden);
  take(buffers.qkv, rows, config.qkv_width());
  take(buffers.attention, rows, config.q_width());
  const MoeConfig& moe = config.moe;
  take(buffers.gate_up, rows,
       2 * std::max(
               {int64_t{config.intermediate}, int64_t{moe.intermediate}, config.shared_width()}));
  take(buffers.cos, rows, config.rotary_dim / 2);
  take(buffers.sin, rows, config.rotary_dim / 2);
  if (moe.experts > 0) {
    take(buffers.expert_in, rows, config.hidden);
    take(buffers.expert_out, rows, config.hidden);
    take(buffers.expert_sum, rows, config.hidden);
    take(buffers.expert_ids, rows, moe.per_token);
    take(buffers.expert_weights, rows, moe.per_token);
    take(buffers.expert_rows, rows, moe.per_token);
    take(buffers.row_weights, rows, moe.per_token);
    take(buffers.expert_begins, int64_t{moe.experts} + 1, 1);
  }
  take(buffers.head_rows, limits.logits_rows_max, config.hidden);
  take(buffers.tokens, rows, 1);
  take(buffers.positions, rows, 1);
  take(buffers.logits_rows, limits.logits_rows_max, 1);
  take(buffers.slices, limits.slices_max, 1);
  if (out != nullptr) *out = buffers;
  return used;
}

void DenseDecoder::forward(std::span<const SequenceSlice> slices, const kv::CacheView& cache,
                           std::span<float> logits) {
  begin_step(slices, cache);
  BH_CHECK(logits.size() ==
               static_cast<size_t>(logits_row_count_) * static_cast<size_t>(config_.vocabulary),
           "one row of logits for every row that wants them");
  embed();
  compute_rotations();
  for (int32_t i = 0; i < config_.layers; ++i) {
    const LayerWeights& layer = weights_.layers[static_cast<size_t>(i)];
    attention_block(layer, cache.layer(i));
    mlp_block(layer);
  }
  head(logits);
}

void DenseDecoder::check_slice(const SequenceSlice& slice, const kv::CacheView& cache) const {
  BH_CHECK(!slice.tokens.empty() && slice.position >= 0, "a slice has tokens and a position");
  const size_t page_tokens = static_cast<size_t>(cache.layout.page_tokens);
  const size_t end = static_cast<size_t>(slice.position) + slice.tokens.size();
  BH_CHECK(end <= static_cast<size_t>(config_.context), "a slice stays inside the context");
  BH_CHECK(slice.pages.size() * page_tokens >= end, "a slice's pages cover its positions");
  for (const kv::PageId page : slice.pages) {
    BH_CHECK(page >= 0 && page < cache.pages, "a page of the cache");
  }
  for (const TokenId token : slice.tokens) {
    BH_CHECK(token >= 0 && token < config_.vocabulary, "a token of the vocabulary");
  }
}

// Lays the slices' tokens out as rows and notes which rows want logits.
void DenseDecoder::begin_step(std::span<const SequenceSlice> slices, const kv::CacheView& cache) {
  BH_CHECK(!slices.empty() && slices.size() <= static_cast<size_t>(limits_.slices_max),
           "one to slices_max slices");
  BH_CHECK(cache.layout.layers == config_.layers && cache.layout.kv_heads == config_.kv_heads &&
               cache.layout.head_dim == config_.head_dim,
           "the cache is laid out for this model");
  rows_ = 0;
  slice_count_ = 0;
  logits_row_count_ = 0;
  for (const SequenceSlice& slice : slices) {
    check_slice(slice, cache);
    const auto count = static_cast<int64_t>(slice.tokens.size());
    BH_CHECK(rows_ + count <= limits_.rows_max, "at most rows_max rows in a step");
    buffers_.slices[slice_count_++] = {rows_, static_cast<int32_t>(count), slice.position,
                                       slice.pages.data()};
    for (int64_t i = 0; i < count; ++i) {
      buffers_.tokens[rows_ + i] = slice.tokens[static_cast<size_t>(i)];
      buffers_.positions[rows_ + i] = slice.position + static_cast<int32_t>(i);
    }
    const int64_t wanted = slice.logits == LogitsFor::kAll    ? count
                           : slice.logits == LogitsFor::kLast ? 1
                                                              : 0;
    BH_CHECK(logits_row_count_ + wanted <= limits_.logits_rows_max,
             "at most logits_rows_max rows with logits in a step");
    for (int64_t i = count - wanted; i < count; ++i) {
      buffers_.logits_rows[logits_row_count_++] = static_cast<int32_t>(rows_ + i);
    }
    rows_ += count;
  }
}

void DenseDecoder::embed() {
  const int64_t hidden = config_.hidden;
  pool_.run(static_cast<size_t>(rows_), [&](size_t row, unsigned) {
    float* out = buffers_.residual + static_cast<int64_t>(row) * hidden;
    const int64_t token = buffers_.tokens[row];
    if (weights_.embedding == nullptr) {
      kernels::unpack_row(weights_.head, token, out);
      return;
    }
    const quant::Bf16* source = weights_.embedding + token * hidden;
    std::transform(source, source + hidden, out, quant::bf16_to_float);
  });
}

// cos and sin of position * inverse frequency for every row; all layers share them.
void DenseDecoder::compute_rotations() {
  const int64_t half = config_.rotary_dim / 2;
  const auto factor = static_cast<float>(config_.rope.attention_factor);
  pool_.run(static_cast<size_t>(rows_), [&](size_t row, unsigned) {
    const int64_t begin = static_cast<int64_t>(row) * half;
    const auto position = static_cast<float>(buffers_.positions[row]);
    for (int64_t i = 0; i < half; ++i) {
      const float angle = position * weights_.inverse_frequencies[static_cast<size_t>(i)];
      buffers_.cos[begin + i] = std::cos(angle) * factor;
      buffers_.sin[begin + i] = std::sin(angle) * factor;
    }
  });
}

void DenseDecoder::norm(const float* x, int64_t rows, const float* weight, float* out) {
  kernels_.rms_norm({.x = x,
                     .x_stride = config_.hidden,
                     .out = out,
                     .out_stride = config_.hidden,
                     .rows = rows,
                     .width = config_.hidden,
                     .weight = weight,
                     .eps = config_.rms_eps},
                    pool_);
}

// RMSNorm of every head of every row in place. A call covers one head of all rows or all heads of
// one row, whichever makes fewer calls; the bits are the same.
void DenseDecoder::normalise_heads(float* heads_begin, int32_t heads, const float* weight) {
  const int64_t width = config_.qkv_width();
  const int64_t dim = config_.head_dim;
  const bool by_row = rows_ <= heads;
  const int64_t calls = by_row ? rows_ : heads;
  for (int64_t i = 0; i < calls; ++i) {
    float* x = heads_begin + i * (by_row ? width : dim);
    const int64_t stride = by_row ? dim : width;
    kernels_.rms_norm({.x = x,
                       .x_stride = stride,
                       .out = x,
                       .out_stride = stride,
                       .rows = by_row ? heads : rows_,
                       .width = dim,
                       .weight = weight,
                       .eps = config_.rms_eps},
                      pool_);
  }
}

// Adds a bias to the residual ahead of the product that accumulates into it.
void DenseDecoder::add_bias(const float* bias) {
  const int64_t hidden = config_.hidden;
  pool_.run(static_cast<size_t>(rows_), [&](size_t row, unsigned) {
    float* out = buffers_.residual + static_cast<int64_t>(row) * hidden;
    for (int64_t i = 0; i < hidden; ++i) out[i] += bias[i];
  });
}

void DenseDecoder::attention_block(const LayerWeights& layer, const kernels::KvLayerView& kv) {
  const int64_t width = config_.qkv_width();
  float* q = buffers_.qkv;
  float* k = q + config_.q_width();
  float* v = k + config_.kv_width();
  norm(buffers_.residual, rows_, layer.attention_norm, buffers_.normed);
  kernels_.gemm({.a = buffers_.normed,
                 .a_stride = config_.hidden,
                 .rows = rows_,
                 .w = layer.qkv,
                 .bias = layer.qkv_bias,
                 .c = q,
                 .c_stride = width},
                pool_);
  if (layer.q_norm != nullptr) {
    normalise_heads(q, config_.heads, layer.q_norm);
    normalise_heads(k, config_.kv_heads, layer.k_norm);
  }
  // K heads follow the Q heads: one call rotates both.
  kernels_.rope({.x = q,
                 .x_stride = width,
                 .rows = rows_,
                 .heads = config_.heads + config_.kv_heads,
                 .head_dim = config_.head_dim,
                 .half = config_.rotary_dim / 2,
                 .cos = buffers_.cos,
                 .sin = buffers_.sin},
                pool_);
  kernels_.kv_write({.kv = kv,
                     .slices = buffers_.slices,
                     .slice_count = slice_count_,
                     .k = k,
                     .k_stride = width,
                     .v = v,
                     .v_stride = width},
                    pool_);
  kernels_.attention({.kv = kv,
                      .slices = buffers_.slices,
                      .slice_count = slice_count_,
                      .q = q,
                      .q_stride = width,
                      .out = buffers_.attention,
                      .out_stride = config_.q_width(),
                      .q_heads = config_.heads,
                      .scale = softmax_scale_},
                     pool_);
  if (layer.o_bias != nullptr) add_bias(layer.o_bias);
  kernels_.gemm({.a = buffers_.attention,
                 .a_stride = config_.q_width(),
                 .rows = rows_,
                 .w = layer.o,
                 .c = buffers_.residual,
                 .c_stride = config_.hidden,
                 .accumulate = true},
                pool_);
}

void DenseDecoder::mlp_block(const LayerWeights& layer) {
  norm(buffers_.residual, rows_, layer.mlp_norm, buffers_.normed);
  if (!layer.moe.experts.empty()) return moe_block(layer.moe);
  if (layer.down_bias != nullptr) add_bias(layer.down_bias);
  gated_mlp(buffers_.normed, rows_, layer.mlp, layer.gate_up_bias, buffers_.residual, true);
}

void DenseDecoder::gated_mlp(const float* x, int64_t rows, const MlpWeights& weights,
                             const float* bias, float* out, bool accumulate) {
  const int64_t inner = weights.down.k;
  kernels_.gemm({.a = x,
                 .a_stride = config_.hidden,
                 .rows = rows,
                 .w = weights.gate_up,
                 .bias = bias,
                 .c = buffers_.gate_up,
                 .c_stride = 2 * inner},
                pool_);
  kernels_.swiglu({.gate = buffers_.gate_up,
                   .up = buffers_.gate_up + inner,
                   .out = buffers_.gate_up,
                   .stride = 2 * inner,
                   .out_stride = 2 * inner,
                   .rows = rows,
                   .width = inner},
                  pool_);
  kernels_.gemm({.a = buffers_.gate_up,
                 .a_stride = 2 * inner,
                 .rows = rows,
                 .w = weights.down,
                 .c = out,
                 .c_stride = config_.hidden,
                 .accumulate = accumulate},
                pool_);
}

// Experts one after the other, each on the rows that chose it. A row's sum runs over its experts in
// ascending order and takes the shared expert last, whatever other rows chose.
void DenseDecoder::moe_block(const MoeWeights& moe) {
  const int64_t hidden = config_.hidden;
  kernels::route({.x = buffers_.normed,
                  .x_stride = hidden,
                  .rows = rows_,
                  .width = hidden,
                  .weight = moe.router,
                  .bias = moe.selection_bias,
                  .experts = config_.moe.experts,
                  .per_token = config_.moe.per_token,
                  .groups = config_.moe.groups,
                  .groups_used = config_.moe.groups_used,
                  .score = config_.moe.score,
                  .normalise = config_.moe.normalise,
                  .scale = static_cast<float>(config_.moe.scale),
                  .ids = buffers_.expert_ids,
                  .weights = buffers_.expert_weights},
                 pool_);
  group_rows_by_expert();
  std::fill_n(buffers_.expert_sum, rows_ * hidden, 0.0f);
  for (int32_t expert = 0; expert < config_.moe.experts; ++expert) {
    run_expert(moe.experts[static_cast<size_t>(expert)], expert);
  }
  if (config_.moe.shared > 0) {
    gated_mlp(buffers_.normed, rows_, moe.shared, nullptr, buffers_.expert_sum, true);
  }
  pool_.run(static_cast<size_t>(rows_), [&](size_t row, unsigned) {
    float* out = buffers_.residual + static_cast<int64_t>(row) * hidden;
    const float* sum = buffers_.expert_sum + static_cast<int64_t>(row) * hidden;
    for (int64_t i = 0; i < hidden; ++i) out[i] += sum[i];
  });
}

// Turns "the experts of each row" into "the rows of each expert", rows ascending.
void DenseDecoder::group_rows_by_expert() {
  const int64_t per_token = config_.moe.per_token;
  const int64_t entries = rows_ * per_token;
  int32_t* begins = buffers_.expert_begins;
  std::fill_n(begins, config_.moe.experts + 1, 0);
  for (int64_t i = 0; i < entries; ++i) ++begins[buffers_.expert_ids[i] + 1];
  for (int32_t expert = 0; expert < config_.moe.experts; ++expert) {
    begins[expert + 1] += begins[expert];
  }
  // begins[e] moves on while expert e is filled, and ends up where expert e + 1 began.
  for (int64_t i = 0; i < entries; ++i) {
    const int32_t place = begins[buffers_.expert_ids[i]]++;
    buffers_.expert_rows[place] = static_cast<int32_t>(i / per_token);
    buffers_.row_weights[place] = buffers_.expert_weights[i];
  }
  std::move_backward(begins, begins + config_.moe.experts, begins + config_.moe.experts + 1);
  begins[0] = 0;
}

void DenseDecoder::run_expert(const MlpWeights& weights, int32_t expert) {
  const int64_t hidden = config_.hidden;
  const int32_t begin = buffers_.expert_begins[expert];
  const int32_t rows = buffers_.expert_begins[expert + 1] - begin;
  if (rows == 0) return;
  const int32_t* chosen = buffers_.expert_rows + begin;
  pool_.run(static_cast<size_t>(rows), [&](size_t i, unsigned) {
    std::memcpy(buffers_.expert_in + static_cast<int64_t>(i) * hidden,
                buffers_.normed + chosen[i] * hidden, static_cast<size_t>(hidden) * sizeof(float));
  });
  gated_mlp(buffers_.expert_in, rows, weights, nullptr, buffers_.expert_out, false);
  pool_.run(static_cast<size_t>(rows), [&](size_t i, unsigned) {
    const float weight = buffers_.row_weights[begin + static_cast<int64_t>(i)];
    const float* out = buffers_.expert_out + static_cast<int64_t>(i) * hidden;
    float* sum = buffers_.expert_sum + chosen[i] * hidden;
    for (int64_t k = 0; k < hidden; ++k) sum[k] += weight * out[k];
  });
}

// Final norm and head, for the rows that want logits only.
void DenseDecoder::head(std::span<float> logits) {
  if (logits_row_count_ == 0) return;
  const int64_t hidden = config_.hidden;
  for (int64_t i = 0; i < logits_row_count_; ++i) {
    std::memcpy(buffers_.head_rows + i * hidden,
                buffers_.residual + buffers_.logits_rows[i] * hidden,
                static_cast<size_t>(hidden) * sizeof(float));
  }
  norm(buffers_.head_rows, logits_row_count_, weights_.final_norm, buffers_.head_rows);
  kernels_.gemm({.a = buffers_.head_rows,
                 .a_stride = hidden,
                 .rows = logits_row_count_,
                 .w = weights_.head,
                 .c = logits.data(),
                 .c_stride = config_.vocabulary},
                pool_);
}

}  // namespace bulkhead::model
