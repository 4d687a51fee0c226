// What a server will use, derived from the model, the machine and the operator's wishes before any
// weight is loaded: the numbers of the start-up banner, each with its reason.
//
// Threads: pure functions. Invariants: a plan that was returned fits the machine by its own sums;
// every pool holds context_tokens, so that one longest request always fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "device/cpu.h"
#include "kv/layout.h"
#include "model/checkpoint.h"
#include "model/loader.h"
#include "serve/options.h"

namespace bulkhead::serve {

struct PoolPlan {
  model::LoadOptions load_options() const { return {weights, activations}; }
  // "kimi", or "kimi x int8".
  std::string products() const { return model::products_text(weight_format, activations); }

  std::optional<model::WeightRecipe> weights;  // nothing: as stored
  std::string weight_format;                   // "kimi"
  std::string weights_text;                    // "kimi (as stored)"
  uint64_t weight_bytes = 0;                   // as packed in memory
  kernels::Activations activations = kernels::Activations::kFp32;
  kv::PageLayout layout;
  int32_t pages = 0;
  int32_t cache_tokens = 0;  // pages * page_tokens
  uint64_t cache_bytes = 0;
  std::string cache_reason;
  kv::integrity::Mode integrity = kv::integrity::Mode::kOff;
};

// Its own PoolPlan is the pool that prefill and decode share, or decode's in the split placement.
struct Plan : PoolPlan {
  std::optional<PoolPlan> prefill;  // in the split placement
  // Of that: prefill runs on decode's weights, for recipes and activations of both are one.
  bool weights_shared = true;
  device::Isa isa = device::Isa::kRef;
  std::string isa_reason;
  unsigned threads = 1;
  int32_t context_tokens = 0;
  std::string context_reason;
  uint32_t running_max = 0;
  uint32_t queued_max = 0;
  int32_t prefill_chunk_tokens = 0;
  bool prefix_cache = true;
  int32_t scrub_pages = 0;
  bool inject_faults = false;
  double full_context_requests = 0;  // cache_tokens / context_tokens
};

// Errors: kInvalidArgument or kResourceExhausted naming the option and the value that would work.
// `prefill_weights` are of the split placement; the same as decode's: they are there once.
base::Result<Plan> make_plan(const ModelOptions& options, const model::ModelConfig& config,
                             const model::WeightFacts& weights, const device::CpuFacts& cpu,
                             const std::optional<model::WeightFacts>& prefill_weights = {});
base::Result<Plan> make_plan(const ModelOptions& options, const model::Checkpoint& checkpoint,
                             const device::CpuFacts& cpu);

}  // namespace bulkhead::serve
