// A whole engine for tests: decoder, page pool, both pools, link, router, put together the way the
// server does it.
//
// Threads: step() and the pools on one thread; router() as its header says.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "decode/decode_pool.h"
#include "engine/executor.h"
#include "engine/testing/collecting_sink.h"
#include "kv/invariants.h"
#include "kv/page_pool.h"
#include "kv/prefix_index.h"
#include "prefill/prefill_pool.h"
#include "router/router.h"
#include "router/step_loop.h"
#include "sampling/sampler.h"
#include "telemetry/metrics.h"
#include "transfer/by_reference.h"

namespace bulkhead::testing {

struct StackOptions {
  int32_t page_tokens = 16;
  int32_t pages = 64;
  int32_t chunk_tokens = 64;
  uint32_t running_max = 8;
  uint32_t queued_max = 256;
  bool prefix_cache = true;
  kv::PageFormat cache_format = kv::PageFormat::kBf16;
};

class EngineStack {
 public:
  EngineStack(model::Decoder& decoder, const StackOptions& options,
              const base::Clock* clock = nullptr)
      : clock_(clock != nullptr ? *clock : steady_),
        pages_(make_pages(decoder, options)),
        index_(*pages_, {.enabled = options.prefix_cache, .identity = "stand-in", .secret = {1}}),
        executor_(take(engine::Executor::create(decoder, pages_->view()))),
        sampler_(decoder.facts().vocabulary_size),
        link_(options.running_max),
        prefill_({options.chunk_tokens, options.running_max},
                 {*pages_, index_, *executor_, sampler_, link_}),
        decode_({options.running_max}, {index_, *executor_, sampler_, link_}),
        router_(limits(decoder, options), {prefill_, decode_, clock_, registry_}) {}

  router::Router& router() { return router_; }
  prefill::PrefillPool& prefill() { return prefill_; }
  const prefill::PrefillPool& prefill() const { return prefill_; }
  const decode::DecodePool& decode() const { return decode_; }
  const transfer::ByReference& link() const { return link_; }
  kv::PagePool& pages() { return *pages_; }
  kv::PrefixIndex& index() { return index_; }
  telemetry::Registry& registry() { return registry_; }
  const base::Clock& clock() const { return clock_; }

  struct Running {
    wire::RequestId id = 0;
    std::shared_ptr<engine::testing::CollectingSink> sink;
    base::Status status;
  };
  Running submit(wire::GenerateRequest request) {
    Running running{router_.next_id(), std::make_shared<engine::testing::CollectingSink>(), {}};
    request.id = running.id;
    running.status = router_.submit(std::move(request), running.sink);
    return running;
  }
  Running submit(std::vector<wire::TokenId> prompt, int32_t max_tokens) {
    wire::GenerateRequest request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0.0f;
    return submit(std::move(request));
  }

  wire::StepOutcome step() { return router_.step(); }
  // Steps until nothing is left to do; false when that does not come within `steps`.
  bool run_until_idle(int steps = 100000) {
    for (int i = 0; i < steps; ++i) {
      if (router_.step() == wire::StepOutcome::kIdle) return true;
    }
    return false;
  }

  // Every lease in the pools, to be held against the page pool's own books. Between steps.
  std::vector<kv::Violation> violations() const {
    std::vector<kv::PageRef> holders;
    const auto add = [&holders](std::span<const engine::Sequence> sequences) {
      for (const engine::Sequence& sequence : sequences) {
        for (const kv::Lease& lease : sequence.pages.leases()) holders.push_back(lease.ref());
      }
    };
    add(prefill_.sequences());
    add(decode_.sequences());
    for (const transfer::Handoff& handoff : link_.waiting()) {
      for (const kv::Lease& lease : handoff.pages.leases()) holders.push_back(lease.ref());
    }
    for (const kv::PageRef& ref : index_.holders()) holders.push_back(ref);
    return kv::validate(pages_->snapshot(), holders);
  }
  // CONSERVE: what an idle engine must look like.
  void expect_idle() {
    EXPECT_TRUE(violations().empty()) << kv::describe(violations());
    EXPECT_TRUE(prefill_.sequences().empty());
    EXPECT_TRUE(decode_.sequences().empty());
    EXPECT_EQ(link_.in_transit(), 0u);
    const wire::GeneratorStatus status = router_.status();
    EXPECT_EQ(status.running, 0u);
    EXPECT_EQ(status.waiting, 0u);
    EXPECT_EQ(status.pages_free + status.pages_cached, status.pages_total);
    EXPECT_EQ(status.pages_cached, index_.size());
    index_.clear();
    const auto found = kv::validate_idle(pages_->snapshot());
    EXPECT_TRUE(found.empty()) << kv::describe(found);
  }

 private:
  template <typename T>
  static T take(base::Result<T> result) {
    BH_CHECK(result.ok(), result.error().message);
    return std::move(result).value();
  }
  static std::unique_ptr<kv::PagePool> make_pages(const model::Decoder& decoder,
                                                  const StackOptions& options) {
    kv::PageLayout layout = decoder.facts().cache;
    layout.page_tokens = options.page_tokens;
    layout.format = options.cache_format;
    return take(kv::PagePool::create(
        layout, {.pages = options.pages, .boot_nonce = 0xB017, .poison_free = true}));
  }
  static wire::GenerateLimits limits(const model::Decoder& decoder, const StackOptions& options) {
    return {decoder.facts().context_tokens, options.pages * options.page_tokens,
            decoder.facts().vocabulary_size, options.running_max, options.queued_max};
  }

  const base::SteadyClock steady_;
  const base::Clock& clock_;
  telemetry::Registry registry_;
  std::unique_ptr<kv::PagePool> pages_;
  kv::PrefixIndex index_;
  std::unique_ptr<engine::Executor> executor_;
  sampling::Sampler sampler_;
  transfer::ByReference link_;
  prefill::PrefillPool prefill_;
  decode::DecodePool decode_;
  router::Router router_;
};

}  // namespace bulkhead::testing
