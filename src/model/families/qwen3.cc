// Qwen3, dense: RMSNorm on every q and k head before RoPE, head_dim 128 where it is not given.

#include "model/families/common.h"
#include "model/families/family.h"

namespace bulkhead::model {
namespace {

base::Result<ModelConfig> from_json(const JsonFields& config) {
  BH_ASSIGN(ModelConfig out, read_json_config("qwen3", config, {.head_dim = 128}));
  BH_ASSIGN(out.qkv_bias, config.flag_or("attention_bias", false));
  out.o_bias = out.qkv_bias;
  out.qk_norm = true;
  return out;
}

base::Result<ModelConfig> from_gguf(const GgufFile& file) {
  BH_ASSIGN(ModelConfig out, read_gguf_config("qwen3", file));
  out.qkv_bias = file.has_tensor("blk.0.attn_q.bias");
  out.o_bias = file.has_tensor("blk.0.attn_output.bias");
  out.qk_norm = true;
  return out;
}

}  // namespace

const Family kQwen3 = {"qwen3", from_json, from_gguf};

}  // namespace bulkhead::model
