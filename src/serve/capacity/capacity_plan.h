// A model planned into two pools before anybody buys memory for it: what each holds and costs, and
// the decode pool beside itself in another precision.
//
// Threads: pure functions but for load_planned_model(), which opens files.
// Invariants: a pool that does not fit says why and what would help (`problem`), and its figures on
// tokens are 0; every figure is derived but for those that PlannedModel and CapacityOptions carry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/layout.h"
#include "model/model_config.h"
#include "model/weight_recipe.h"
#include "model/weight_sizes.h"
#include "serve/capacity/capacity.h"

namespace bulkhead::serve {

struct PoolWish {
  std::string weights = "auto";  // a recipe, or "auto": as the checkpoint stores them
  std::string kv = "auto";       // "bf16", which is "auto", or "fp8_e4m3"
  double tokens_per_second = 0;  // of all ranks together, measured by whoever asks; 0: not known
};

struct CapacityOptions {
  uint64_t memory_bytes = 0;     // of one rank
  bool machines_memory = false;  // memory_bytes is what this machine has; nobody gave it
  double memory_share = kMemoryShare;
  int32_t ranks = 1;  // of each pool
  int32_t page_tokens = 64;
  int64_t context_tokens = 0;  // prompt of one request; 0: what the model's context leaves
  int64_t output_tokens = 0;   // of its answer
  double price = 0;            // of a rank and hour; 0: not known
  PoolWish prefill;
  PoolWish decode;
  PoolWish against = {"", "", 0};  // what the decode pool is held against; empty: as prefill
};

struct WeightPlan {
  model::WeightRecipe recipe;
  model::WeightSizes stored;  // in a checkpoint
  model::WeightSizes packed;  // in memory
  uint64_t checkpoint_bytes = 0;
  bool from_files = false;  // checkpoint_bytes are what the tensors of the files take
};

// A checkpoint, or a configuration alone.
struct PlannedModel {
  std::string name;
  model::ModelConfig config;
  model::WeightRecipe stored;            // what "auto" is
  std::string stored_reason;             // "config.json: fp8"
  std::optional<uint64_t> tensor_bytes;  // of the files, where there are any
};
// A directory with safetensors, a GGUF file, a directory with config.json alone, or a .json file.
base::Result<PlannedModel> load_planned_model(const std::string& path);

struct PoolCapacity {
  std::string name;  // "prefill", "decode", "against"
  WeightPlan weights;
  std::string weights_source;       // "given", "as stored", "as prefill"
  std::string kv_source;            // "given", "default", "as prefill"
  uint64_t checkpoint_on_rank = 0;  // an even share
  uint64_t weights_on_rank = 0;     // in memory: its part, and whole what is not divided
  kv::PageLayout layout;            // of one rank
  std::string sharing;
  uint64_t cache_budget = 0;  // bytes of a rank that are left for pages
  CacheRoom room;
  int64_t requests = 0;         // of context + output tokens at once
  uint64_t transfer_bytes = 0;  // pages of one prompt, as this pool keeps them, one copy
  double tokens_per_second = 0;
  double cost = 0;      // of a million tokens; 0: price or rate are not known
  std::string problem;  // why nothing fits, and the cure; empty: it fits
};

struct CapacityPlan {
  PlannedModel model;
  CapacityOptions options;      // with what was left open filled in
  bool models_context = false;  // options.context_tokens are what the model's context leaves
  PoolCapacity prefill;
  PoolCapacity decode;
  std::optional<PoolCapacity> against;  // none: no other precision was named
};

// Errors name the option, the limit and the cure.
base::Result<CapacityPlan> plan_capacity(PlannedModel model, const CapacityOptions& options);

std::string capacity_text(const CapacityPlan& plan);
std::string capacity_json(const CapacityPlan& plan);

}  // namespace bulkhead::serve
