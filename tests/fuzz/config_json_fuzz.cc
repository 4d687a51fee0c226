// Any bytes as config.json, generation_config.json and tokenizer_config.json: what is accepted must
// be a model that can be computed.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/model_tensors.h"
#include "model/side_files.h"

namespace {

using namespace bulkhead::model;

void check_config(std::string_view text) {
  constexpr int32_t kLayersRead = 8;
  GenerationDefaults generation;
  const auto config = parse_config(text, generation);
  if (!config.ok()) return;
  BH_CHECK(config->layers > 0 && config->hidden > 0 && config->vocabulary > 0, "dimensions");
  BH_CHECK(config->heads % config->kv_heads == 0 && config->head_dim % 2 == 0, "heads");
  BH_CHECK(std::isfinite(config->rms_eps) && std::isfinite(config->rope.attention_factor),
           "numbers");
  for (const float frequency : inverse_frequencies(config->rope, config->head_dim)) {
    BH_CHECK(std::isfinite(frequency) && frequency >= 0.0f, "a frequency");
  }
  for (const int32_t id : generation.eos_ids) {
    BH_CHECK(id >= 0 && id < config->vocabulary, "an end id");
  }
  if (config->layers > kLayersRead) return;
  BH_CHECK(!expected_tensors(*config, CheckpointFormat::kSafetensors).empty(),
           "a model of nothing");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int32_t kVocabulary = 1000;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_config(text);
  GenerationDefaults generation;
  if (parse_generation_config(text, kVocabulary, generation).ok()) {
    for (const int32_t id : generation.eos_ids) BH_CHECK(id >= 0 && id < kVocabulary, "an end id");
    BH_CHECK(generation.top_k.value_or(0) >= 0, "top_k");
  }
  TextSource source;
  if (!parse_tokenizer_config(text, source).ok()) return 0;
  BH_CHECK(source.chat_template.size() <= size, "a template out of nothing");
  return 0;
}
