// A model's weights as the forward pass reads them: one arena, every matrix packed in its format,
// norms and biases in FP32.
//
// Threads: load_weights uses `pool` and calls `progress` on the caller's thread; the result
// is immutable. Invariants: q, k and v are one matrix (rows in that order), gate and up are one; Q
// and K rows that RoPE turns are in half-split order whatever the file's was; every value is
// finite.
#pragma once

#include <vector>

#include "base/result.h"
#include "device/buffer.h"
#include "device/thread_pool.h"
#include "kernels/packed_weights.h"
#include "model/checkpoint.h"
#include "model/loader.h"
#include "model/model_tensors.h"
#include "model/weight_formats.h"

namespace bulkhead::model {

// A gated feed-forward network: dense layer, expert or shared expert.
struct MlpWeights {
  kernels::PackedWeights gate_up;  // [2 * intermediate, hidden]
  kernels::PackedWeights down;     // [hidden, intermediate]
};

struct MoeWeights {
  const float* router = nullptr;          // [experts, hidden]
  const float* selection_bias = nullptr;  // [experts] or null
  std::vector<MlpWeights> experts;        // empty: the layer is dense
  MlpWeights shared;                      // empty where there is none
};

struct GqaWeights {
  kernels::PackedWeights qkv;       // [q_width + 2 * kv_width, hidden]
  const float* qkv_bias = nullptr;  // or null, like every bias here
  const float* q_norm = nullptr;    // [head_dim] or null
  const float* k_norm = nullptr;
  kernels::PackedWeights o;  // [hidden, q_width]
  const float* o_bias = nullptr;
};

// Latent attention in its absorbed form: what makes a head's keys out of the latent vector is
// applied to its queries, what makes its values to its outputs.
struct MlaWeights {
  kernels::PackedWeights down;                   // [q_rank + latent + rope, hidden]
  const float* q_norm = nullptr;                 // [q_rank] or null
  const float* kv_norm = nullptr;                // [latent]
  kernels::PackedWeights q_up;                   // [heads * (nope + rope), q_rank or hidden]
  std::vector<kernels::PackedWeights> key_up;    // of each head [latent, nope], always BF16
  std::vector<kernels::PackedWeights> value_up;  // of each head [value, latent]
  kernels::PackedWeights o;                      // [hidden, heads * value]
};

struct IndexerWeights {
  kernels::PackedWeights q;            // [heads * head_dim, q_rank]
  kernels::PackedWeights k;            // [head_dim, hidden]
  const float* k_norm = nullptr;       // [head_dim]
  const float* k_norm_bias = nullptr;  // [head_dim]
  kernels::PackedWeights weights;      // [heads, hidden]
};

struct LayerWeights {
  const float* attention_norm = nullptr;  // [hidden]
  GqaWeights gqa;                         // of one kind of attention
  MlaWeights mla;                         // of the other
  IndexerWeights indexer;                 // of a layer that has one
  const float* mlp_norm = nullptr;        // [hidden]
  MlpWeights mlp;                         // of a dense layer
  const float* gate_up_bias = nullptr;
  const float* down_bias = nullptr;
  MoeWeights moe;  // of a sparse layer
};

struct ModelWeights {
  device::Buffer arena;
  std::vector<LayerWeights> layers;
  kernels::PackedWeights head;             // [vocabulary, hidden]
  kernels::PackedWeights embedding;        // [vocabulary, hidden]; where tied, the head
  const float* final_norm = nullptr;       // [hidden]
  std::vector<float> inverse_frequencies;  // [head_dim / 2]
};

// Bytes of the arena.
uint64_t arena_bytes(const ModelConfig& config, const TensorMatch& match,
                     const WeightFormats& formats);

base::Result<ModelWeights> load_weights(const Checkpoint& checkpoint, const TensorMatch& match,
                                        const WeightFormats& formats, device::ThreadPool& pool,
                                        const ProgressFn& progress);

}  // namespace bulkhead::model
