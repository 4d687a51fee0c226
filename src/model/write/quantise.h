// Writes a checkpoint anew in a recipe: a directory that this and other programs load.
//
// Threads: quantise() runs on the caller's thread and uses `pool` meanwhile; `progress` is called
// on the caller's thread. Invariants: the same source, recipe and rule give the same bytes, however
// many threads there are and however often the run was interrupted. Memory is bounded by rows, not
// by tensors (tensor_writer.h). A file has its name only when it is whole; config.json is written
// last, so that a half-written directory is no checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/thread_pool.h"
#include "model/checkpoint.h"
#include "model/write/quantise_plan.h"
#include "model/write/tensor_error.h"

namespace bulkhead::model::write {

struct QuantiseProgress {
  uint64_t bytes_done = 0;  // of what is written
  uint64_t bytes_total = 0;
  uint64_t bytes_found = 0;  // of bytes_done, those that an earlier run had written
  size_t tensors_done = 0;
  size_t tensors_total = 0;
};
// Called after every tensor. False ends the run: what is finished stays for the next one.
using ProgressCallback = std::function<bool(const QuantiseProgress&)>;

// A file that is written beside the weights.
struct SideFile {
  std::string name;
  std::string bytes;
};

// What a checkpoint has besides weights.
struct SideFiles {
  std::string config;  // the source's config.json, or what stands for it
  std::vector<SideFile> files;
};

// `errors` of the jobs of the plan, in their order.
base::Result<std::vector<TensorError>> quantise(const Checkpoint& checkpoint, const WritePlan& plan,
                                                const SideFiles& side,
                                                const std::filesystem::path& directory,
                                                device::ThreadPool& pool,
                                                const ProgressCallback& progress);

// Whether `directory` is free for the plan, or holds a part of it: how many bytes are to be
// written still. Errors name what is in the way and the cure. Nothing is changed.
base::Result<uint64_t> bytes_left(const WritePlan& plan, const std::filesystem::path& directory);

}  // namespace bulkhead::model::write
