// GLM-4.5 to 4.7: RoPE on the first half of each head, biases on q, k and v but not on the output,
// a sigmoid router with selection bias, one shared expert, the first layers dense.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/families/common.h"
#include "model/families/family.h"

namespace bulkhead::model {
namespace {

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

base::Result<DenseConfig> from_json(const JsonFields& config) {
  constexpr std::array<std::string_view, 2> kExperts = {"n_routed_experts", "num_local_experts"};
  BH_ASSIGN(DenseConfig out, read_json_config("glm4_moe", config, {.rotary_part = 0.5}));
  BH_ASSIGN(out.qkv_bias, config.flag_or("attention_bias", false));
  BH_ASSIGN(out.qk_norm, config.flag_or("use_qk_norm", false));
  BH_TRY(read_json_moe(config, kExperts, out));
  MoeConfig& moe = out.moe;
  BH_ASSIGN(moe.shared, config.dimension_or("n_shared_experts", kExpertsMax, 1));
  BH_ASSIGN(const int32_t dense, config.count_or("first_k_dense_replace", out.layers, 1));
  std::fill_n(moe.sparse_layers.begin(), dense, uint8_t{0});
  moe.score = kernels::RouterScore::kSigmoid;
  moe.selection_bias = true;
  BH_ASSIGN(moe.normalise, config.flag_or("norm_topk_prob", true));
  BH_ASSIGN(moe.scale, config.number_or("routed_scaling_factor", {1e-6, 1e6}, 1.0));
  BH_TRY(read_groups(config, moe));
  return out;
}

}  // namespace

const Family kGlm4Moe = {"glm4_moe", from_json, nullptr};

}  // namespace bulkhead::model
