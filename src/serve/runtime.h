// A model that is loaded and generating: weights, caches, pools, router and the step thread, wired
// in the shared placement or in the split one. What `serve` puts HTTP in front of and `generate`
// calls directly.
//
// Threads: start() and stop() on one thread; generator() may be used by any.
// Invariants: members are declared in the order they depend on each other and die in the reverse
// one, the step thread first.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "decode/decode_pool.h"
#include "device/thread_pool.h"
#include "engine/executor.h"
#include "kernels/kernel_set.h"
#include "kv/page_pool.h"
#include "kv/prefix_index.h"
#include "model/checkpoint.h"
#include "model/loader.h"
#include "prefill/prefill_pool.h"
#include "router/router.h"
#include "router/step_loop.h"
#include "sampling/sampler.h"
#include "serve/engine.h"
#include "serve/plan.h"
#include "serve/pool_integrity.h"
#include "serve/text_loading.h"
#include "telemetry/metrics.h"
#include "transfer/link.h"

namespace bulkhead::serve {

class Runtime final : public Engine {
 public:
  // Loads the weights (`progress` hears of it) and starts the step thread. `clock`, `registry` and
  // `logger` (of the periodic lines; may be null) outlive the runtime.
  static base::Result<std::unique_ptr<Runtime>> start(
      const Plan& plan, const kernels::KernelSet& kernels, const model::Checkpoint& checkpoint,
      const base::Clock& clock, telemetry::Registry& registry, base::Logger* logger,
      const model::ProgressFn& progress);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  wire::Generator& generator() override { return *router_; }
  wire::IntegrityPort* integrity() override { return &integrity_; }
  const model::ModelFacts& facts() const { return decoder_->facts(); }
  bool drained() const override { return router_->drained(); }
  void drain(std::chrono::nanoseconds grace) override;
  void stop() override { loop_->stop(std::chrono::nanoseconds(0)); }

 private:
  explicit Runtime(const base::Clock& clock) : clock_(clock) {}
  base::Status load_weights(const Plan& plan, const kernels::KernelSet& kernels,
                            const model::Checkpoint& checkpoint, const model::ProgressFn& progress);
  base::Status make_caches(const Plan& plan, telemetry::Registry& registry, base::Logger* logger);
  base::Result<std::unique_ptr<kv::PagePool>> make_pool(const Plan& plan, const PoolPlan& pool,
                                                        const std::string& name,
                                                        const kv::integrity::Mark& stamp_key,
                                                        base::Logger* logger);
  base::Status make_link(const Plan& plan);
  void wire_pools(const Plan& plan, telemetry::Registry& registry, base::Logger* logger);

  const base::Clock& clock_;
  std::unique_ptr<device::ThreadPool> threads_;
  std::unique_ptr<model::Decoder> decoder_;                          // of decode, or of both
  std::unique_ptr<model::Decoder> prefill_decoder_;                  // null: decode's serves both
  std::vector<std::unique_ptr<kv::integrity::Injector>> injectors_;  // of a server under test
  PoolIntegrity integrity_;
  std::unique_ptr<kv::PagePool> pages_;          // of decode, or of both
  std::unique_ptr<kv::PagePool> prefill_pages_;  // null in the shared placement
  std::unique_ptr<kv::PrefixIndex> index_;       // over the pages that prefill fills
  std::unique_ptr<engine::Executor> executor_;
  std::unique_ptr<engine::Executor> prefill_executor_;  // null in the shared placement
  std::unique_ptr<sampling::Sampler> sampler_;
  std::unique_ptr<transfer::Link> link_;
  std::unique_ptr<prefill::PrefillPool> prefill_;
  std::unique_ptr<decode::DecodePool> decode_;
  std::unique_ptr<router::Router> router_;
  std::unique_ptr<router::StepLoop> loop_;
};

}  // namespace bulkhead::serve
