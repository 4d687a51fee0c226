#include <fmt/format.h>

#include <algorithm>

#include "model/families/common.h"

namespace bulkhead::model {

base::Status read_json_moe(const JsonFields& config, std::span<const std::string_view> names,
                           DenseConfig& out) {
  MoeConfig& moe = out.moe;
  const auto present = std::find_if(names.begin(), names.end(),
                                    [&](std::string_view name) { return config.has(name); });
  const std::string_view key = present == names.end() ? names.front() : *present;
  BH_ASSIGN(moe.experts, config.dimension(key, kExpertsMax));
  BH_ASSIGN(moe.per_token, config.dimension("num_experts_per_tok", kExpertsPerTokenMax));
  if (moe.per_token > moe.experts) {
    return config.refuse("num_experts_per_tok",
                         fmt::format("{} exceeds the {} experts", moe.per_token, moe.experts));
  }
  BH_ASSIGN(moe.intermediate, config.dimension("moe_intermediate_size", kWidthMax));
  moe.sparse_layers.assign(static_cast<size_t>(out.layers), 1);
  return {};
}

}  // namespace bulkhead::model
