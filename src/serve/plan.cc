#include "serve/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/units.h"
#include "serve/capacity/capacity.h"

namespace bulkhead::serve {
namespace {

using base::format_bytes;

// The cache is touched at start, so its default stays where that costs well under a second.
constexpr uint64_t kCacheBytesDefaultMax = 2ull << 30;

constexpr const char* kCacheOption = "--kv-cache-memory";
constexpr const char* kPrefillCacheOption = "--prefill.kv-cache-memory";
constexpr const char* kDecodeCacheOption = "--decode.kv-cache-memory";

base::Status choose_isa(const ModelOptions& options, const device::CpuFacts& cpu, Plan& plan) {
  if (options.isa.empty()) {
    plan.isa = device::best_isa(cpu);
    plan.isa_reason = "the strongest this processor has";
    return {};
  }
  BH_ASSIGN(plan.isa, device::parse_isa(options.isa));
  plan.isa_reason = "--isa";
  if (!device::available(cpu, plan.isa)) {
    return base::invalid_argument(
        "--isa",
        fmt::format("this processor ({}) cannot run the {} path; the strongest it has is {}",
                    cpu.model_name, device::to_string(plan.isa),
                    device::to_string(device::best_isa(cpu))));
  }
  return {};
}

// Who chose a pool's weights.
const char* weights_reason(const ModelOptions& options, const PoolOptions& pool,
                           const char* option) {
  if (pool.weights) return option;
  return options.weights ? "--weights" : "as stored";
}

std::optional<model::WeightRecipe> recipe_of(const ModelOptions& options, const PoolOptions& pool) {
  return pool.weights ? pool.weights : options.weights;
}

void set_weights(const ModelOptions& options, const PoolOptions& own,
                 const model::WeightFacts& facts, const char* reason, PoolPlan& pool) {
  pool.weights = recipe_of(options, own);
  pool.activations = own.activations.value_or(options.activations);
  pool.weight_format = facts.format;
  pool.weight_bytes = facts.bytes;
  pool.weights_text = fmt::format("{} ({}", facts.format, reason);
  if (facts.requantised > 0) {
    pool.weights_text += fmt::format("; {} tensors quantised again, from {}", facts.requantised,
                                     facts.requantised_from);
  }
  pool.weights_text += ")";
}

// Room for weights and caches together.
base::Result<uint64_t> memory_budget(const Plan& plan, const device::CpuFacts& cpu) {
  const auto budget = static_cast<uint64_t>(static_cast<double>(cpu.memory_bytes) * kMemoryShare);
  const uint64_t weights =
      plan.weight_bytes + (plan.weights_shared ? 0 : plan.prefill->weight_bytes);
  if (weights >= budget) {
    return base::Error{base::ErrorCode::kResourceExhausted,
                       fmt::format("the weights need {} and this machine has {} of memory; use a "
                                   "smaller model",
                                   format_bytes(weights), format_bytes(cpu.memory_bytes)),
                       {}};
  }
  return budget - weights;
}

// What a pool's size was asked with, and what is there for it.
struct CacheWish {
  uint64_t bytes = 0;  // 0: the default
  uint64_t room = 0;   // free memory now
  unsigned pools = 1;  // that share the default
  const char* option = "";
};

base::Status choose_cache(const CacheWish& wish, PoolPlan& pool) {
  uint64_t bytes = wish.bytes;
  if (bytes == 0) {
    bytes = std::min(wish.room / 4, kCacheBytesDefaultMax) / wish.pools;
    pool.cache_reason = fmt::format(
        "default: {} of the free {}, at most {}", wish.pools == 1 ? "a quarter" : "an eighth",
        format_bytes(wish.room), format_bytes(kCacheBytesDefaultMax / wish.pools));
  } else {
    pool.cache_reason = wish.option;
  }
  if (bytes > wish.room) {
    return base::Error{
        base::ErrorCode::kResourceExhausted,
        fmt::format("{} {} does not fit into the memory that weights and other caches leave; at "
                    "most {}",
                    wish.option, format_bytes(bytes), format_bytes(wish.room)),
        wish.option};
  }
  // Token counts are 32-bit throughout; nobody's cache is near that today.
  const uint64_t pages_max = static_cast<uint64_t>(std::numeric_limits<int32_t>::max()) /
                             static_cast<uint64_t>(pool.layout.page_tokens);
  const uint64_t page_bytes = pool.layout.page_bytes();
  const CacheRoom room =
      cache_room(pool.layout, std::min(bytes / page_bytes, pages_max) * page_bytes);
  pool.pages = static_cast<int32_t>(room.pages);
  pool.cache_tokens = static_cast<int32_t>(room.tokens);
  pool.cache_bytes = room.bytes;
  return {};
}

// The sizes of all page pools.
base::Status choose_caches(const ModelOptions& options, const device::CpuFacts& cpu, Plan& plan) {
  BH_ASSIGN(const uint64_t room, memory_budget(plan, cpu));
  if (!plan.prefill) return choose_cache({options.kv_cache_bytes, room, 1, kCacheOption}, plan);
  BH_TRY(choose_cache({options.decode.kv_cache_bytes, room, 2, kDecodeCacheOption}, plan));
  // The default of one pool does not depend on what the other was given, unless that takes it.
  const uint64_t left = room - plan.cache_bytes;
  const bool by_default = options.prefill.kv_cache_bytes == 0;
  return choose_cache({options.prefill.kv_cache_bytes, by_default ? std::min(room, 4 * left) : left,
                       2, kPrefillCacheOption},
                      *plan.prefill);
}

base::Status check_context(const PoolPlan& pool, int32_t context_tokens, const char* option) {
  if (pool.cache_tokens >= context_tokens) return {};
  return base::Error{
      base::ErrorCode::kResourceExhausted,
      fmt::format("a cache of {} holds {} tokens, fewer than --context-length {}; give {} at least "
                  "{}",
                  format_bytes(pool.cache_bytes), pool.cache_tokens, context_tokens, option,
                  format_bytes(static_cast<uint64_t>(context_tokens) * pool.layout.token_bytes())),
      option};
}

base::Status choose_context(const ModelOptions& options, int32_t model_context, Plan& plan) {
  if (options.context_tokens > model_context) {
    return base::invalid_argument("--context-length",
                                  fmt::format("--context-length {} is beyond the model's {} tokens",
                                              options.context_tokens, model_context));
  }
  const char* decode_option = plan.prefill ? kDecodeCacheOption : kCacheOption;
  if (options.context_tokens > 0) {
    plan.context_tokens = options.context_tokens;
    plan.context_reason = "--context-length";
    if (plan.prefill) {
      BH_TRY(check_context(*plan.prefill, plan.context_tokens, kPrefillCacheOption));
    }
    return check_context(plan, plan.context_tokens, decode_option);
  }
  const bool prefill_is_smaller = plan.prefill && plan.prefill->cache_tokens < plan.cache_tokens;
  const PoolPlan& smallest = prefill_is_smaller ? *plan.prefill : plan;
  plan.context_tokens = std::min(model_context, smallest.cache_tokens);
  plan.context_reason =
      plan.context_tokens == model_context ? "the model's"
      : plan.prefill ? fmt::format("what the {} pool holds; the model could {}",
                                   prefill_is_smaller ? "prefill" : "decode", model_context)
                     : fmt::format("what the cache holds; the model could {}", model_context);
  if (plan.context_tokens < 16) {
    return base::Error{base::ErrorCode::kResourceExhausted,
                       fmt::format("a cache of {} holds {} tokens, too few to serve; a page is {}",
                                   format_bytes(smallest.cache_bytes), smallest.cache_tokens,
                                   format_bytes(smallest.layout.page_bytes())),
                       prefill_is_smaller ? kPrefillCacheOption : decode_option};
  }
  return {};
}

base::Status no_such_pool(const char* option, const char* instead) {
  return base::invalid_argument(option, fmt::format("{} {}", option, instead));
}

// Options that the placement would leave without effect are refused.
base::Status check_placement(const ModelOptions& options) {
  if (options.placement == Placement::kSplit) {
    const kv::PageFormat from = options.prefill.cache_format.value_or(options.cache_format);
    const kv::PageFormat to = options.decode.cache_format.value_or(options.cache_format);
    if (from != to && from != kv::PageFormat::kBf16) {
      return base::invalid_argument(
          "--prefill.kv", fmt::format("pages of {} are not converted to {}; give prefill bf16, or "
                                      "both pools the same",
                                      kv::to_string(from), kv::to_string(to)));
    }
    if (options.kv_cache_bytes == 0) return {};
    return no_such_pool(kCacheOption,
                        "is of the shared placement; in the split one give "
                        "--prefill.kv-cache-memory and --decode.kv-cache-memory");
  }
  const char* instead = "needs --placement split: in the shared one both pools are one";
  const struct {
    const PoolOptions& pool;
    const char* weights;
    const char* activations;
    const char* kv;
    const char* cache;
    const char* integrity;
  } pools[] = {{options.prefill, "--prefill.weights", "--prefill.activations", "--prefill.kv",
                kPrefillCacheOption, "--prefill.kv-integrity"},
               {options.decode, "--decode.weights", "--decode.activations", "--decode.kv",
                kDecodeCacheOption, "--decode.kv-integrity"}};
  for (const auto& one : pools) {
    if (one.pool.weights) return no_such_pool(one.weights, instead);
    if (one.pool.activations) return no_such_pool(one.activations, instead);
    if (one.pool.cache_format) return no_such_pool(one.kv, instead);
    if (one.pool.kv_cache_bytes != 0) return no_such_pool(one.cache, instead);
    if (one.pool.integrity) return no_such_pool(one.integrity, instead);
  }
  return {};
}

}  // namespace

base::Result<Plan> make_plan(const ModelOptions& options, const model::ModelConfig& config,
                             const model::WeightFacts& weights, const device::CpuFacts& cpu,
                             const std::optional<model::WeightFacts>& prefill_weights) {
  BH_TRY(check_placement(options));
  Plan plan;
  BH_TRY(choose_isa(options, cpu, plan));
  plan.threads = options.threads > 0 ? options.threads : cpu.logical_cpus;
  const bool split = options.placement == Placement::kSplit;
  set_weights(options, options.decode, weights,
              weights_reason(options, options.decode, "--decode.weights"), plan);
  BH_TRY(model::check_activations(weights, plan.activations, split ? "--decode." : "--"));
  plan.layout = model::cache_layout(config, options.page_tokens,
                                    options.decode.cache_format.value_or(options.cache_format));
  if (split) {
    plan.prefill = PoolPlan{};
    const model::WeightFacts& facts = prefill_weights ? *prefill_weights : weights;
    set_weights(options, options.prefill, facts,
                weights_reason(options, options.prefill, "--prefill.weights"), *plan.prefill);
    BH_TRY(model::check_activations(facts, plan.prefill->activations, "--prefill."));
    plan.weights_shared = plan.products() == plan.prefill->products();
    plan.prefill->layout = plan.layout;
    plan.prefill->layout.format = options.prefill.cache_format.value_or(options.cache_format);
    plan.prefill->integrity = options.prefill.integrity.value_or(options.integrity);
  }
  BH_TRY(choose_caches(options, cpu, plan));
  BH_TRY(choose_context(options, config.context, plan));
  plan.running_max = options.running_max;
  plan.queued_max = options.queued_max;
  plan.prefill_chunk_tokens = options.prefill_chunk_tokens;
  plan.prefix_cache = options.prefix_cache;
  plan.integrity = options.decode.integrity.value_or(options.integrity);
  plan.scrub_pages = options.scrub_pages;
  plan.inject_faults = options.inject_faults;
  plan.full_context_requests = static_cast<double>(plan.cache_tokens) / plan.context_tokens;
  return plan;
}

base::Result<Plan> make_plan(const ModelOptions& options, const model::Checkpoint& checkpoint,
                             const device::CpuFacts& cpu) {
  BH_TRY(check_placement(options));
  BH_ASSIGN(const model::WeightFacts weights,
            model::weight_facts(checkpoint, recipe_of(options, options.decode)));
  std::optional<model::WeightFacts> prefill;
  if (options.placement == Placement::kSplit) {
    BH_ASSIGN(prefill, model::weight_facts(checkpoint, recipe_of(options, options.prefill)));
  }
  return make_plan(options, checkpoint.config(), weights, cpu, prefill);
}

}  // namespace bulkhead::serve
