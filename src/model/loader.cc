#include "model/loader.h"

#include "model/model_tensors.h"
#include "model/model_weights.h"
#include "model/transformer.h"

namespace bulkhead::model {

base::Result<uint64_t> weight_bytes(const Checkpoint& checkpoint) {
  BH_ASSIGN(const TensorMatch match, match_tensors(checkpoint));
  return arena_bytes(checkpoint.config(), match);
}

base::Result<std::unique_ptr<Decoder>> load_decoder(const Checkpoint& checkpoint,
                                                    const kernels::KernelSet& kernels,
                                                    device::ThreadPool& pool, StepLimits limits,
                                                    const ProgressFn& progress) {
  BH_ASSIGN(const TensorMatch match, match_tensors(checkpoint));
  BH_ASSIGN(ModelWeights weights, load_weights(checkpoint, match, pool, progress));
  const ModelConfig& config = checkpoint.config();
  ModelFacts facts;
  facts.name = checkpoint.name();
  facts.family = config.family;
  facts.vocabulary_size = config.vocabulary;
  facts.context_tokens = config.context;
  facts.cache = cache_layout(config, kv::PageLayout{}.page_tokens);
  facts.parameters = match.parameters;
  facts.weight_bytes = weights.arena.size();
  facts.weight_format = "bf16";
  return Transformer::create(std::move(facts), config, std::move(weights), kernels, pool, limits);
}

}  // namespace bulkhead::model
