#include "model/write/quantise_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "model/model_tensors.h"
#include "model/safetensors.h"
#include "model/weight_sizes.h"
#include "quant/fp8_blocks.h"
#include "quant/int4_groups.h"

namespace bulkhead::model::write {
namespace {

using kernels::WeightFormat;

constexpr std::string_view kFormatVersion = "1";

uint64_t divide_up(uint64_t value, uint64_t by) { return (value + by - 1) / by; }

// What the configuration says about a name of the checkpoint.
struct Place {
  WeightRole role = WeightRole::kFinalNorm;
  std::string name;  // in safetensors
  bool predicts = false;
};

std::unordered_map<std::string, Place> places_of(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  const ModelConfig all = with_prediction_layers(config);
  const auto wanted = expected_tensors(all, CheckpointFormat::kSafetensors);
  const auto stored = expected_tensors(all, checkpoint.format());
  std::unordered_map<std::string, Place> places;
  places.reserve(stored.size());
  for (size_t i = 0; i < stored.size(); ++i) {
    places.emplace(stored[i].name,
                   Place{stored[i].role, wanted[i].name, stored[i].layer >= config.layers});
  }
  return places;
}

bool has_format_already(const TensorInfo& tensor, WeightFormat format) {
  const QuantisedWeight* weight = tensor.quantised.get();
  if (weight == nullptr) return false;
  if (format == WeightFormat::kFp8) {
    return weight->format == QuantFormat::kFp8Blocks && weight->block_rows == quant::kFp8Block &&
           weight->block_columns == quant::kFp8Block;
  }
  return format == WeightFormat::kInt4 && weight->format == QuantFormat::kPackedRows &&
         weight->block_columns == quant::kInt4Group && !weight->zeros &&
         weight->scales.type == TensorType::kBf16;
}

Action action_for(const TensorInfo& tensor, WeightFormat format, bool gguf) {
  if (format != WeightFormat::kBf16) {
    if (has_format_already(tensor, format)) return Action::kCopyCodes;
    return format == WeightFormat::kFp8 ? Action::kFp8 : Action::kInt4;
  }
  // Matrices of a GGUF file are blocks, or rows in an order of its own.
  const bool rows_of_its_own =
      gguf && (tensor.shape.size() > 1 || unit_of(tensor.type).elements > 1);
  return tensor.quantised != nullptr || rows_of_its_own ? Action::kWiden : Action::kCopy;
}

std::vector<StoredTensor> parts_of_job(const TensorJob& job, QuantisationScheme scheme) {
  const std::vector<uint64_t>& shape = job.source->shape;
  const std::string stem = job.name.substr(0, job.name.size() - std::string_view("weight").size());
  switch (job.format) {
    case WeightFormat::kFp8: {
      const char* scale = scheme == QuantisationScheme::kFp8 ? "weight_scale_inv" : "weight_scale";
      return {{job.name, TensorType::kF8E4M3, shape},
              {stem + scale,
               TensorType::kF32,
               {divide_up(shape[0], quant::kFp8Block), divide_up(shape[1], quant::kFp8Block)}}};
    }
    case WeightFormat::kInt4:
      return {{stem + "weight_packed", TensorType::kI32, {shape[0], shape[1] / 8}},
              {stem + "weight_scale", TensorType::kBf16, {shape[0], shape[1] / quant::kInt4Group}},
              {stem + "weight_shape", TensorType::kI64, {2}}};
    case WeightFormat::kBf16:
      break;
  }
  const bool widened = job.action == Action::kWiden;
  return {{job.name, widened ? TensorType::kBf16 : job.source->type, shape}};
}

class PlanBuilder {
 public:
  PlanBuilder(const Checkpoint& checkpoint, const QuantiseOptions& options, bool tied)
      : checkpoint_(checkpoint), tied_(tied), places_(places_of(checkpoint)) {
    plan_.options = options;
  }

  base::Result<WritePlan> run() {
    BH_TRY(check_embedding());
    const auto tensors = checkpoint_.tensors();
    plan_.jobs.reserve(tensors.size());
    for (const TensorInfo& tensor : tensors) plan_.jobs.push_back(job_for(tensor));
    BH_TRY(choose_scheme());
    for (TensorJob& job : plan_.jobs) job.parts = parts_of_job(job, plan_.scheme);
    BH_TRY(divide_into_shards());
    plan_.digest = digest();
    return std::move(plan_);
  }

 private:
  // Who reads published forms expects the embedding table in BF16, and a tied head with it.
  base::Status check_embedding() const {
    const WeightFormat table = plan_.options.recipe.of(TensorKind::kEmbedding);
    if (table != WeightFormat::kBf16) {
      return base::unsupported(
          fmt::format("{}: the embedding table stays BF16 in a checkpoint: leave embedding={} out "
                      "of the recipe, and ask for it when the model is served (--weights)",
                      checkpoint_.name(), model::to_string(table)));
    }
    const WeightFormat head = plan_.options.recipe.of(TensorKind::kHead);
    if (!tied_ || head == WeightFormat::kBf16) return {};
    return base::unsupported(
        fmt::format("{}: the output head is the embedding table here, which stays BF16: leave "
                    "head={} out of the recipe",
                    checkpoint_.name(), model::to_string(head)));
  }

  TensorJob job_for(const TensorInfo& tensor) const {
    const bool gguf = checkpoint_.format() == CheckpointFormat::kGguf;
    const ModelConfig& config = checkpoint_.config();
    TensorJob job;
    job.source = &tensor;
    const auto found = places_.find(tensor.name);
    if (found == places_.end()) {
      const bool predicts = tensor.name.starts_with(config.name_prefix + "model.layers.");
      job.name = tensor.name;
      job.kind = predicts ? "prediction layers" : "other towers";
      job.action = action_for(tensor, WeightFormat::kBf16, gguf);
      return job;
    }
    const Place& place = found->second;
    job.name = place.name;
    job.kind = place.predicts ? "prediction layers" : share_of(place.role);
    const std::optional<TensorKind> kind = kind_of(place.role);
    if (kind && tensor.shape.size() == 2) {
      const auto columns = static_cast<int64_t>(tensor.shape[1]);
      job.format = stored_format(plan_.options.recipe, *kind, columns);
    }
    job.action = action_for(tensor, job.format, gguf);
    if (config.qk_rows_interleaved && is_rotated(place.role)) {
      job.interleaved_group = config.head_dim;
    }
    return job;
  }

  static bool is_rotated(WeightRole role) {
    return role == WeightRole::kQ || role == WeightRole::kK || role == WeightRole::kQBias ||
           role == WeightRole::kKBias;
  }

  base::Status choose_scheme() {
    const auto has = [&](WeightFormat format) {
      return std::ranges::any_of(plan_.jobs,
                                 [&](const TensorJob& job) { return job.format == format; });
    };
    const bool fp8 = has(WeightFormat::kFp8);
    const bool int4 = has(WeightFormat::kInt4);
    plan_.scheme = fp8 && int4 ? QuantisationScheme::kMixed
                   : fp8       ? QuantisationScheme::kFp8
                   : int4      ? QuantisationScheme::kPacked
                               : QuantisationScheme::kNone;
    if (fp8 || int4 || plan_.options.recipe == WeightRecipe{}) return {};
    return base::unsupported(
        fmt::format("{}: recipe \"{}\" changes nothing: the model has no tensors of those kinds "
                    "(INT4 needs columns that are a multiple of 32); --dry-run lists its kinds",
                    checkpoint_.name(), plan_.options.recipe.text()));
  }

  void close_shard(size_t end) {
    ShardPlan shard;
    shard.first_job =
        plan_.shards.empty() ? 0 : plan_.shards.back().first_job + plan_.shards.back().jobs;
    shard.jobs = end - shard.first_job;
    for (size_t i = shard.first_job; i < end; ++i) {
      const auto& parts = plan_.jobs[i].parts;
      shard.tensors.insert(shard.tensors.end(), parts.begin(), parts.end());
    }
    shard.bytes = safetensors_preamble(shard.tensors).size();
    for (const StoredTensor& tensor : shard.tensors) shard.bytes += tensor.bytes();
    plan_.shards.push_back(std::move(shard));
  }

  base::Status divide_into_shards() {
    uint64_t filled = 0;
    for (size_t i = 0; i < plan_.jobs.size(); ++i) {
      uint64_t bytes = 0;
      for (const StoredTensor& part : plan_.jobs[i].parts) bytes += part.bytes();
      if (filled > 0 && filled + bytes > plan_.options.shard_bytes) {
        close_shard(i);
        filled = 0;
      }
      filled += bytes;
    }
    close_shard(plan_.jobs.size());
    if (plan_.shards.size() > kShardsMax) {
      return base::invalid_argument(
          "shard-size", fmt::format("{} files would be written, at most {} can be read: give a "
                                    "larger --shard-size",
                                    plan_.shards.size(), kShardsMax));
    }
    const size_t count = plan_.shards.size();
    for (size_t i = 0; i < count; ++i) {
      plan_.shards[i].file = count == 1
                                 ? "model.safetensors"
                                 : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, count);
    }
    return {};
  }

  std::string digest() const {
    uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
    const auto add = [&hash](std::string_view text) {
      for (const char c : text) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
      }
      hash = (hash ^ 0xffu) * 0x100000001b3ull;
    };
    add(kFormatVersion);
    add(plan_.options.recipe.text());
    add(plan_.options.rule == quant::ScaleRule::kSearch ? "search" : "amax");
    add(fmt::format("{}", plan_.options.shard_bytes));
    for (size_t i = 0; i < checkpoint_.files().size(); ++i) {
      add(checkpoint_.files()[i].name());
      add(fmt::format("{}", checkpoint_.files()[i].size()));
    }
    for (const TensorInfo& tensor : checkpoint_.tensors()) {
      add(tensor.name);
      add(type_text(tensor));
      add(shape_text(tensor.shape));
      add(fmt::format("{} {} {}", tensor.file, tensor.offset, tensor.bytes));
    }
    return fmt::format("{:016x}", hash);
  }

  const Checkpoint& checkpoint_;
  const bool tied_;
  const std::unordered_map<std::string, Place> places_;
  WritePlan plan_;
};

}  // namespace

std::string_view to_string(Action action) {
  switch (action) {
    case Action::kCopy:
      return "copied";
    case Action::kWiden:
      return "to BF16";
    case Action::kFp8:
      return "to FP8";
    case Action::kInt4:
      return "to INT4";
    case Action::kCopyCodes:
      return "codes copied";
  }
  return "unknown";
}

uint64_t WritePlan::file_bytes() const {
  uint64_t sum = 0;
  for (const ShardPlan& shard : shards) sum += shard.bytes;
  return sum;
}

uint64_t WritePlan::tensor_bytes() const {
  uint64_t sum = 0;
  for (const ShardPlan& shard : shards) {
    for (const StoredTensor& tensor : shard.tensors) sum += tensor.bytes();
  }
  return sum;
}

base::Result<WritePlan> build_plan(const Checkpoint& checkpoint, const QuantiseOptions& options) {
  BH_ASSIGN(const TensorMatch match, match_tensors(checkpoint));
  return PlanBuilder(checkpoint, options, match.tied).run();
}

}  // namespace bulkhead::model::write
