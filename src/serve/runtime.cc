#include "serve/runtime.h"

#include <fmt/format.h>

#include <algorithm>

#include "transfer/by_reference.h"
#include "transfer/converting_link.h"
#include "wire/secrets.h"

namespace bulkhead::serve {
namespace {

model::StepLimits step_limits(const Plan& plan, int32_t rows) {
  const auto running = static_cast<int32_t>(plan.running_max);
  model::StepLimits limits;
  limits.rows_max = std::max(rows, running);
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
  if (plan.prefill) limits.prefill_cache_tokens = plan.prefill->cache_tokens;
  return limits;
}

kv::integrity::Mark random_mark() {
  const uint64_t high = wire::draw_word();
  return {high, wire::draw_word()};
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
  BH_TRY(runtime->load_weights(plan, kernels, checkpoint, progress));
  BH_TRY(runtime->make_caches(plan, registry, logger));
  BH_TRY(runtime->make_link(plan));
  runtime->wire_pools(plan, registry, logger);
  return runtime;
}

base::Status Runtime::load_weights(const Plan& plan, const kernels::KernelSet& kernels,
                                   const model::Checkpoint& checkpoint,
                                   const model::ProgressFn& progress) {
  const int32_t chunk = plan.prefill_chunk_tokens;
  if (plan.weights_shared) {
    BH_ASSIGN(decoder_, model::load_decoder(checkpoint, plan.load_options(), kernels, *threads_,
                                            step_limits(plan, chunk), progress));
    return {};
  }
  // One bar for both: the checkpoint is read twice.
  const auto half = [&progress](uint64_t which) {
    return [&progress, which](model::LoadProgress at) {
      at.bytes_done += which * at.bytes_total;
      at.bytes_total *= 2;
      at.tensors_done += static_cast<uint32_t>(which) * at.tensors_total;
      at.tensors_total *= 2;
      if (progress) progress(at);
    };
  };
  BH_ASSIGN(decoder_, model::load_decoder(checkpoint, plan.load_options(), kernels, *threads_,
                                          step_limits(plan, 0), half(0)));
  BH_ASSIGN(prefill_decoder_, model::load_decoder(checkpoint, plan.prefill->load_options(), kernels,
                                                  *threads_, step_limits(plan, chunk), half(1)));
  return {};
}

base::Result<std::unique_ptr<kv::PagePool>> Runtime::make_pool(const Plan& plan,
                                                               const PoolPlan& pool,
                                                               const std::string& name,
                                                               const kv::integrity::Mark& stamp_key,
                                                               base::Logger* logger) {
  kv::PagePoolOptions options;
  options.pages = pool.pages;
  options.boot_nonce = static_cast<uint16_t>(wire::draw_word());
  options.integrity = {pool.integrity, name, logger, stamp_key};
  kv::integrity::Injector* injector = nullptr;
  if (plan.inject_faults) {
    injectors_.push_back(std::make_unique<kv::integrity::Injector>(wire::draw_word()));
    options.faults = injector = injectors_.back().get();
  }
  BH_ASSIGN(std::unique_ptr<kv::PagePool> made, kv::PagePool::create(pool.layout, options));
  if (injector != nullptr) injector->attach(*made);
  integrity_.add(name, *made, injector);
  return made;
}

base::Status Runtime::make_caches(const Plan& plan, telemetry::Registry& registry,
                                  base::Logger* logger) {
  const kv::integrity::Mark stamp_key = random_mark();
  model::Decoder& prefill_decoder = prefill_decoder_ ? *prefill_decoder_ : *decoder_;
  if (plan.prefill) {
    BH_ASSIGN(prefill_pages_, make_pool(plan, *plan.prefill, "prefill", stamp_key, logger));
    BH_ASSIGN(prefill_executor_, engine::Executor::create(prefill_decoder, prefill_pages_->view()));
  }
  BH_ASSIGN(pages_, make_pool(plan, plan, plan.prefill ? "decode" : "shared", stamp_key, logger));
  BH_ASSIGN(executor_, engine::Executor::create(*decoder_, pages_->view()));
  integrity_.register_metrics(registry);
  kv::PagePool& filled = prefill_pages_ ? *prefill_pages_ : *pages_;
  // A page holds what these weights made of its tokens, in its format; others have another name.
  const std::string identity = fmt::format("{}/{}/{}/{}", prefill_decoder.facts().name,
                                           prefill_decoder.facts().weight_format,
                                           filled.layout().id(), device::to_string(plan.isa));
  index_ = std::make_unique<kv::PrefixIndex>(
      filled, kv::PrefixIndexOptions{plan.prefix_cache, identity,
                                     wire::draw_bytes<sizeof(kv::PrefixKey)>()});
  registry.counter("sglang:evicted_tokens_total",
                   "Tokens whose cached pages the prefix index gave up",
                   [index = index_.get(), tokens = plan.layout.page_tokens] {
                     return static_cast<double>(index->evicted_pages()) * tokens;
                   });
  return {};
}

base::Status Runtime::make_link(const Plan& plan) {
  if (!plan.prefill) {
    link_ = std::make_unique<transfer::ByReference>(plan.running_max);
    return {};
  }
  BH_ASSIGN(transfer::ConvertPage convert,
            transfer::page_conversion(prefill_pages_->layout(), pages_->layout()));
  // Twice what one step of prefill can fill, so that the link catches up and decode never waits
  // for more.
  const int32_t chunk_pages =
      (plan.prefill_chunk_tokens + plan.layout.page_tokens - 1) / plan.layout.page_tokens;
  link_ = std::make_unique<transfer::ConvertingLink>(
      transfer::ConvertingLinkOptions{.capacity = plan.running_max,
                                      .pages_per_step = 2 * chunk_pages},
      transfer::ConvertingLinkDeps{*prefill_pages_, *pages_, std::move(convert), threads_.get()});
  return {};
}

void Runtime::wire_pools(const Plan& plan, telemetry::Registry& registry, base::Logger* logger) {
  const int32_t vocabulary = facts().vocabulary_size;
  sampler_ = std::make_unique<sampling::Sampler>(vocabulary);
  const bool split = prefill_pages_ != nullptr;
  prefill_ = std::make_unique<prefill::PrefillPool>(
      prefill::PrefillOptions{.chunk_tokens = plan.prefill_chunk_tokens,
                              .sequences_max = plan.running_max,
                              .shares_pages = !split,
                              .scrub = {.pages_at_rest = plan.scrub_pages}},
      prefill::PrefillDeps{split ? *prefill_pages_ : *pages_, *index_,
                           split ? *prefill_executor_ : *executor_, *sampler_, *link_});
  decode_ = std::make_unique<decode::DecodePool>(
      decode::DecodeOptions{.running_max = plan.running_max},
      decode::DecodeDeps{*executor_, *sampler_, *link_, split ? nullptr : index_.get(),
                         split ? pages_.get() : nullptr});
  router_ = std::make_unique<router::Router>(
      limits_of(plan, vocabulary),
      router::RouterDeps{*prefill_, *decode_, clock_, registry, logger});
  loop_ = std::make_unique<router::StepLoop>(*router_, clock_);
}

void Runtime::drain(std::chrono::nanoseconds grace) { router_->drain(clock_.now() + grace); }

}  // namespace bulkhead::serve
