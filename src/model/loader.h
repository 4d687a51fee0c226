// Turns an opened checkpoint into a running decoder: checks that expected and present tensors match
// one to one, then converts, packs and places each weight once.
//
// Threads: load_decoder runs on the caller's thread and uses `pool` meanwhile; the progress
// callback is called on the caller's thread. Invariants: nothing is allocated for weights before
// every tensor's name, shape and type has been matched; beyond the arena, loading holds a bounded
// buffer per worker (under 1 MiB each for usual widths; 128 rows of a matrix that is quantised to
// FP8), so that peak memory stays under 1.15 times the packed weights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "device/thread_pool.h"
#include "kernels/kernel_set.h"
#include "model/checkpoint.h"
#include "model/decoder.h"
#include "model/weight_recipe.h"

namespace bulkhead::model {

struct LoadProgress {
  uint64_t bytes_done = 0;  // of the tensors in the files
  uint64_t bytes_total = 0;
  uint32_t tensors_done = 0;
  uint32_t tensors_total = 0;
};
// Called after every tensor; may be empty.
using ProgressFn = std::function<void(const LoadProgress&)>;

// The weights that a decoder will hold. A recipe that is absent means: as stored. Each matrix stays
// in the format of its tensors where kernels multiply with that (formats/codes.h) and the tensors
// of one matrix share it, else it is BF16.
struct WeightFacts {
  uint64_t bytes = 0;
  std::string format;  // ModelFacts::weight_format
  // Matrices' tensors, of all that a recipe is about: codes and scales taken over (of kv_b_proj, by
  // its half that makes values); ...
  uint32_t carried = 0;
  // ... quantised from values that were quantised before, as `type_text` says of the first one.
  uint32_t requantised = 0;
  std::string requantised_from = {};
  bool has_int4 = false;  // a matrix of them that is multiplied is in INT4
};

// Without loading them.
base::Result<WeightFacts> weight_facts(const Checkpoint& checkpoint,
                                       const std::optional<WeightRecipe>& recipe);
// Its `bytes`.
base::Result<uint64_t> weight_bytes(const Checkpoint& checkpoint,
                                    const std::optional<WeightRecipe>& recipe);

// What a decoder is asked to be.
struct LoadOptions {
  std::optional<WeightRecipe> weights = {};
  // In bytes they need INT4 weights (kernels/gemm.h); matrices in other formats keep FP32.
  kernels::Activations activations = kernels::Activations::kFp32;
};

// Whether such activations have weights to meet. Errors: kInvalidArgument, naming the options
// "weights" and "activations" with what stands before them: "--prefill.".
base::Status check_activations(const WeightFacts& weights, kernels::Activations activations,
                               const std::string& prefix);

// `kernels` is copied; `pool` must outlive the decoder, which runs its steps on it.
base::Result<std::unique_ptr<Decoder>> load_decoder(const Checkpoint& checkpoint,
                                                    const LoadOptions& options,
                                                    const kernels::KernelSet& kernels,
                                                    device::ThreadPool& pool, StepLimits limits,
                                                    const ProgressFn& progress);

}  // namespace bulkhead::model
