// A whole engine for tests: decoder, page pools, both pools, link, router, put together the way the
// server does it, in the shared placement or in the split one.
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
#include "kv/integrity/injector.h"
#include "kv/invariants.h"
#include "kv/page_pool.h"
#include "kv/prefix_index.h"
#include "prefill/prefill_pool.h"
#include "router/router.h"
#include "router/step_loop.h"
#include "sampling/sampler.h"
#include "telemetry/metrics.h"
#include "transfer/by_reference.h"
#include "transfer/converting_link.h"

namespace bulkhead::testing {

struct StackOptions {
  int32_t page_tokens = 16;
  int32_t pages = 64;         // of both pools, or of decode
  int32_t prefill_pages = 0;  // not 0: the split placement
  int32_t link_pages = 16;    // that the link of the split placement copies in one step
  int32_t chunk_tokens = 64;
  uint32_t running_max = 8;
  uint32_t queued_max = 256;
  bool prefix_cache = true;
  int key_bits = 256;                                   // of the prefix index
  kv::PageFormat cache_format = kv::PageFormat::kBf16;  // of both pools, or of decode
  // Of the split placement; null: one decoder serves both pools.
  kv::PageFormat prefill_cache_format = kv::PageFormat::kBf16;
  model::Decoder* prefill_decoder = nullptr;
  // Of both pools; the injectors, where given, are attached to their pool.
  kv::integrity::Mode integrity = kv::integrity::Mode::kOff;
  kv::integrity::Injector* faults = nullptr;          // of the one pool, or of decode's
  kv::integrity::Injector* prefill_faults = nullptr;  // of the split placement
};

class EngineStack {
 public:
  EngineStack(model::Decoder& decoder, const StackOptions& options,
              const base::Clock* clock = nullptr)
      : clock_(clock != nullptr ? *clock : steady_),
        split_(options.prefill_pages > 0),
        pages_(make_pages(decoder, options, options.pages, options.cache_format, options.faults)),
        prefill_pages_(split_ ? make_pages(decoder, options, options.prefill_pages,
                                           options.prefill_cache_format, options.prefill_faults)
                              : nullptr),
        index_(filled_pages(), {.enabled = options.prefix_cache,
                                .identity = "stand-in",
                                .secret = {1},
                                .key_bits = options.key_bits}),
        executor_(take(engine::Executor::create(decoder, pages_->view()))),
        prefill_executor_(take(engine::Executor::create(
            options.prefill_decoder != nullptr ? *options.prefill_decoder : decoder,
            filled_pages().view()))),
        sampler_(decoder.facts().vocabulary_size),
        link_(options.running_max),
        converting_({.capacity = options.running_max, .pages_per_step = options.link_pages},
                    {filled_pages(), *pages_,
                     take(transfer::page_conversion(filled_pages().layout(), pages_->layout()))}),
        prefill_({options.chunk_tokens, options.running_max, !split_},
                 {filled_pages(), index_, *prefill_executor_, sampler_, any_link()}),
        decode_({options.running_max},
                {*executor_, sampler_, any_link(), split_ ? nullptr : &index_,
                 split_ ? pages_.get() : nullptr}),
        router_(limits(decoder, options), {prefill_, decode_, clock_, registry_}) {}

  router::Router& router() { return router_; }
  prefill::PrefillPool& prefill() { return prefill_; }
  const prefill::PrefillPool& prefill() const { return prefill_; }
  const decode::DecodePool& decode() const { return decode_; }
  const transfer::ByReference& link() const { return link_; }
  const transfer::ConvertingLink& converting() const { return converting_; }
  kv::PagePool& pages() { return *pages_; }
  // Where prefill writes and the index reads: its own pages, or those of both.
  kv::PagePool& filled_pages() { return split_ ? *prefill_pages_ : *pages_; }
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

  // Every lease in the pools, to be held against the page pools' own books. Between steps.
  std::vector<kv::Violation> violations() const {
    std::vector<kv::PageRef> filled;   // leases on pages that prefill fills
    std::vector<kv::PageRef> decoded;  // on those that decode reads
    const auto add = [](std::vector<kv::PageRef>& holders, const kv::PageTable& table) {
      for (const kv::Lease& lease : table.leases()) holders.push_back(lease.ref());
    };
    for (const engine::Sequence& sequence : prefill_.sequences()) add(filled, sequence.pages);
    for (const engine::Sequence& sequence : decode_.sequences()) add(decoded, sequence.pages);
    for (const transfer::Handoff& handoff : link_.waiting()) add(filled, handoff.pages);
    for (const auto& parcel : converting_.parcels()) {
      add(filled, parcel.handoff.pages);
      add(decoded, parcel.pages);
    }
    for (const kv::PageRef& ref : index_.holders()) filled.push_back(ref);
    if (!split_) {
      filled.insert(filled.end(), decoded.begin(), decoded.end());
      return kv::validate(pages_->snapshot(), filled);
    }
    auto found = kv::validate(pages_->snapshot(), decoded);
    for (auto& one : kv::validate(prefill_pages_->snapshot(), filled)) {
      found.push_back(std::move(one));
    }
    return found;
  }
  // Mismatches of the kind in all pools; nothing: of every kind.
  uint64_t mismatches(std::optional<kv::integrity::Kind> kind = {}) const {
    uint64_t sum = 0;
    for (const kv::PagePool* pool : {pages_.get(), prefill_pages_.get()}) {
      if (pool == nullptr) continue;
      const auto counts = pool->integrity().report().mismatches;
      for (const kv::integrity::Kind one : kv::integrity::kAllKinds) {
        if (!kind || one == *kind) sum += counts[static_cast<size_t>(one)];
      }
    }
    return sum;
  }
  // CONSERVE: what an idle engine must look like.
  void expect_idle() {
    EXPECT_TRUE(violations().empty()) << kv::describe(violations());
    EXPECT_TRUE(prefill_.sequences().empty());
    EXPECT_TRUE(decode_.sequences().empty());
    EXPECT_EQ(any_link().in_transit(), 0u);
    const wire::GeneratorStatus status = router_.status();
    EXPECT_EQ(status.running, 0u);
    EXPECT_EQ(status.waiting, 0u);
    EXPECT_EQ(status.pages.used(), 0);
    EXPECT_EQ(status.prefill_pages.has_value(), split_);
    const wire::PageGauges& filled = split_ ? *status.prefill_pages : status.pages;
    EXPECT_EQ(filled.used(), 0);
    EXPECT_EQ(filled.cached, index_.size());
    index_.clear();
    for (kv::PagePool* pool : {pages_.get(), &filled_pages()}) {
      const auto found = kv::validate_idle(pool->snapshot());
      EXPECT_TRUE(found.empty()) << kv::describe(found);
    }
  }

 private:
  template <typename T>
  static T take(base::Result<T> result) {
    BH_CHECK(result.ok(), result.error().message);
    return std::move(result).value();
  }
  transfer::Link& any_link() {
    if (split_) return converting_;
    return link_;
  }
  static std::unique_ptr<kv::PagePool> make_pages(const model::Decoder& decoder,
                                                  const StackOptions& options, int32_t pages,
                                                  kv::PageFormat format,
                                                  kv::integrity::Injector* faults) {
    kv::PageLayout layout = decoder.facts().cache;
    layout.page_tokens = options.page_tokens;
    layout.format = format;
    auto pool = take(kv::PagePool::create(layout, {.pages = pages,
                                                   .boot_nonce = 0xB017,
                                                   .poison_free = true,
                                                   .integrity = {.mode = options.integrity},
                                                   .faults = faults}));
    if (faults != nullptr) faults->attach(*pool);
    return pool;
  }
  static wire::GenerateLimits limits(const model::Decoder& decoder, const StackOptions& options) {
    return {decoder.facts().context_tokens,
            options.pages * options.page_tokens,
            decoder.facts().vocabulary_size,
            options.running_max,
            options.queued_max,
            options.prefill_pages * options.page_tokens};
  }

  const base::SteadyClock steady_;
  const base::Clock& clock_;
  telemetry::Registry registry_;
  const bool split_;
  std::unique_ptr<kv::PagePool> pages_;
  std::unique_ptr<kv::PagePool> prefill_pages_;
  kv::PrefixIndex index_;
  std::unique_ptr<engine::Executor> executor_;
  std::unique_ptr<engine::Executor> prefill_executor_;
  sampling::Sampler sampler_;
  transfer::ByReference link_;           // of the shared placement
  transfer::ConvertingLink converting_;  // of the split one
  prefill::PrefillPool prefill_;
  decode::DecodePool decode_;
  router::Router router_;
};

}  // namespace bulkhead::testing
