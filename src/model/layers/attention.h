// The attention half of a layer, whatever kind: reads and writes the cache, adds to the residual.
//
// Threads: the step thread. Invariants: run() allocates nothing; a row depends on its own
// sequence's rows and pages alone.
#pragma once

#include <memory>

#include "kv/layout.h"
#include "model/arena.h"
#include "model/layers/step.h"
#include "model/model_config.h"
#include "model/model_weights.h"

namespace bulkhead::model {

class Attention {
 public:
  virtual ~Attention() = default;
  // Takes its buffers for `rows_max` rows; called twice, to measure and to place.
  virtual void place(ArenaCursor& memory, int64_t rows_max) = 0;
  // residual += attention(normed). Both are [step.rows][hidden].
  virtual void run(int32_t layer, const Step& step, const kv::CacheView& cache, const float* normed,
                   float* residual) = 0;
};

// The kind that `config` describes. All arguments outlive the result.
std::unique_ptr<Attention> make_gqa_attention(const ModelConfig& config,
                                              const ModelWeights& weights, const Machine& machine);
std::unique_ptr<Attention> make_mla_attention(const ModelConfig& config,
                                              const ModelWeights& weights, const Machine& machine);

}  // namespace bulkhead::model
