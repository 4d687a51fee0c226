#include "serve/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/units.h"

namespace bulkhead::serve {
namespace {

using base::format_bytes;

// The cache is touched at start, so its default stays where that costs well under a second.
constexpr uint64_t kCacheBytesDefaultMax = 2ull << 30;
// Part of memory that weights and cache together may take; the rest is for the system, step buffers
// and the page cache of the checkpoint.
constexpr double kMemoryShare = 0.85;

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

std::string weights_text(const ModelOptions& options, const model::WeightFacts& weights) {
  std::string text = weights.format + (options.weights ? " (--weights" : " (as stored");
  if (weights.requantised > 0) {
    text += fmt::format("; {} tensors quantised again, from {}", weights.requantised,
                        weights.requantised_from);
  }
  return text + ")";
}

base::Status choose_cache(const ModelOptions& options, const device::CpuFacts& cpu, Plan& plan) {
  const auto budget = static_cast<uint64_t>(static_cast<double>(cpu.memory_bytes) * kMemoryShare);
  if (plan.weight_bytes >= budget) {
    return base::Error{base::ErrorCode::kResourceExhausted,
                       fmt::format("the weights need {} and this machine has {} of memory; use a "
                                   "smaller model",
                                   format_bytes(plan.weight_bytes), format_bytes(cpu.memory_bytes)),
                       {}};
  }
  const uint64_t room = budget - plan.weight_bytes;
  uint64_t bytes = options.kv_cache_bytes;
  if (bytes == 0) {
    bytes = std::min(room / 4, kCacheBytesDefaultMax);
    plan.cache_reason = fmt::format("default: a quarter of the free {}, at most {}",
                                    format_bytes(room), format_bytes(kCacheBytesDefaultMax));
  } else {
    plan.cache_reason = "--kv-cache-memory";
  }
  if (bytes > room) {
    return base::Error{
        base::ErrorCode::kResourceExhausted,
        fmt::format("--kv-cache-memory {} does not fit beside {} of weights in {}; at most {}",
                    format_bytes(bytes), format_bytes(plan.weight_bytes),
                    format_bytes(cpu.memory_bytes), format_bytes(room)),
        "--kv-cache-memory"};
  }
  const uint64_t page_bytes = plan.layout.page_bytes();
  // Token counts are 32-bit throughout; nobody's cache is near that today.
  const uint64_t pages_max = static_cast<uint64_t>(std::numeric_limits<int32_t>::max()) /
                             static_cast<uint64_t>(plan.layout.page_tokens);
  plan.pages = static_cast<int32_t>(std::min(bytes / page_bytes, pages_max));
  plan.cache_tokens = plan.pages * plan.layout.page_tokens;
  plan.cache_bytes = static_cast<uint64_t>(plan.pages) * page_bytes;
  return {};
}

base::Status choose_context(const ModelOptions& options, int32_t model_context, Plan& plan) {
  if (options.context_tokens > model_context) {
    return base::invalid_argument("--context-length",
                                  fmt::format("--context-length {} is beyond the model's {} tokens",
                                              options.context_tokens, model_context));
  }
  if (options.context_tokens > 0) {
    plan.context_tokens = options.context_tokens;
    plan.context_reason = "--context-length";
    if (plan.cache_tokens < plan.context_tokens) {
      return base::Error{
          base::ErrorCode::kResourceExhausted,
          fmt::format(
              "a cache of {} holds {} tokens, fewer than --context-length {}; give "
              "--kv-cache-memory at least {}",
              format_bytes(plan.cache_bytes), plan.cache_tokens, plan.context_tokens,
              format_bytes(static_cast<uint64_t>(plan.context_tokens) * plan.layout.token_bytes())),
          "--kv-cache-memory"};
    }
    return {};
  }
  plan.context_tokens = std::min(model_context, plan.cache_tokens);
  plan.context_reason =
      plan.context_tokens == model_context
          ? "the model's"
          : fmt::format("what the cache holds; the model could {}", model_context);
  if (plan.context_tokens < 16) {
    return base::Error{base::ErrorCode::kResourceExhausted,
                       fmt::format("a cache of {} holds {} tokens, too few to serve; a page is {}",
                                   format_bytes(plan.cache_bytes), plan.cache_tokens,
                                   format_bytes(plan.layout.page_bytes())),
                       "--kv-cache-memory"};
  }
  return {};
}

}  // namespace

base::Result<Plan> make_plan(const ModelOptions& options, const model::ModelConfig& config,
                             const model::WeightFacts& weights, const device::CpuFacts& cpu) {
  Plan plan;
  BH_TRY(choose_isa(options, cpu, plan));
  plan.threads = options.threads > 0 ? options.threads : cpu.logical_cpus;
  plan.weights = options.weights;
  plan.weights_text = weights_text(options, weights);
  plan.weight_bytes = weights.bytes;
  plan.layout = model::cache_layout(config, options.page_tokens, options.cache_format);
  BH_TRY(choose_cache(options, cpu, plan));
  BH_TRY(choose_context(options, config.context, plan));
  plan.running_max = options.running_max;
  plan.queued_max = options.queued_max;
  plan.prefill_chunk_tokens = options.prefill_chunk_tokens;
  plan.prefix_cache = options.prefix_cache;
  plan.full_context_requests = static_cast<double>(plan.cache_tokens) / plan.context_tokens;
  return plan;
}

base::Result<Plan> make_plan(const ModelOptions& options, const model::Checkpoint& checkpoint,
                             const device::CpuFacts& cpu) {
  BH_ASSIGN(const model::WeightFacts weights, model::weight_facts(checkpoint, options.weights));
  return make_plan(options, checkpoint.config(), weights, cpu);
}

}  // namespace bulkhead::serve
