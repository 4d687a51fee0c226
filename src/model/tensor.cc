#include "model/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"

namespace bulkhead::model {

std::string_view to_string(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return "F32";
    case TensorType::kF16:
      return "F16";
    case TensorType::kBf16:
      return "BF16";
    case TensorType::kQ4_0:
      return "Q4_0";
    case TensorType::kQ4_1:
      return "Q4_1";
    case TensorType::kQ5_0:
      return "Q5_0";
    case TensorType::kQ5_1:
      return "Q5_1";
    case TensorType::kQ8_0:
      return "Q8_0";
    case TensorType::kQ4_K:
      return "Q4_K";
    case TensorType::kQ5_K:
      return "Q5_K";
    case TensorType::kQ6_K:
      return "Q6_K";
    case TensorType::kFp8:
      return "FP8";
    case TensorType::kInt4:
      return "INT4";
    case TensorType::kF64:
      return "F64";
    case TensorType::kF8E4M3:
      return "F8_E4M3";
    case TensorType::kF8E5M2:
      return "F8_E5M2";
    case TensorType::kF8E8M0:
      return "F8_E8M0";
    case TensorType::kI64:
      return "I64";
    case TensorType::kI32:
      return "I32";
    case TensorType::kI16:
      return "I16";
    case TensorType::kI8:
      return "I8";
    case TensorType::kU64:
      return "U64";
    case TensorType::kU32:
      return "U32";
    case TensorType::kU16:
      return "U16";
    case TensorType::kU8:
      return "U8";
    case TensorType::kBool:
      return "BOOL";
  }
  return "?";
}

TypeUnit unit_of(TensorType type) {
  switch (type) {
    case TensorType::kQ4_0:
      return {32, 18};
    case TensorType::kQ4_1:
      return {32, 20};
    case TensorType::kQ5_0:
      return {32, 22};
    case TensorType::kQ5_1:
      return {32, 24};
    case TensorType::kQ8_0:
      return {32, 34};
    case TensorType::kQ4_K:
      return {256, 144};
    case TensorType::kQ5_K:
      return {256, 176};
    case TensorType::kQ6_K:
      return {256, 210};
    case TensorType::kInt4:
      return {2, 1};
    case TensorType::kF64:
    case TensorType::kI64:
    case TensorType::kU64:
      return {1, 8};
    case TensorType::kF32:
    case TensorType::kI32:
    case TensorType::kU32:
      return {1, 4};
    case TensorType::kF16:
    case TensorType::kBf16:
    case TensorType::kI16:
    case TensorType::kU16:
      return {1, 2};
    case TensorType::kFp8:
    case TensorType::kF8E4M3:
    case TensorType::kF8E5M2:
    case TensorType::kF8E8M0:
    case TensorType::kI8:
    case TensorType::kU8:
    case TensorType::kBool:
      return {1, 1};
  }
  BH_CHECK(false, "a TensorType outside its enumeration");
}

bool is_weight_type(TensorType type) { return type <= TensorType::kInt4; }

std::vector<const TensorInfo*> parts_of(const QuantisedWeight& weight) {
  std::vector<const TensorInfo*> parts = {&weight.codes, &weight.scales};
  for (const auto* part : {&weight.zeros, &weight.groups, &weight.shape}) {
    if (part->has_value()) parts.push_back(&part->value());
  }
  return parts;
}

std::string type_text(const TensorInfo& tensor) {
  if (tensor.quantised == nullptr) return std::string(to_string(tensor.type));
  const QuantisedWeight& weight = *tensor.quantised;
  switch (weight.format) {
    case QuantFormat::kFp8Blocks:
      return fmt::format("FP8 e4m3 {}x{}", weight.block_rows, weight.block_columns);
    case QuantFormat::kPackedRows:
      return fmt::format("INT4 g{} {}", weight.block_columns,
                         weight.zeros ? "asymmetric" : "symmetric");
    case QuantFormat::kAwq:
      return fmt::format("INT4 g{} AWQ", weight.block_columns);
    case QuantFormat::kGptq:
      return fmt::format("INT4 g{} GPTQ{}", weight.block_columns,
                         weight.zeros_less_one ? "" : " v2");
  }
  return "?";
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace bulkhead::model
