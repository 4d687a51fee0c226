// What config.json says about how weights are quantised.
//
// Threads: pure functions.
// Invariant: a QuantConfig that is returned describes a format that fold.h and decode.h read; every
// other one is an error that names the setting and what can be loaded.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace bulkhead::model::formats {

enum class QuantMethod : uint8_t { kNone, kFp8, kCompressedTensors, kAwq, kGptq };
std::string_view to_string(QuantMethod method);  // "fp8", "compressed-tensors"; "none"

// Groups of columns that share a scale.
struct GroupRule {
  uint64_t columns = 0;  // 0: all of a row
  bool symmetric = true;
};

struct QuantConfig {
  QuantMethod method = QuantMethod::kNone;
  // fp8, and compressed-tensors where one of its groups is of that form; 0: none is.
  uint64_t block_rows = 0;
  uint64_t block_columns = 0;
  // The 4-bit methods: what groups may be. Several for compressed-tensors, whose config groups
  // differ from each other in size or symmetry.
  std::vector<GroupRule> groups;
  bool zeros_less_one = false;  // gptq: the first version of its files
  bool ordered = false;         // gptq: each weight says which group a column is in
};

// Takes "quantization_config" out of a model's configuration, where it stands at the top or inside
// text_config, so that the rest reads as that of a plain checkpoint. `name` is the file.
base::Result<QuantConfig> take_quant_config(std::string_view name, boost::json::object& config);
// The same from the text of config.json.
base::Result<QuantConfig> parse_quant_config(std::string_view name, std::string_view text);

}  // namespace bulkhead::model::formats
