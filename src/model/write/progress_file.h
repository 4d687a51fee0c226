// What a directory that is being written remembers: which plan it belongs to, and what was measured
// in the files that are finished.
//
// Threads: one run at a time. Invariant: the file on the disk is whole at any moment; a file of
// another plan is told from ours by its digest, and one that cannot be read is an error, never a
// fresh start.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/write/quantise_plan.h"
#include "model/write/tensor_error.h"

namespace bulkhead::model::write {

inline constexpr std::string_view kProgressName = "quantize-progress.json";

struct Progress {
  std::string digest;
  std::string recipe;               // for messages
  std::vector<TensorError> errors;  // of the jobs of all finished files, in their order
  size_t shards = 0;                // that are finished, from the first on
};

// Nothing where the directory has no such file.
base::Result<std::optional<Progress>> read_progress(const std::filesystem::path& directory);
base::Status write_progress(const std::filesystem::path& directory, const Progress& progress);

}  // namespace bulkhead::model::write
