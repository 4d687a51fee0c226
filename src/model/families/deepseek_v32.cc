// DeepSeek-V3.2: DeepSeek-V3 with an indexer in every layer; the indexer rotates by halves, the
// main attention by neighbours.

#include "model/families/common.h"
#include "model/families/family.h"

namespace bulkhead::model {
namespace {

base::Result<ModelConfig> from_json(const JsonFields& config) {
  BH_ASSIGN(ModelConfig out, read_json_latent("deepseek_v32", config, {.mlp_layer_types = true}));
  BH_TRY(read_json_indexer(config, out));
  return out;
}

}  // namespace

const Family kDeepseekV32 = {"deepseek_v32", from_json, nullptr};

}  // namespace bulkhead::model
