// What becomes of every tensor of a checkpoint when it is written in a recipe, and in which file it
// lies: decided before a weight is read.
//
// Threads: plain values; build_plan() is a pure function of its arguments and the checkpoint.
// Invariants: the checkpoint's tensors are those its configuration wants (model_tensors.h). Kinds
// follow the recipe, in the model's own layers and in those for prediction. What is in no recipe,
// other towers and the extras of prediction layers keep their bytes, or become BF16 where they were
// quantised. Codes that already are in the wanted format are copied. A tensor's parts lie in one
// file, one behind the other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/weight_recipe.h"
#include "model/write/safetensors_writer.h"
#include "quant/scale_rule.h"

namespace bulkhead::model::write {

struct QuantiseOptions {
  WeightRecipe recipe;
  quant::ScaleRule rule = quant::ScaleRule::kSearch;
  uint64_t shard_bytes = uint64_t{5} << 30;  // a file's tensors, unless one alone is larger
};

enum class Action : uint8_t {
  kCopy,       // byte for byte
  kWiden,      // to BF16
  kFp8,        // to e4m3 codes and FP32 scales of 128x128 blocks
  kInt4,       // to codes in words and BF16 scales of 32 columns
  kCopyCodes,  // the parts of a weight that has the wanted format already
};
std::string_view to_string(Action action);  // "copied", "to BF16", "to FP8", ...

struct TensorJob {
  const TensorInfo* source = nullptr;
  std::string name;       // of the plain weight, as safetensors call it
  std::string_view kind;  // "routed experts", ..., "prediction layers", "other towers"
  Action action = Action::kCopy;
  kernels::WeightFormat format = kernels::WeightFormat::kBf16;  // what is written
  int64_t interleaved_group = 0;                                // row_source.h
  std::vector<StoredTensor> parts;  // codes, scales, shape; or the tensor
};

// How config.json says what was done.
enum class QuantisationScheme : uint8_t { kNone, kFp8, kPacked, kMixed };

struct ShardPlan {
  std::string file;
  size_t first_job = 0;
  size_t jobs = 0;
  std::vector<StoredTensor> tensors;  // the jobs' parts
  uint64_t bytes = 0;                 // of the whole file
};

struct WritePlan {
  QuantiseOptions options;
  QuantisationScheme scheme = QuantisationScheme::kNone;
  std::vector<TensorJob> jobs;
  std::vector<ShardPlan> shards;
  std::string digest;  // of the options and all that the checkpoint says about its tensors

  uint64_t file_bytes() const;
  uint64_t tensor_bytes() const;
};

// Errors: a checkpoint that does not match its configuration, a recipe that does nothing here or
// cannot be written, by name.
base::Result<WritePlan> build_plan(const Checkpoint& checkpoint, const QuantiseOptions& options);

}  // namespace bulkhead::model::write
