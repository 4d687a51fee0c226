#include "serve/capacity/capacity_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/units.h"
#include "model/checkpoint.h"
#include "model/config_file.h"
#include "model/model_tensors.h"

namespace bulkhead::serve {
namespace {

using base::format_bytes;

base::Result<model::WeightRecipe> recipe_of(const std::string& option, const std::string& text,
                                            const PlannedModel& model) {
  if (text == "auto") return model.stored;
  auto recipe = model::parse_recipe(text);
  if (recipe.ok()) return recipe;
  base::Error error = std::move(recipe).error();
  error.field = option;
  return std::move(error).within(option);
}

base::Result<kv::PageFormat> format_of(const std::string& option, const std::string& text) {
  if (text == "auto") return kv::PageFormat::kBf16;
  std::string known = "auto, ";
  for (const kv::PageFormat format : {kv::PageFormat::kBf16, kv::PageFormat::kFp8E4m3}) {
    if (kv::to_string(format) == text) return format;
    known += fmt::format("{}{}", known.ends_with(' ') ? "" : ", ", kv::to_string(format));
  }
  return base::invalid_argument(
      option, fmt::format("{}: \"{}\" is no cache format; give one of {}", option, text, known));
}

WeightPlan weights_of(const PlannedModel& model, const model::WeightRecipe& recipe) {
  WeightPlan out;
  out.recipe = recipe;
  out.stored = model::sizes_of(model.config, recipe);
  out.packed = model::packed_sizes_of(model.config, recipe);
  out.from_files = model.tensor_bytes && recipe == model.stored;
  out.checkpoint_bytes = out.from_files ? *model.tensor_bytes : out.stored.bytes();
  return out;
}

// The fewest ranks on which weights and one request would fit; 0: none that divide the heads.
int32_t ranks_that_fit(const PlannedModel& model, const CapacityOptions& options,
                       const WeightPlan& weights, const kv::PageLayout& layout, uint64_t budget) {
  const int64_t tokens = options.context_tokens + options.output_tokens;
  for (int32_t ranks = options.ranks + 1; ranks <= model.config.heads; ++ranks) {
    if (!check_ranks(model.config, ranks).ok()) continue;
    const uint64_t bytes = weights.packed.serving_bytes(ranks);
    const kv::PageLayout part = layout_on_rank(layout, ranks);
    if (bytes < budget && requests_at(cache_room(part, budget - bytes), part, tokens) > 0) {
      return ranks;
    }
  }
  return 0;
}

// A size as an option reads it, rounded up.
std::string size_option(double bytes) {
  constexpr double kMiB = 1024.0 * 1024.0;
  const bool large = bytes >= 16 * 1024 * kMiB;
  return fmt::format("{:.0f}{}", std::ceil(bytes / (large ? 1024 * kMiB : kMiB)),
                     large ? "G" : "M");
}

std::string cure_text(const PoolCapacity& pool, const PlannedModel& model,
                      const CapacityOptions& options, const kv::PageLayout& layout,
                      uint64_t budget) {
  const int64_t tokens = options.context_tokens + options.output_tokens;
  const double needed =
      static_cast<double>(pool.weights_on_rank) +
      static_cast<double>(pages_of(layout, tokens)) * static_cast<double>(pool.layout.page_bytes());
  std::string cure =
      fmt::format("give --memory {} at least", size_option(needed / options.memory_share));
  const int32_t ranks = ranks_that_fit(model, options, pool.weights, layout, budget);
  if (ranks > 0) cure += fmt::format(", or --ranks {}", ranks);
  cure += ", or weights of fewer bits";
  return pool.weights_on_rank < budget ? cure + ", or a shorter --context" : cure;
}

// Fills what depends on room; `layout` is that of one rank among one.
void fit(const PlannedModel& model, const CapacityOptions& options, const kv::PageLayout& layout,
         PoolCapacity& pool) {
  const auto budget =
      static_cast<uint64_t>(static_cast<double>(options.memory_bytes) * options.memory_share);
  const int64_t tokens = options.context_tokens + options.output_tokens;
  if (pool.weights_on_rank >= budget) {
    pool.problem = fmt::format("the weights need {} of each rank and {:.0f} % of {} are {}",
                               format_bytes(pool.weights_on_rank), options.memory_share * 100,
                               format_bytes(options.memory_bytes), format_bytes(budget));
  } else {
    pool.cache_budget = budget - pool.weights_on_rank;
    pool.room = cache_room(pool.layout, pool.cache_budget);
    pool.requests = requests_at(pool.room, pool.layout, tokens);
    if (pool.requests > 0) return;
    pool.problem = fmt::format("{} beside the weights hold {} tokens, and one request has {}",
                               format_bytes(pool.cache_budget), pool.room.tokens, tokens);
  }
  pool.problem += "; " + cure_text(pool, model, options, layout, budget);
}

base::Result<PoolCapacity> plan_pool(const std::string& name, const PoolWish& wish,
                                     const PlannedModel& model, const CapacityOptions& options) {
  PoolCapacity pool;
  pool.name = name;
  BH_ASSIGN(const model::WeightRecipe recipe, recipe_of(name + ".weights", wish.weights, model));
  BH_ASSIGN(const kv::PageFormat format, format_of(name + ".kv", wish.kv));
  pool.weights = weights_of(model, recipe);
  pool.weights_source = wish.weights == "auto" ? "as stored" : "given";
  pool.kv_source = wish.kv == "auto" ? "default" : "given";
  pool.checkpoint_on_rank = pool.weights.checkpoint_bytes / static_cast<uint64_t>(options.ranks);
  pool.weights_on_rank = pool.weights.packed.serving_bytes(options.ranks);
  const kv::PageLayout layout = model::cache_layout(model.config, options.page_tokens, format);
  pool.layout = layout_on_rank(layout, options.ranks);
  pool.sharing = sharing_text(layout, options.ranks);
  fit(model, options, layout, pool);
  pool.transfer_bytes =
      static_cast<uint64_t>(pages_of(layout, options.context_tokens)) * layout.page_bytes();
  pool.tokens_per_second = wish.tokens_per_second;
  if (options.price > 0 && wish.tokens_per_second > 0) {
    pool.cost = cost_per_million(options.price, options.ranks, wish.tokens_per_second);
  }
  return pool;
}

base::Status fill_lengths(const model::ModelConfig& config, CapacityOptions& options) {
  if (options.context_tokens == 0) {
    options.context_tokens = std::max<int64_t>(config.context - options.output_tokens, 1);
  }
  const int64_t tokens = options.context_tokens + options.output_tokens;
  if (tokens <= config.context) return {};
  return base::invalid_argument(
      "--context",
      fmt::format("--context {} and --output {} are {} tokens, and the model was made "
                  "for {}; give less",
                  options.context_tokens, options.output_tokens, tokens, config.context));
}

// Numbers that no arithmetic survives; also of callers other than the command line.
base::Status check_numbers(const CapacityOptions& options) {
  const auto refused = [](const std::string& option, const char* range) {
    return base::invalid_argument(option, fmt::format("{} is {}", option, range));
  };
  const double share = options.memory_share;
  if (!(share > 0 && share <= 1)) return refused("--memory-fraction", "above 0 and at most 1");
  if (!std::isfinite(options.price) || options.price < 0)
    return refused("--price", "a number above 0");
  const std::pair<const char*, double> rates[] = {
      {"--prefill.throughput", options.prefill.tokens_per_second},
      {"--decode.throughput", options.decode.tokens_per_second},
      {"--against.throughput", options.against.tokens_per_second}};
  for (const auto& [option, rate] : rates) {
    if (!std::isfinite(rate) || rate < 0) return refused(option, "a number above 0");
  }
  return {};
}

// What a published checkpoint's own words on quantisation amount to.
model::WeightRecipe published_recipe(const model::ConfigFile& file) {
  using Method = model::formats::QuantMethod;
  const bool experts = file.config.moe.experts > 0;
  const char* name = file.quantised == Method::kNone  ? "bf16"
                     : file.quantised == Method::kFp8 ? "fp8"
                     : experts                        ? "kimi"
                                                      : "int4";
  return *model::parse_recipe(name);
}

// A configuration may ask for so many tensors that counting them is a burden of its own.
base::Status check_plannable(const model::ModelConfig& config) {
  constexpr int64_t kExpertsInAllMax = 1 << 18;
  const int64_t layers = config.layers + config.prediction_layers;
  if (layers * config.moe.experts <= kExpertsInAllMax) return {};
  return base::invalid_argument(
      "config.json", fmt::format("config.json: {} layers of {} experts are more than a plan counts "
                                 "({} experts in all)",
                                 layers, config.moe.experts, kExpertsInAllMax));
}

bool has_weights(const std::filesystem::path& directory) {
  std::error_code ignored;
  return std::filesystem::exists(directory / "model.safetensors", ignored) ||
         std::filesystem::exists(directory / "model.safetensors.index.json", ignored);
}

base::Result<PlannedModel> from_config(const std::filesystem::path& path) {
  BH_ASSIGN(model::ConfigFile file, model::read_config_file(path));
  PlannedModel out;
  out.stored = published_recipe(file);
  out.stored_reason =
      file.quantised == model::formats::QuantMethod::kNone
          ? "config.json names no quantisation"
          : fmt::format("config.json: {}", model::formats::to_string(file.quantised));
  out.name = std::move(file.name);
  out.config = std::move(file.config);
  return out;
}

kernels::WeightFormat format_of(model::TensorType type) {
  if (type == model::TensorType::kFp8) return kernels::WeightFormat::kFp8;
  if (type == model::TensorType::kInt4) return kernels::WeightFormat::kInt4;
  return kernels::WeightFormat::kBf16;  // what everything else becomes at load
}

// Of every kind, the format that most of its bytes have.
model::WeightRecipe recipe_in(const model::TensorMatch& match) {
  std::array<std::array<uint64_t, 3>, model::kTensorKinds> bytes{};
  for (const model::MatchedTensor& tensor : match.tensors) {
    const auto kind = model::kind_of(tensor.expected.role);
    if (!kind) continue;
    const auto format = static_cast<size_t>(format_of(tensor.source->type));
    bytes[static_cast<size_t>(*kind)][format] += tensor.source->bytes;
  }
  model::WeightRecipe recipe;
  for (size_t kind = 0; kind < bytes.size(); ++kind) {
    const auto most = std::ranges::max_element(bytes[kind]) - bytes[kind].begin();
    recipe.formats[kind] = static_cast<kernels::WeightFormat>(most);
  }
  return recipe;
}

base::Result<PlannedModel> from_checkpoint(const std::filesystem::path& path) {
  BH_ASSIGN(const model::Checkpoint checkpoint, model::Checkpoint::open(path));
  BH_ASSIGN(const model::TensorMatch match, model::match_tensors(checkpoint));
  const model::CheckpointSummary facts = checkpoint.describe();
  PlannedModel out;
  out.stored = recipe_in(match);
  for (const auto& share : facts.types) {
    out.stored_reason += (out.stored_reason.empty() ? "tensors: " : ", ") + share.type;
  }
  out.name = facts.name;
  out.config = facts.config;
  out.config.tie = match.tied ? model::TieRule::kTied : model::TieRule::kUntied;
  out.tensor_bytes = facts.tensor_bytes;
  return out;
}

}  // namespace

base::Result<PlannedModel> load_planned_model(const std::string& path) {
  std::error_code ignored;
  const bool directory = std::filesystem::is_directory(path, ignored);
  const bool config_alone = directory ? !has_weights(path) : path.ends_with(".json");
  BH_ASSIGN(PlannedModel out, config_alone ? from_config(path) : from_checkpoint(path));
  BH_TRY(check_plannable(out.config));
  return out;
}

base::Result<CapacityPlan> plan_capacity(PlannedModel model, const CapacityOptions& options) {
  CapacityPlan plan;
  plan.options = options;
  plan.models_context = options.context_tokens == 0;
  BH_TRY(check_numbers(options));
  BH_TRY(check_ranks(model.config, options.ranks));
  BH_TRY(fill_lengths(model.config, plan.options));
  BH_ASSIGN(plan.prefill, plan_pool("prefill", options.prefill, model, plan.options));
  BH_ASSIGN(plan.decode, plan_pool("decode", options.decode, model, plan.options));
  PoolWish against = options.against;
  if (against.weights.empty()) against.weights = options.prefill.weights;
  if (against.kv.empty()) against.kv = options.prefill.kv;
  BH_ASSIGN(PoolCapacity other, plan_pool("against", against, model, plan.options));
  if (options.against.weights.empty()) other.weights_source = "as prefill";
  if (options.against.kv.empty()) other.kv_source = "as prefill";
  const bool same = other.weights.recipe == plan.decode.weights.recipe &&
                    other.layout.format == plan.decode.layout.format;
  if (!same || against.tokens_per_second > 0) plan.against = std::move(other);
  plan.model = std::move(model);
  return plan;
}

}  // namespace bulkhead::serve
