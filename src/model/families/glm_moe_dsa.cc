// GLM-5, 5.1 and 5.2: latent attention without YaRN, experts behind a sigmoid router, an indexer in
// the layers that do not share the choice of one before; everything rotates by neighbours.

#include <fmt/format.h>

#include <algorithm>

#include "model/families/common.h"
#include "model/families/family.h"

namespace bulkhead::model {
namespace {

// Whether an entry of indexer_types or index_topk_pattern says that the layer has its own indexer.
base::Result<uint8_t> read_kind(const JsonFields& config, std::string_view key,
                                std::string_view kind) {
  if (kind == "full" || kind == "F") return uint8_t{1};
  if (kind == "shared" || kind == "S") return uint8_t{0};
  return config.refuse(key, "must say of each layer whether it is full or shared");
}

// A list of "full" and "shared", or one string of F and S.
base::Status read_kinds(const JsonFields& config, std::string_view key, ModelConfig& out) {
  const boost::json::value& value = *config.value(key);
  std::vector<uint8_t>& full = out.indexer.full_layers;
  const size_t count = value.is_string()  ? value.get_string().size()
                       : value.is_array() ? value.get_array().size()
                                          : 0;
  if (count != full.size()) {
    return config.refuse(key, fmt::format("must cover {} layers", full.size()));
  }
  for (size_t layer = 0; layer < count; ++layer) {
    std::string_view kind;
    if (value.is_string()) {
      kind = std::string_view(value.get_string()).substr(layer, 1);
    } else if (const boost::json::string* text = value.get_array()[layer].if_string()) {
      kind = *text;
    }
    BH_ASSIGN(full[layer], read_kind(config, key, kind));
  }
  return {};
}

// Every freq-th layer from `offset` - 1 on, and all before.
base::Status read_frequency(const JsonFields& config, ModelConfig& out) {
  BH_ASSIGN(const int32_t every, config.dimension_or("index_topk_freq", kLayersMax, 1));
  BH_ASSIGN(const int32_t offset, config.count_or("index_skip_topk_offset", kLayersMax, 2));
  for (int32_t layer = 0; layer < out.layers; ++layer) {
    out.indexer.full_layers[static_cast<size_t>(layer)] =
        std::max(layer - offset + 1, 0) % every == 0 ? 1 : 0;
  }
  return {};
}

base::Status read_full_layers(const JsonFields& config, ModelConfig& out) {
  if (config.value("indexer_types") != nullptr) {
    BH_TRY(read_kinds(config, "indexer_types", out));
  } else if (config.value("index_topk_pattern") != nullptr) {
    BH_TRY(read_kinds(config, "index_topk_pattern", out));
  } else {
    BH_TRY(read_frequency(config, out));
  }
  if (out.indexer.full_layers.front() != 0) return {};
  return config.refuse("indexer_types", "the first layer has no choice to share");
}

base::Result<ModelConfig> from_json(const JsonFields& config) {
  BH_ASSIGN(ModelConfig out, read_json_latent("glm_moe_dsa", config, {.mlp_layer_types = true}));
  BH_TRY(read_json_indexer(config, out));
  out.indexer.interleaved = true;
  BH_TRY(read_full_layers(config, out));
  return out;
}

}  // namespace

const Family kGlmMoeDsa = {"glm_moe_dsa", from_json, nullptr};

}  // namespace bulkhead::model
