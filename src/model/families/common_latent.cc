#include <fmt/format.h>

#include <cmath>

#include "model/families/common.h"

namespace bulkhead::model {
namespace {

constexpr int32_t kLatentKeyMax = 1024;  // latent and rotated values of a token's key
constexpr int32_t kIndexTopMax = 1 << 16;

base::Status refuse_bias(const JsonFields& config) {
  BH_ASSIGN(const bool bias, config.flag_or("attention_bias", false));
  if (bias) return config.unsupported("attention_bias", "only false is supported here");
  return {};
}

base::Status read_dimensions(const JsonFields& config, MlaConfig& mla) {
  BH_ASSIGN(mla.q_rank, config.dimension_or("q_lora_rank", kWidthMax, 0));
  BH_ASSIGN(mla.latent, config.dimension("kv_lora_rank", kLatentKeyMax));
  BH_ASSIGN(mla.nope, config.dimension("qk_nope_head_dim", kHeadDimMax));
  BH_ASSIGN(mla.rope, config.dimension("qk_rope_head_dim", kHeadDimMax));
  BH_ASSIGN(mla.value, config.dimension("v_head_dim", kHeadDimMax));
  if (mla.rope % 2 != 0) {
    return config.refuse("qk_rope_head_dim", fmt::format("{} is not even", mla.rope));
  }
  if (mla.key() > kLatentKeyMax) {
    return config.refuse("kv_lora_rank", fmt::format("with qk_rope_head_dim makes keys of {} "
                                                     "values; up to {} are supported",
                                                     mla.key(), kLatentKeyMax));
  }
  return {};
}

}  // namespace

base::Result<ModelConfig> read_json_latent(std::string_view family, const JsonFields& config,
                                           LatentDefaults defaults) {
  BH_ASSIGN(ModelConfig out, read_json_base(family, config));
  BH_TRY(refuse_bias(config));
  MlaConfig& mla = out.mla;
  BH_TRY(read_dimensions(config, mla));
  if (defaults.may_pair_halves) {
    BH_ASSIGN(mla.interleaved, config.flag_or("rope_interleave", true));
  }
  mla.softmax_scale = out.rope.softmax_gain / std::sqrt(static_cast<double>(mla.head_q()));
  out.kv_heads = 1;
  out.head_dim = static_cast<int32_t>(mla.key());
  out.rotary_dim = mla.rope;
  BH_TRY(read_json_sigmoid_moe(config, 3, defaults.mlp_layer_types, out));
  return out;
}

base::Status read_json_indexer(const JsonFields& config, ModelConfig& out) {
  IndexerConfig& indexer = out.indexer;
  BH_ASSIGN(indexer.heads, config.dimension("index_n_heads", kHeadsMax));
  BH_ASSIGN(indexer.head_dim, config.dimension("index_head_dim", kHeadDimMax));
  BH_ASSIGN(indexer.top_k, config.dimension("index_topk", kIndexTopMax));
  if (indexer.head_dim < out.mla.rope) {
    return config.refuse("index_head_dim", fmt::format("{} is less than the {} that are rotated",
                                                       indexer.head_dim, out.mla.rope));
  }
  if (out.mla.q_rank == 0) {
    return config.refuse("q_lora_rank", "the indexer's queries are made of it; it is missing");
  }
  indexer.full_layers.assign(static_cast<size_t>(out.layers), 1);
  return {};
}

}  // namespace bulkhead::model
