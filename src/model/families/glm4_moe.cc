// GLM-4.5 to 4.7: RoPE on the first half of each head, biases on q, k and v but not on the output,
// a sigmoid router with selection bias, one shared expert, the first layers dense.

#include "model/families/common.h"
#include "model/families/family.h"

namespace bulkhead::model {
namespace {

base::Result<ModelConfig> from_json(const JsonFields& config) {
  BH_ASSIGN(ModelConfig out, read_json_config("glm4_moe", config, {.rotary_part = 0.5}));
  BH_ASSIGN(out.qkv_bias, config.flag_or("attention_bias", false));
  BH_ASSIGN(out.qk_norm, config.flag_or("use_qk_norm", false));
  BH_TRY(read_json_sigmoid_moe(config, 1, false, out));
  return out;
}

}  // namespace

const Family kGlm4Moe = {"glm4_moe", from_json, nullptr};

}  // namespace bulkhead::model
