#include "serve/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace bulkhead::serve {
namespace {

model::StepLimits limits_of(const Plan& plan) {
  const auto running = static_cast<int32_t>(plan.running_max);
  model::StepLimits limits;
  limits.rows_max = std::max(plan.prefill_chunk_tokens, running);
  limits.logits_rows_max = running;
  limits.slices_max = running;
  return limits;
}

wire::GenerateLimits limits_of(const Plan& plan, int32_t vocabulary_size) {
  wire::GenerateLimits limits;
  limits.context_tokens = plan.context_tokens;
  limits.cache_tokens = plan.cache_tokens;
  limits.vocabulary_size = vocabulary_size;
  limits.running_max = plan.running_max;
  limits.queued_max = plan.queued_max;
  return limits;
}

kv::PrefixKey random_secret() {
  std::random_device device;
  kv::PrefixKey secret;
  for (uint8_t& byte : secret) byte = static_cast<uint8_t>(device());
  return secret;
}

}  // namespace

base::Result<std::unique_ptr<Runtime>> Runtime::start(
    const Plan& plan, const kernels::KernelSet& kernels, const model::Checkpoint& checkpoint,
    const base::Clock& clock, telemetry::Registry& registry, base::Logger* logger,
    const model::ProgressFn& progress) {
  std::unique_ptr<Runtime> runtime(new Runtime(clock));
  device::ThreadPoolOptions threads;
  threads.threads = plan.threads;
  runtime->threads_ = std::make_unique<device::ThreadPool>(threads);
  BH_ASSIGN(runtime->decoder_, model::load_decoder(checkpoint, plan.weights, kernels,
                                                   *runtime->threads_, limits_of(plan), progress));
  kv::PagePoolOptions pages;
  pages.pages = plan.pages;
  pages.boot_nonce = static_cast<uint16_t>(std::random_device()());
  BH_ASSIGN(runtime->pages_, kv::PagePool::create(plan.layout, pages));
  BH_ASSIGN(runtime->executor_,
            engine::Executor::create(*runtime->decoder_, runtime->pages_->view()));
  // A page holds what these weights made of its tokens, in its format; others have another name.
  const std::string identity =
      fmt::format("{}/{}/{}/{}", runtime->facts().name, runtime->facts().weight_format,
                  plan.layout.id(), device::to_string(plan.isa));
  runtime->index_ = std::make_unique<kv::PrefixIndex>(
      *runtime->pages_, kv::PrefixIndexOptions{plan.prefix_cache, identity, random_secret()});
  registry.counter("sglang:evicted_tokens_total",
                   "Tokens whose cached pages the prefix index gave up",
                   [index = runtime->index_.get(), tokens = plan.layout.page_tokens] {
                     return static_cast<double>(index->evicted_pages()) * tokens;
                   });
  runtime->wire_pools(plan, registry, logger);
  return runtime;
}

void Runtime::wire_pools(const Plan& plan, telemetry::Registry& registry, base::Logger* logger) {
  const int32_t vocabulary = facts().vocabulary_size;
  sampler_ = std::make_unique<sampling::Sampler>(vocabulary);
  link_ = std::make_unique<transfer::ByReference>(plan.running_max);
  prefill_ = std::make_unique<prefill::PrefillPool>(
      prefill::PrefillOptions{.chunk_tokens = plan.prefill_chunk_tokens,
                              .sequences_max = plan.running_max},
      prefill::PrefillDeps{*pages_, *index_, *executor_, *sampler_, *link_});
  decode_ = std::make_unique<decode::DecodePool>(
      decode::DecodeOptions{.running_max = plan.running_max},
      decode::DecodeDeps{*index_, *executor_, *sampler_, *link_});
  router_ = std::make_unique<router::Router>(
      limits_of(plan, vocabulary),
      router::RouterDeps{*prefill_, *decode_, clock_, registry, logger});
  loop_ = std::make_unique<router::StepLoop>(*router_, clock_);
}

void Runtime::drain(std::chrono::nanoseconds grace) { router_->drain(clock_.now() + grace); }

}  // namespace bulkhead::serve
