// The exact set of tensors a dense model consists of, by role, in the names of either file format.
//
// Threads: pure functions.
// Invariant: the set is a function of ModelConfig alone; a checkpoint matches when each expected
// tensor is there with its shape and a loadable type and no other tensor is, save those ignored by
// a stated rule.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/checkpoint.h"

namespace bulkhead::model {

enum class WeightRole {
  kEmbedding,      // [vocabulary, hidden]
  kHead,           // [vocabulary, hidden]
  kFinalNorm,      // [hidden]
  kRopeFactors,    // [head_dim / 2]
  kAttentionNorm,  // [hidden], and so on per layer
  kQ,
  kK,
  kV,
  kO,
  kQBias,
  kKBias,
  kVBias,
  kOBias,
  kQNorm,
  kKNorm,  // [head_dim]
  kMlpNorm,
  kGate,
  kUp,
  kDown,
  kGateBias,
  kUpBias,
  kDownBias,
  // Of latent attention. Queries that skip the vector of their own are kQ.
  kQDown,      // [q_rank, hidden]
  kQDownNorm,  // [q_rank]
  kQUp,        // [heads * (nope + rope), q_rank]
  kKvDown,     // [latent + rope, hidden]
  kKvNorm,     // [latent]
  kKvUp,       // [heads * (nope + value), latent]
  // Of the indexer.
  kIndexQ,          // [heads * head_dim, q_rank]
  kIndexK,          // [head_dim, hidden]
  kIndexKNorm,      // [head_dim]
  kIndexKNormBias,  // [head_dim]
  kIndexWeights,    // [heads, hidden]
  kRouter,          // [experts, hidden]
  kSelectionBias,   // [experts]
  kExpertGate,      // [expert's intermediate, hidden], and so on per expert
  kExpertUp,
  kExpertDown,
  kSharedGate,  // [shared width, hidden]
  kSharedUp,
  kSharedDown,
};

struct ExpectedTensor {
  WeightRole role;
  int32_t layer = -1;   // -1: not of a layer
  int32_t expert = -1;  // -1: not of an expert
  std::string name;
  int64_t rows = 0;
  int64_t columns = 0;  // 0: a vector of `rows` elements
};

// All of them, layer by layer, embedding and head (tied or not) included.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config, CheckpointFormat format);

// An expected tensor and the one in the file that fills it.
struct MatchedTensor {
  ExpectedTensor expected;
  const TensorInfo* source;
};

struct TensorMatch {
  std::vector<MatchedTensor> tensors;  // a tied head has no entry
  bool tied = false;
  uint64_t parameters = 0;  // each counted once
};

// Errors name the file and tensor: missing, of another shape, of a type that cannot be loaded, or
// belonging to nothing the configuration knows. A declared tie with two tensors reads both, to see
// whether they are equal.
base::Result<TensorMatch> match_tensors(const Checkpoint& checkpoint);

}  // namespace bulkhead::model
