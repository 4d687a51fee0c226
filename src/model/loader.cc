#include "model/loader.h"

#include "model/formats/codes.h"
#include "model/model_tensors.h"
#include "model/model_weights.h"
#include "model/transformer.h"
#include "model/weight_formats.h"

namespace bulkhead::model {
namespace {

using kernels::WeightFormat;

bool is_quantised(const TensorInfo& tensor) {
  const TensorType type = tensor.type;
  return type != TensorType::kF32 && type != TensorType::kF16 && type != TensorType::kBf16;
}

void count_origins(const TensorMatch& match, const WeightFormats& formats, WeightFacts& facts) {
  for (const MatchedTensor& tensor : match.tensors) {
    const ExpectedTensor& expected = tensor.expected;
    const WeightFormat format = formats.of(expected.role, expected.layer, expected.expert);
    if (format == WeightFormat::kBf16) continue;
    if (formats::native_format(*tensor.source) == format) {
      ++facts.carried;
    } else if (is_quantised(*tensor.source)) {
      if (facts.requantised++ == 0) facts.requantised_from = type_text(*tensor.source);
    }
  }
}

}  // namespace

base::Result<WeightFacts> weight_facts(const Checkpoint& checkpoint,
                                       const std::optional<WeightRecipe>& recipe) {
  BH_ASSIGN(const TensorMatch match, match_tensors(checkpoint));
  const WeightFormats formats(match, recipe);
  WeightFacts facts;
  facts.bytes = arena_bytes(checkpoint.config(), match, formats);
  facts.format = formats.text();
  count_origins(match, formats, facts);
  return facts;
}

base::Result<uint64_t> weight_bytes(const Checkpoint& checkpoint,
                                    const std::optional<WeightRecipe>& recipe) {
  BH_ASSIGN(const WeightFacts facts, weight_facts(checkpoint, recipe));
  return facts.bytes;
}

base::Result<std::unique_ptr<Decoder>> load_decoder(const Checkpoint& checkpoint,
                                                    const std::optional<WeightRecipe>& recipe,
                                                    const kernels::KernelSet& kernels,
                                                    device::ThreadPool& pool, StepLimits limits,
                                                    const ProgressFn& progress) {
  BH_ASSIGN(const TensorMatch match, match_tensors(checkpoint));
  const WeightFormats formats(match, recipe);
  BH_ASSIGN(ModelWeights weights, load_weights(checkpoint, match, formats, pool, progress));
  const ModelConfig& config = checkpoint.config();
  ModelFacts facts;
  facts.name = checkpoint.name();
  facts.family = config.family;
  facts.vocabulary_size = config.vocabulary;
  facts.context_tokens = config.context;
  facts.cache = cache_layout(config, kv::PageLayout{}.page_tokens, kv::PageFormat::kBf16);
  facts.parameters = match.parameters;
  facts.weight_bytes = weights.arena.size();
  facts.weight_format = formats.text();
  return Transformer::create(std::move(facts), config, std::move(weights), kernels, pool, limits);
}

}  // namespace bulkhead::model
