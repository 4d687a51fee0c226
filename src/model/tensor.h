// A tensor of a checkpoint: as it lies in a file, or folded from the several tensors that make one
// quantised weight; and the element types files use.
//
// Threads: plain values.
// Invariants: a TensorInfo that leaves a reader has passed every check: its bytes lie inside its
// file, overlap no other tensor, and bytes = elements of shape in its type, exactly. A folded one
// (formats/fold.h) has the name and shape of the plain weight it stands for, and its parts fit each
// other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
  kFp8,
  kInt4,  // and these, folded from codes and scales (QuantisedWeight)
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
// True for the types that weights may have: those of decode_elements (block_formats.h) and the
// folded ones.
bool is_weight_type(TensorType type);

struct QuantisedWeight;

struct TensorInfo {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<uint64_t> shape;  // slowest dimension first: [rows, columns]
  uint32_t file = 0;            // index into the checkpoint's files
  uint64_t offset = 0;          // bytes from the start of the file
  uint64_t bytes = 0;
  uint64_t elements = 0;
  // The parts, when this weight is folded from several tensors: then `bytes` is their sum, and file
  // and offset are those of the codes. Null for a tensor that a file stores as it is.
  std::shared_ptr<const QuantisedWeight> quantised;
};

enum class QuantFormat : uint8_t {
  kFp8Blocks,   // e4m3 codes [N, K], a scale for each block of rows and columns
  kPackedRows,  // compressed-tensors: codes [N, K/8] in words, scales [N, groups]
  kAwq,         // codes [K, N/8] in words, scales [groups, N]
  kGptq,        // codes [K/8, N] in words, scales [groups, N]
};

// Everything there is to know about a quantised weight of N rows and K columns.
struct QuantisedWeight {
  QuantFormat format = QuantFormat::kFp8Blocks;
  // What shares a scale: rows and columns of a block; for groups 1 and the columns of a group.
  uint64_t block_rows = 1;
  uint64_t block_columns = 1;
  // GPTQ's first version stores each zero point less one.
  bool zeros_less_one = false;
  TensorInfo codes;
  TensorInfo scales;
  std::optional<TensorInfo> zeros;   // zero points, packed like codes; absent: symmetric
  std::optional<TensorInfo> groups;  // GPTQ: the group of each column
  std::optional<TensorInfo> shape;   // compressed-tensors: [N, K] as the writer saw it
};

// The parts of a quantised weight in the order in which their bytes count.
std::vector<const TensorInfo*> parts_of(const QuantisedWeight& weight);

// "BF16", "FP8 e4m3 128x128", "INT4 g32 symmetric".
std::string type_text(const TensorInfo& tensor);
std::string shape_text(const std::vector<uint64_t>& shape);  // "[576, 192]"

}  // namespace bulkhead::model
