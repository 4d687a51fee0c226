// The forward pass of a dense model with grouped-query attention: Llama, Qwen2, Qwen3 and alike.
//
// Threads: as Decoder. Invariants: as Decoder; every buffer is sized at construction.
#pragma once

#include <memory>

#include "base/result.h"
#include "device/buffer.h"
#include "device/thread_pool.h"
#include "kernels/kernel_set.h"
#include "model/decoder.h"
#include "model/dense_config.h"
#include "model/dense_weights.h"

namespace bulkhead::model {

class DenseDecoder final : public Decoder {
 public:
  // Errors: kResourceExhausted when the step buffers do not fit.
  static base::Result<std::unique_ptr<Decoder>> create(ModelFacts facts, DenseConfig config,
                                                       DenseWeights weights,
                                                       const kernels::KernelSet& kernels,
                                                       device::ThreadPool& pool, StepLimits limits);

  const ModelFacts& facts() const override { return facts_; }
  const StepLimits& limits() const override { return limits_; }
  void forward(std::span<const SequenceSlice> slices, const kv::CacheView& cache,
               std::span<float> logits) override;

 private:
  // Parts of step_memory_; [rows_max][width] unless said otherwise.
  struct StepBuffers {
    float* residual;   // width hidden
    float* normed;     // width hidden
    float* qkv;        // width qkv_width: q heads, k heads, v heads
    float* attention;  // width q_width
    float* gate_up;    // width twice the widest feed-forward network
    float* cos;        // width rotary_dim / 2
    float* sin;
    // Of sparse layers; absent without.
    float* expert_in;                 // width hidden: the rows of one expert
    float* expert_out;                // width hidden
    float* expert_sum;                // width hidden: what the experts give each row
    int32_t* expert_ids;              // width experts per token
    float* expert_weights;            // width experts per token
    int32_t* expert_rows;             // width experts per token: rows, expert by expert
    float* row_weights;               // the weight of each entry of expert_rows
    int32_t* expert_begins;           // [experts + 1]: where an expert's rows begin
    float* head_rows;                 // [logits_rows_max][hidden]
    TokenId* tokens;                  // [rows_max]
    int32_t* positions;               // [rows_max]
    int32_t* logits_rows;             // [logits_rows_max]: the rows that want logits
    kernels::AttentionSlice* slices;  // [slices_max]
  };

  DenseDecoder(ModelFacts facts, DenseConfig config, DenseWeights weights,
               const kernels::KernelSet& kernels, device::ThreadPool& pool, StepLimits limits,
               device::Buffer step_memory);
  static size_t place_buffers(const DenseConfig& config, const StepLimits& limits, std::byte* base,
                              StepBuffers* out);

  void begin_step(std::span<const SequenceSlice> slices, const kv::CacheView& cache);
  void check_slice(const SequenceSlice& slice, const kv::CacheView& cache) const;
  void embed();
  void compute_rotations();
  void attention_block(const LayerWeights& layer, const kernels::KvLayerView& kv);
  void normalise_heads(float* heads_begin, int32_t heads, const float* weight);
  void mlp_block(const LayerWeights& layer);
  // out (+)= down(silu(gate x) * up x) for `rows` rows of width hidden.
  void gated_mlp(const float* x, int64_t rows, const MlpWeights& weights, const float* bias,
                 float* out, bool accumulate);
  void moe_block(const MoeWeights& moe);
  void group_rows_by_expert();
  void run_expert(const MlpWeights& weights, int32_t expert);
  void norm(const float* x, int64_t rows, const float* weight, float* out);
  void add_bias(const float* bias);
  void head(std::span<float> logits);

  const ModelFacts facts_;
  const DenseConfig config_;
  const DenseWeights weights_;
  const kernels::KernelSet kernels_;
  device::ThreadPool& pool_;
  const StepLimits limits_;
  const float softmax_scale_;
  device::Buffer step_memory_;
  StepBuffers buffers_{};
  // Of the step that runs.
  int64_t rows_ = 0;
  int32_t slice_count_ = 0;
  int32_t logits_row_count_ = 0;
};

}  // namespace bulkhead::model
