// The forward pass of a decoder-only model: embedding, layers of attention and feed-forward
// network, output head. What kind of attention and network a layer has is theirs to know.
//
// Threads: as Decoder. Invariants: as Decoder; every buffer is sized at construction.
#pragma once

#include <memory>

#include "base/result.h"
#include "device/buffer.h"
#include "device/thread_pool.h"
#include "kernels/kernel_set.h"
#include "model/decoder.h"
#include "model/layers/attention.h"
#include "model/layers/feed_forward.h"
#include "model/layers/step.h"
#include "model/model_config.h"
#include "model/model_weights.h"

namespace bulkhead::model {

class Transformer final : public Decoder {
 public:
  // Errors: kResourceExhausted when the step buffers do not fit.
  static base::Result<std::unique_ptr<Decoder>> create(ModelFacts facts, ModelConfig config,
                                                       ModelWeights weights,
                                                       const kernels::KernelSet& kernels,
                                                       device::ThreadPool& pool, StepLimits limits,
                                                       kernels::Activations activations);

  const ModelFacts& facts() const override { return facts_; }
  const StepLimits& limits() const override { return limits_; }
  void forward(std::span<const SequenceSlice> slices, const kv::CacheView& cache,
               std::span<float> logits) override;

 private:
  // Parts of step_memory_; [rows_max][width] unless said otherwise.
  struct StepBuffers {
    float* residual = nullptr;  // width hidden
    float* normed = nullptr;    // width hidden
    float* cos = nullptr;       // width rotary_dim / 2
    float* sin = nullptr;
    float* head_rows = nullptr;                 // [logits_rows_max][hidden]
    TokenId* tokens = nullptr;                  // [rows_max]
    int32_t* positions = nullptr;               // [rows_max]
    int32_t* logits_rows = nullptr;             // [logits_rows_max]: the rows that want logits
    kernels::AttentionSlice* slices = nullptr;  // [slices_max]
  };

  Transformer(ModelFacts facts, ModelConfig config, ModelWeights weights, const Machine& machine,
              StepLimits limits);
  void place_buffers(ArenaCursor& memory);
  base::Status allocate_buffers();

  void begin_step(std::span<const SequenceSlice> slices, const kv::CacheView& cache);
  void check_slice(const SequenceSlice& slice, const kv::CacheView& cache) const;
  void embed();
  void compute_rotations();
  void norm(const float* x, int64_t rows, const float* weight, float* out);
  void head(std::span<float> logits);

  const ModelFacts facts_;
  const ModelConfig config_;
  const ModelWeights weights_;
  const Machine machine_;
  const StepLimits limits_;
  const std::unique_ptr<Attention> attention_;
  FeedForward feed_forward_;
  device::Buffer step_memory_;
  StepBuffers buffers_;
  // Of the step that runs.
  Step step_;
  int32_t logits_row_count_ = 0;
};

}  // namespace bulkhead::model
