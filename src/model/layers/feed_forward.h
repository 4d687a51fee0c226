// The feed-forward half of a layer: one gated network, or the experts that each row chose.
//
// Threads: the step thread. Invariants: run() allocates nothing; a row's sum takes its experts in
// ascending order and the shared one last, whatever other rows chose.
#pragma once

#include "model/arena.h"
#include "model/layers/step.h"
#include "model/model_config.h"
#include "model/model_weights.h"

namespace bulkhead::model {

class FeedForward {
 public:
  // All arguments outlive this.
  FeedForward(const ModelConfig& config, const ModelWeights& weights, const Machine& machine);

  // Takes its buffers for `rows_max` rows; called twice, to measure and to place.
  void place(ArenaCursor& memory, int64_t rows_max);
  // residual += network(normed). Both are [step.rows][hidden].
  void run(int32_t layer, const Step& step, const float* normed, float* residual);

 private:
  void run_gated(const float* x, int64_t rows, const MlpWeights& weights, const float* bias,
                 float* out, bool accumulate);
  void activate(int64_t rows, int64_t inner);
  void run_experts(const MoeWeights& moe, int64_t rows, const float* normed, float* residual);
  void route(const MoeWeights& moe, int64_t rows, const float* normed);
  void group_rows(int64_t rows);
  void gather(int64_t rows, const float* normed);
  void multiply_experts(const MoeWeights& moe, int64_t entries);
  void sum_experts(int64_t rows);

  const ModelConfig& config_;
  const ModelWeights& weights_;
  const Machine& machine_;
  float* gate_up_ = nullptr;  // [rows][twice the widest network], or [entries][2 * expert's width]
  // Of experts. An entry is a row and one of its experts; entries lie expert by expert, rows
  // ascending, [rows * per_token].
  int32_t* ids_ = nullptr;                 // [rows][per_token], ascending
  float* expert_weights_ = nullptr;        // [rows][per_token]
  int32_t* places_ = nullptr;              // [rows][per_token]: the entry that each is
  int32_t* begins_ = nullptr;              // [experts + 1]: where an expert's entries begin
  float* in_ = nullptr;                    // [entries][hidden]
  float* out_ = nullptr;                   // [entries][hidden]
  float* sum_ = nullptr;                   // [rows][hidden]
  kernels::GemmArgs* products_ = nullptr;  // [experts]
};

}  // namespace bulkhead::model
