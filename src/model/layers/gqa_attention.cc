// Grouped-query attention: Llama, Qwen, GLM-4.
#include <cmath>

#include "model/layers/attention.h"
#include "model/layers/residual.h"

namespace bulkhead::model {
namespace {

class GqaAttention final : public Attention {
 public:
  GqaAttention(const ModelConfig& config, const ModelWeights& weights, const Machine& machine)
      : config_(config),
        weights_(weights),
        machine_(machine),
        softmax_scale_(1.0f / std::sqrt(static_cast<float>(config.head_dim))) {}

  void place(ArenaCursor& memory, int64_t rows_max) override {
    qkv_ = memory.take<float>(rows_max * config_.qkv_width());
    out_ = memory.take<float>(rows_max * config_.q_width());
  }

  void run(int32_t layer, const Step& step, const kv::CacheView& cache, const float* normed,
           float* residual) override {
    const GqaWeights& weights = weights_.layers[static_cast<size_t>(layer)].gqa;
    project(weights, step, normed);
    attend(step, cache.layer(layer));
    if (weights.o_bias != nullptr) {
      add_bias(machine_.pool, step.rows, config_.hidden, weights.o_bias, residual);
    }
    machine_.multiply({.a = out_,
                       .a_stride = config_.q_width(),
                       .rows = step.rows,
                       .w = weights.o,
                       .c = residual,
                       .c_stride = config_.hidden,
                       .accumulate = true});
  }

 private:
  float* k() const { return qkv_ + config_.q_width(); }
  float* v() const { return k() + config_.kv_width(); }

  // q, k and v of every row, normed and rotated.
  void project(const GqaWeights& weights, const Step& step, const float* normed) {
    const int64_t width = config_.qkv_width();
    machine_.multiply({.a = normed,
                       .a_stride = config_.hidden,
                       .rows = step.rows,
                       .w = weights.qkv,
                       .bias = weights.qkv_bias,
                       .c = qkv_,
                       .c_stride = width});
    if (weights.q_norm != nullptr) {
      normalise_heads(step, qkv_, config_.heads, weights.q_norm);
      normalise_heads(step, k(), config_.kv_heads, weights.k_norm);
    }
    // K heads follow the Q heads: one call rotates both.
    machine_.kernels.rope({.x = qkv_,
                           .x_stride = width,
                           .rows = step.rows,
                           .heads = config_.heads + config_.kv_heads,
                           .head_dim = config_.head_dim,
                           .half = config_.rotary_dim / 2,
                           .cos = step.cos,
                           .sin = step.sin},
                          machine_.pool);
  }

  // RMSNorm of every head of every row in place. A call covers one head of all rows or all heads of
  // one row, whichever makes fewer calls; the bits are the same.
  void normalise_heads(const Step& step, float* heads_begin, int32_t heads, const float* weight) {
    const int64_t width = config_.qkv_width();
    const int64_t dim = config_.head_dim;
    const bool by_row = step.rows <= heads;
    const int64_t calls = by_row ? step.rows : heads;
    for (int64_t i = 0; i < calls; ++i) {
      float* x = heads_begin + i * (by_row ? width : dim);
      const int64_t stride = by_row ? dim : width;
      machine_.kernels.rms_norm({.x = x,
                                 .x_stride = stride,
                                 .out = x,
                                 .out_stride = stride,
                                 .rows = by_row ? heads : step.rows,
                                 .width = dim,
                                 .weight = weight,
                                 .eps = config_.rms_eps},
                                machine_.pool);
    }
  }

  void attend(const Step& step, const kernels::KvLayerView& kv) {
    machine_.kernels.kv_write({.kv = kv,
                               .slices = step.slices,
                               .slice_count = step.slice_count,
                               .k = k(),
                               .k_stride = config_.qkv_width(),
                               .v = v(),
                               .v_stride = config_.qkv_width()},
                              machine_.pool);
    machine_.kernels.attention({.kv = kv,
                                .slices = step.slices,
                                .slice_count = step.slice_count,
                                .q = qkv_,
                                .q_stride = config_.qkv_width(),
                                .out = out_,
                                .out_stride = config_.q_width(),
                                .q_heads = config_.heads,
                                .scale = softmax_scale_},
                               machine_.pool);
  }

  const ModelConfig& config_;
  const ModelWeights& weights_;
  const Machine& machine_;
  const float softmax_scale_;
  float* qkv_ = nullptr;  // [rows][qkv_width]: q heads, k heads, v heads
  float* out_ = nullptr;  // [rows][q_width]
};

}  // namespace

std::unique_ptr<Attention> make_gqa_attention(const ModelConfig& config,
                                              const ModelWeights& weights, const Machine& machine) {
  return std::make_unique<GqaAttention>(config, weights, machine);
}

}  // namespace bulkhead::model
