// Reads the header of a safetensors file, and the index of a sharded checkpoint.
//
// Threads: pure functions.
// Invariants: what is returned has passed every rule of the format: header length within the file
// and 100 MB, known types, bytes = shape * size without overflow, data covered exactly with no hole
// and no overlap, no name twice. Nothing is allocated in proportion to a number the file merely
// claims.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/byte_source.h"
#include "model/tensor.h"

namespace bulkhead::model {

inline constexpr uint64_t kSafetensorsHeaderMax = 100'000'000;  // bytes, the format's own limit
inline constexpr size_t kTensorsMax = 500'000;                  // in one checkpoint
inline constexpr size_t kShardsMax = 1024;

// Tensors in the order of their data; `file` is stored in each. Errors name file, tensor and byte.
base::Result<std::vector<TensorInfo>> read_safetensors(const ByteSource& source, uint32_t file);

struct ShardIndex {
  std::vector<std::string> files;  // plain names, ascending
  // Tensor name and index into files, ascending by name.
  std::vector<std::pair<std::string, uint32_t>> tensors;
};

// `text` is model.safetensors.index.json, called `name` in messages.
base::Result<ShardIndex> parse_shard_index(std::string_view name, std::string_view text);

// Whether `tensors` of file `file` are exactly those that the index places there.
base::Status check_shard(const ShardIndex& index, std::string_view index_name, uint32_t file,
                         std::span<const TensorInfo> tensors);

}  // namespace bulkhead::model
