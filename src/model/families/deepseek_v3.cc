// DeepSeek-V3 and R1, and Kimi K2, which is one of other dimensions: latent attention, YaRN with
// its gain on the softmax scale, experts behind a sigmoid router.

#include "model/families/common.h"
#include "model/families/family.h"

namespace bulkhead::model {
namespace {

base::Result<ModelConfig> deepseek_from_json(const JsonFields& config) {
  return read_json_latent("deepseek_v3", config, {.may_pair_halves = true});
}

base::Result<ModelConfig> kimi_from_json(const JsonFields& config) {
  return read_json_latent("kimi_k2", config, {.may_pair_halves = true});
}

}  // namespace

const Family kDeepseekV3 = {"deepseek_v3", deepseek_from_json, nullptr};
const Family kKimiK2 = {"kimi_k2", kimi_from_json, nullptr};

}  // namespace bulkhead::model
