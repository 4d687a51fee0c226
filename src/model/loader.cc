#include "model/loader.h"

#include <fmt/format.h>

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
    const bool multiplied = expected.role != WeightRole::kEmbedding || match.tied;
    if (format == WeightFormat::kInt4 && multiplied) facts.has_int4 = true;
    if (formats::native_format(*tensor.source) == format) {
      ++facts.carried;
    } else if (is_quantised(*tensor.source)) {
      if (facts.requantised++ == 0) facts.requantised_from = type_text(*tensor.source);
    }
  }
}

WeightFacts facts_of(const ModelConfig& config, const TensorMatch& match,
                     const WeightFormats& formats) {
  WeightFacts facts;
  facts.bytes = arena_bytes(config, match, formats);
  facts.format = formats.text();
  count_origins(match, formats, facts);
  return facts;
}

}  // namespace

base::Result<WeightFacts> weight_facts(const Checkpoint& checkpoint,
                                       const std::optional<WeightRecipe>& recipe) {
  BH_ASSIGN(const TensorMatch match, match_tensors(checkpoint));
  return facts_of(checkpoint.config(), match, WeightFormats(match, recipe));
}

base::Status check_activations(const WeightFacts& weights, kernels::Activations activations,
                               const std::string& prefix) {
  if (activations == kernels::Activations::kFp32 || weights.has_int4) return {};
  return base::invalid_argument(
      prefix + "activations",
      fmt::format("{0}activations {1} needs INT4 weights, and the recipe {2} has none; give "
                  "{0}weights int4, kimi or kimi-fp8, or {0}activations {3}",
                  prefix, to_string(activations), weights.format,
                  to_string(kernels::Activations::kFp32)));
}

base::Result<uint64_t> weight_bytes(const Checkpoint& checkpoint,
                                    const std::optional<WeightRecipe>& recipe) {
  BH_ASSIGN(const WeightFacts facts, weight_facts(checkpoint, recipe));
  return facts.bytes;
}

base::Result<std::unique_ptr<Decoder>> load_decoder(const Checkpoint& checkpoint,
                                                    const LoadOptions& options,
                                                    const kernels::KernelSet& kernels,
                                                    device::ThreadPool& pool, StepLimits limits,
                                                    const ProgressFn& progress) {
  BH_ASSIGN(const TensorMatch match, match_tensors(checkpoint));
  const WeightFormats formats(match, options.weights);
  const ModelConfig& config = checkpoint.config();
  BH_TRY(check_activations(facts_of(config, match, formats), options.activations, ""));
  BH_ASSIGN(ModelWeights weights, load_weights(checkpoint, match, formats, pool, progress));
  ModelFacts facts;
  facts.name = checkpoint.name();
  facts.family = config.family;
  facts.vocabulary_size = config.vocabulary;
  facts.context_tokens = config.context;
  facts.cache = cache_layout(config, kv::PageLayout{}.page_tokens, kv::PageFormat::kBf16);
  facts.parameters = match.parameters;
  facts.weight_bytes = weights.arena.size();
  facts.weight_format = products_text(formats.text(), options.activations);
  return Transformer::create(std::move(facts), config, std::move(weights), kernels, pool, limits,
                             options.activations);
}

}  // namespace bulkhead::model
