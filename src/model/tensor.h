// A tensor as it lies in a checkpoint file, and the element types files use.
//
// Threads: plain values.
// Invariant: a TensorInfo that leaves a reader has passed every check: its bytes lie inside its
// file, overlap no other tensor, and bytes = elements of shape in its type, exactly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bulkhead::model {

enum class TensorType : uint8_t {
  kF32,
  kF16,
  kBf16,  // what weights may be
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,  // and, in GGUF, these blocks
  kF64,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI64,
  kI32,
  kI16,
  kI8,  // sized, never loaded
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
};

std::string_view to_string(TensorType type);  // "F32", "Q4_K", "BOOL"

// Elements and bytes of the type's smallest unit: 1 element, or one block.
struct TypeUnit {
  uint32_t elements = 1;
  uint32_t bytes = 4;
};
TypeUnit unit_of(TensorType type);
// True for the types that decode_rows (block_formats.h) turns into floats.
bool is_weight_type(TensorType type);

struct TensorInfo {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<uint64_t> shape;  // slowest dimension first: [rows, columns]
  uint32_t file = 0;            // index into the checkpoint's files
  uint64_t offset = 0;          // bytes from the start of the file
  uint64_t bytes = 0;
  uint64_t elements = 0;
};

std::string shape_text(const std::vector<uint64_t>& shape);  // "[576, 192]"

}  // namespace bulkhead::model
