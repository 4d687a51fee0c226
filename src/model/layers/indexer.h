// The indexer of sparse attention: keeps a key per token in the cache and chooses, layer by layer,
// what each row attends to (kernels/indexer.h).
//
// Threads: the step thread. Invariants: run() is called for the layers of a step in order; a layer
// without an indexer of its own keeps the choice of the one before; as long as no row of the step
// sees more than top_k positions nothing is chosen and attention is dense.
#pragma once

#include "kv/layout.h"
#include "model/arena.h"
#include "model/layers/step.h"
#include "model/model_config.h"
#include "model/model_weights.h"

namespace bulkhead::model {

class Indexer {
 public:
  // All arguments outlive this.
  Indexer(const ModelConfig& config, const ModelWeights& weights, const Machine& machine);

  struct Rows {
    const float* x = nullptr;  // [step.rows][stride]
    int64_t stride = 0;
  };

  void place(ArenaCursor& memory, int64_t rows_max);
  // `queries`: the normed low-rank vector that queries are made of.
  void run(int32_t layer, const Step& step, const kv::CacheView& cache, Rows queries,
           const float* normed);

  // The choice of the rows from `row` on; null while attention is dense.
  const int32_t* selected(int64_t row) const {
    return selects_ ? selected_ + row * config_.indexer.top_k : nullptr;
  }
  const int32_t* counts(int64_t row) const { return selects_ ? counts_ + row : nullptr; }

 private:
  void project(const IndexerWeights& weights, const Step& step, Rows queries, const float* normed);
  void rotate(const Step& step, float* x, int32_t heads);

  const ModelConfig& config_;
  const ModelWeights& weights_;
  const Machine& machine_;
  std::vector<int32_t> places_;  // [layers]: how many indexers lie before
  bool selects_ = false;
  float* q_ = nullptr;             // [rows][heads * head_dim]
  float* k_ = nullptr;             // [rows][head_dim]
  float* head_weights_ = nullptr;  // [rows][heads]
  int32_t* selected_ = nullptr;    // [rows][top_k]
  int32_t* counts_ = nullptr;      // [rows]
};

}  // namespace bulkhead::model
