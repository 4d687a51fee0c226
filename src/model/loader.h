// Turns an opened checkpoint into a running decoder: checks that expected and present tensors match
// one to one, then converts, packs and places each weight once.
//
// Threads: load_decoder runs on the caller's thread and uses `pool` meanwhile; the progress
// callback is called on the caller's thread. Invariants: nothing is allocated for weights before
// every tensor's name, shape and type has been matched; beyond the arena, loading holds a bounded
// buffer per worker (under 1 MiB each for usual widths), so that peak memory stays under 1.15 times
// the packed weights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "device/thread_pool.h"
#include "kernels/kernel_set.h"
#include "model/checkpoint.h"
#include "model/decoder.h"

namespace bulkhead::model {

struct LoadProgress {
  uint64_t bytes_done = 0;  // of the tensors in the files
  uint64_t bytes_total = 0;
  uint32_t tensors_done = 0;
  uint32_t tensors_total = 0;
};
// Called after every tensor; may be empty.
using ProgressFn = std::function<void(const LoadProgress&)>;

// Bytes the decoder will hold for weights, without loading them.
base::Result<uint64_t> weight_bytes(const Checkpoint& checkpoint);

// `kernels` is copied; `pool` must outlive the decoder, which runs its steps on it.
base::Result<std::unique_ptr<Decoder>> load_decoder(const Checkpoint& checkpoint,
                                                    const kernels::KernelSet& kernels,
                                                    device::ThreadPool& pool, StepLimits limits,
                                                    const ProgressFn& progress);

}  // namespace bulkhead::model
