#include "model/transformer.h"

#include <cmath>
#include <cstring>

namespace bulkhead::model {

base::Result<std::unique_ptr<Decoder>> Transformer::create(
    ModelFacts facts, ModelConfig config, ModelWeights weights, const kernels::KernelSet& kernels,
    device::ThreadPool& pool, StepLimits limits, kernels::Activations activations) {
  BH_CHECK(limits.rows_max > 0 && limits.logits_rows_max > 0 && limits.slices_max > 0,
           "step limits are positive");
  std::unique_ptr<Transformer> out(new Transformer(std::move(facts), std::move(config),
                                                   std::move(weights), {kernels, pool, activations},
                                                   limits));
  BH_TRY(out->allocate_buffers());
  return std::unique_ptr<Decoder>(std::move(out));
}

Transformer::Transformer(ModelFacts facts, ModelConfig config, ModelWeights weights,
                         const Machine& machine, StepLimits limits)
    : facts_(std::move(facts)),
      config_(std::move(config)),
      weights_(std::move(weights)),
      machine_(machine),
      limits_(limits),
      attention_(config_.is_latent() ? make_mla_attention(config_, weights_, machine_)
                                     : make_gqa_attention(config_, weights_, machine_)),
      feed_forward_(config_, weights_, machine_) {}

void Transformer::place_buffers(ArenaCursor& memory) {
  const int64_t rows = limits_.rows_max;
  buffers_.residual = memory.take<float>(rows * config_.hidden);
  buffers_.normed = memory.take<float>(rows * config_.hidden);
  buffers_.cos = memory.take<float>(rows * config_.rotary_dim / 2);
  buffers_.sin = memory.take<float>(rows * config_.rotary_dim / 2);
  buffers_.head_rows = memory.take<float>(int64_t{limits_.logits_rows_max} * config_.hidden);
  buffers_.tokens = memory.take<TokenId>(rows);
  buffers_.positions = memory.take<int32_t>(rows);
  buffers_.logits_rows = memory.take<int32_t>(limits_.logits_rows_max);
  buffers_.slices = memory.take<kernels::AttentionSlice>(limits_.slices_max);
  attention_->place(memory, rows);
  feed_forward_.place(memory, rows);
}

base::Status Transformer::allocate_buffers() {
  ArenaCursor measure(nullptr);
  place_buffers(measure);
  BH_ASSIGN(step_memory_, device::Buffer::allocate(measure.used()));
  ArenaCursor memory(step_memory_.data());
  place_buffers(memory);
  step_.positions = buffers_.positions;
  step_.slices = buffers_.slices;
  step_.cos = buffers_.cos;
  step_.sin = buffers_.sin;
  return {};
}

void Transformer::forward(std::span<const SequenceSlice> slices, const kv::CacheView& cache,
                          std::span<float> logits) {
  begin_step(slices, cache);
  BH_CHECK(logits.size() ==
               static_cast<size_t>(logits_row_count_) * static_cast<size_t>(config_.vocabulary),
           "one row of logits for every row that wants them");
  embed();
  compute_rotations();
  for (int32_t i = 0; i < config_.layers; ++i) {
    const LayerWeights& layer = weights_.layers[static_cast<size_t>(i)];
    norm(buffers_.residual, step_.rows, layer.attention_norm, buffers_.normed);
    attention_->run(i, step_, cache, buffers_.normed, buffers_.residual);
    norm(buffers_.residual, step_.rows, layer.mlp_norm, buffers_.normed);
    feed_forward_.run(i, step_, buffers_.normed, buffers_.residual);
  }
  head(logits);
}

void Transformer::check_slice(const SequenceSlice& slice, const kv::CacheView& cache) const {
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
void Transformer::begin_step(std::span<const SequenceSlice> slices, const kv::CacheView& cache) {
  BH_CHECK(!slices.empty() && slices.size() <= static_cast<size_t>(limits_.slices_max),
           "one to slices_max slices");
  BH_CHECK(cache.layout == cache_layout(config_, cache.layout.page_tokens, cache.layout.format),
           "the cache is laid out for this model");
  step_.rows = 0;
  step_.slice_count = 0;
  logits_row_count_ = 0;
  for (const SequenceSlice& slice : slices) {
    check_slice(slice, cache);
    const auto count = static_cast<int64_t>(slice.tokens.size());
    BH_CHECK(step_.rows + count <= limits_.rows_max, "at most rows_max rows in a step");
    buffers_.slices[step_.slice_count++] = {step_.rows, static_cast<int32_t>(count), slice.position,
                                            slice.pages.data()};
    for (int64_t i = 0; i < count; ++i) {
      buffers_.tokens[step_.rows + i] = slice.tokens[static_cast<size_t>(i)];
      buffers_.positions[step_.rows + i] = slice.position + static_cast<int32_t>(i);
    }
    const int64_t wanted = slice.logits == LogitsFor::kAll    ? count
                           : slice.logits == LogitsFor::kLast ? 1
                                                              : 0;
    BH_CHECK(logits_row_count_ + wanted <= limits_.logits_rows_max,
             "at most logits_rows_max rows with logits in a step");
    for (int64_t i = count - wanted; i < count; ++i) {
      buffers_.logits_rows[logits_row_count_++] = static_cast<int32_t>(step_.rows + i);
    }
    step_.rows += count;
  }
}

void Transformer::embed() {
  machine_.pool.run(static_cast<size_t>(step_.rows), [&](size_t row, unsigned) {
    kernels::unpack_row(weights_.embedding, buffers_.tokens[row],
                        buffers_.residual + static_cast<int64_t>(row) * config_.hidden);
  });
}

// cos and sin of position * inverse frequency for every row; all layers share them.
void Transformer::compute_rotations() {
  const int64_t half = config_.rotary_dim / 2;
  const auto factor = static_cast<float>(config_.rope.attention_factor);
  machine_.pool.run(static_cast<size_t>(step_.rows), [&](size_t row, unsigned) {
    const int64_t begin = static_cast<int64_t>(row) * half;
    const auto position = static_cast<float>(buffers_.positions[row]);
    for (int64_t i = 0; i < half; ++i) {
      const float angle = position * weights_.inverse_frequencies[static_cast<size_t>(i)];
      buffers_.cos[begin + i] = std::cos(angle) * factor;
      buffers_.sin[begin + i] = std::sin(angle) * factor;
    }
  });
}

void Transformer::norm(const float* x, int64_t rows, const float* weight, float* out) {
  machine_.kernels.rms_norm({.x = x,
                             .x_stride = config_.hidden,
                             .out = out,
                             .out_stride = config_.hidden,
                             .rows = rows,
                             .width = config_.hidden,
                             .weight = weight,
                             .eps = config_.rms_eps},
                            machine_.pool);
}

// Final norm and head, for the rows that want logits only.
void Transformer::head(std::span<float> logits) {
  if (logits_row_count_ == 0) return;
  const int64_t hidden = config_.hidden;
  for (int64_t i = 0; i < logits_row_count_; ++i) {
    std::memcpy(buffers_.head_rows + i * hidden,
                buffers_.residual + buffers_.logits_rows[i] * hidden,
                static_cast<size_t>(hidden) * sizeof(float));
  }
  norm(buffers_.head_rows, logits_row_count_, weights_.final_norm, buffers_.head_rows);
  machine_.multiply({.a = buffers_.head_rows,
                     .a_stride = hidden,
                     .rows = logits_row_count_,
                     .w = weights_.head,
                     .c = logits.data(),
                     .c_stride = config_.vocabulary});
}

}  // namespace bulkhead::model
