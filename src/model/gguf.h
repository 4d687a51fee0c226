// Reads a GGUF file's metadata and tensor table.
//
// Threads: immutable after reading.
// Invariants: counts, string lengths, array sizes, dimension products and offsets have been checked
// against the bytes that are left in the file before anything was allocated for them; no key and no
// tensor twice; the alignment is a power of two; tensors lie one after the other, aligned, without
// overlap or hole.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/byte_source.h"
#include "model/fields.h"
#include "model/tensor.h"

namespace bulkhead::model {

// Whole numbers of any width become int64_t (a u64 beyond its range is refused); arrays of whole
// numbers and booleans become int64_t arrays.
using GgufValue = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>>;

class GgufMetadata final : public Fields {
 public:
  explicit GgufMetadata(std::string file) : Fields(std::move(file)) {}

  FieldValue find(std::string_view key) const override;
  // The array under `key`, null when there is none or it is of another type.
  const std::vector<std::string>* strings(std::string_view key) const;
  const std::vector<int64_t>* integers(std::string_view key) const;

  // Moves the string array under `key` out; empty when there is none.
  std::vector<std::string> take_strings(std::string_view key);
  // False when the key is there already.
  bool insert(std::string key, GgufValue value);
  const std::unordered_map<std::string, GgufValue>& values() const { return values_; }

 private:
  const GgufValue* get(std::string_view key) const;

  std::unordered_map<std::string, GgufValue> values_;
};

struct GgufFile {
  GgufMetadata metadata;
  std::vector<TensorInfo> tensors;  // in the order of their data
  bool has_tensor(std::string_view name) const;
};

// Errors name file, key or tensor, and byte.
base::Result<GgufFile> read_gguf(const ByteSource& source, uint32_t file);

}  // namespace bulkhead::model
