// Kimi K2.5 to K2.7: Kimi K2 as the text part of a model that also sees. The vision tower is not
// read.

#include <fmt/format.h>

#include "model/families/common.h"
#include "model/families/family.h"

namespace bulkhead::model {
namespace {

base::Result<ModelConfig> from_json(const JsonFields& config) {
  BH_ASSIGN(const auto text, config.object("text_config"));
  if (!text) return config.refuse("text_config", "missing: it describes the language model");
  BH_ASSIGN(const std::string type, text->text_or("model_type", "kimi_k2"));
  if (type != "kimi_k2" && type != "deepseek_v3") {
    return text->unsupported("model_type", fmt::format("\"{}\" is not supported; kimi_k2 and "
                                                       "deepseek_v3 are",
                                                       type.substr(0, 64)));
  }
  BH_ASSIGN(ModelConfig out, read_json_latent("kimi_k25", *text, {.may_pair_halves = true}));
  // The flag stands outside, and there its absence means that the tables are tied.
  BH_ASSIGN(const bool tied, config.flag_or("tie_word_embeddings", true));
  out.tie = tied ? TieRule::kTied : TieRule::kUntied;
  out.name_prefix = "language_model.";
  out.ignored_prefixes = {"vision_tower.", "mm_projector."};
  return out;
}

}  // namespace

const Family kKimiK25 = {"kimi_k25", from_json, nullptr};

}  // namespace bulkhead::model
