// Qwen3 with experts: Qwen3's attention, a softmax router over experts, no shared one.

#include <array>

#include "model/families/common.h"
#include "model/families/family.h"

namespace bulkhead::model {
namespace {

// A layer has experts unless mlp_only_layers names it or decoder_sparse_step passes it by.
base::Status read_sparse_layers(const JsonFields& config, ModelConfig& out) {
  BH_ASSIGN(const int32_t step, config.dimension_or("decoder_sparse_step", kLayersMax, 1));
  for (int32_t layer = 0; layer < out.layers; ++layer) {
    out.moe.sparse_layers[static_cast<size_t>(layer)] = (layer + 1) % step == 0 ? 1 : 0;
  }
  const boost::json::value* dense = config.value("mlp_only_layers");
  if (dense == nullptr) return {};
  if (!dense->is_array()) return config.refuse("mlp_only_layers", "must be an array");
  for (const boost::json::value& entry : dense->get_array()) {
    const int64_t* layer = entry.if_int64();
    if (layer == nullptr || *layer < 0 || *layer >= out.layers) {
      return config.refuse("mlp_only_layers", "must list layers of the model");
    }
    out.moe.sparse_layers[static_cast<size_t>(*layer)] = 0;
  }
  return {};
}

base::Result<ModelConfig> from_json(const JsonFields& config) {
  constexpr std::array<std::string_view, 2> kExperts = {"num_experts", "num_local_experts"};
  BH_ASSIGN(ModelConfig out, read_json_config("qwen3_moe", config, {.head_dim = 128}));
  BH_ASSIGN(out.qkv_bias, config.flag_or("attention_bias", false));
  out.o_bias = out.qkv_bias;
  out.qk_norm = true;
  BH_TRY(read_json_moe(config, kExperts, out));
  BH_TRY(read_sparse_layers(config, out));
  BH_ASSIGN(out.moe.normalise, config.flag_or("norm_topk_prob", false));
  return out;
}

}  // namespace

const Family kQwen3Moe = {"qwen3_moe", from_json, nullptr};

}  // namespace bulkhead::model
