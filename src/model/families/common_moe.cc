#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/families/common.h"

namespace bulkhead::model {
namespace {

constexpr int32_t kPredictionLayersMax = 16;

base::Status read_groups(const JsonFields& config, MoeConfig& moe) {
  BH_ASSIGN(moe.groups, config.dimension_or("n_group", kExpertsMax, 1));
  BH_ASSIGN(moe.groups_used, config.dimension_or("topk_group", kExpertsMax, 1));
  if (moe.experts % moe.groups != 0 || moe.groups_used > moe.groups) {
    return config.refuse(
        "n_group", fmt::format("{} groups, {} of them used, do not divide {} experts", moe.groups,
                               moe.groups_used, moe.experts));
  }
  const int32_t in_group = moe.experts / moe.groups;
  if (moe.groups > 1 && (in_group < 2 || in_group * moe.groups_used < moe.per_token)) {
    return config.refuse("n_group", fmt::format("groups of {} experts are too small for {} a token",
                                                in_group, moe.per_token));
  }
  return {};
}

// mlp_layer_types: "dense" or "sparse" for every layer.
base::Status read_layer_types(const JsonFields& config, ModelConfig& out) {
  const boost::json::value* types = config.value("mlp_layer_types");
  if (types == nullptr) return {};
  if (!types->is_array() || types->get_array().size() != static_cast<size_t>(out.layers)) {
    return config.refuse("mlp_layer_types", fmt::format("must list {} layers", out.layers));
  }
  for (size_t layer = 0; layer < types->get_array().size(); ++layer) {
    const boost::json::string* type = types->get_array()[layer].if_string();
    if (type == nullptr || (*type != "dense" && *type != "sparse")) {
      return config.refuse("mlp_layer_types", "must say \"dense\" or \"sparse\" of each layer");
    }
    out.moe.sparse_layers[layer] = *type == "sparse" ? 1 : 0;
  }
  return {};
}

}  // namespace

base::Status read_json_moe(const JsonFields& config, std::span<const std::string_view> names,
                           ModelConfig& out) {
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

base::Status read_json_sigmoid_moe(const JsonFields& config, int32_t dense_default, bool by_type,
                                   ModelConfig& out) {
  constexpr std::array<std::string_view, 2> kExperts = {"n_routed_experts", "num_local_experts"};
  BH_TRY(read_json_moe(config, kExperts, out));
  MoeConfig& moe = out.moe;
  BH_ASSIGN(moe.shared, config.dimension_or("n_shared_experts", kExpertsMax, 1));
  BH_ASSIGN(const int32_t dense, config.count_or("first_k_dense_replace", out.layers,
                                                 std::min(dense_default, out.layers)));
  std::fill_n(moe.sparse_layers.begin(), dense, uint8_t{0});
  if (by_type) BH_TRY(read_layer_types(config, out));
  moe.score = kernels::RouterScore::kSigmoid;
  moe.selection_bias = true;
  BH_ASSIGN(moe.normalise, config.flag_or("norm_topk_prob", true));
  BH_ASSIGN(moe.scale, config.number_or("routed_scaling_factor", {1e-6, 1e6}, 1.0));
  BH_ASSIGN(out.prediction_layers,
            config.count_or("num_nextn_predict_layers", kPredictionLayersMax, 0));
  return read_groups(config, moe);
}

}  // namespace bulkhead::model
