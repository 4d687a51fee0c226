// Qwen2 and Qwen2.5, dense: q, k and v always carry a bias, nothing else does.

#include "model/families/common.h"
#include "model/families/family.h"

namespace bulkhead::model {
namespace {

base::Result<ModelConfig> from_json(const JsonFields& config) {
  BH_ASSIGN(ModelConfig out, read_json_config("qwen2", config, {}));
  out.qkv_bias = true;
  return out;
}

base::Result<ModelConfig> from_gguf(const GgufFile& file) {
  BH_ASSIGN(ModelConfig out, read_gguf_config("qwen2", file));
  out.qkv_bias = true;
  return out;
}

}  // namespace

const Family kQwen2 = {"qwen2", from_json, from_gguf};

}  // namespace bulkhead::model
