#include "serve/start_metrics.h"

#include <string>
#include <utility>

namespace bulkhead::serve {

void register_plan(telemetry::Registry& registry, const Plan& plan,
                   const kernels::KernelSet& kernels) {
  registry.info(
      "bulkhead_kernels_info", "The kernel path in use.",
      {{"isa", std::string(device::to_string(kernels.isa))}, {"kernels", kernels.description}});
  const auto pool = [&registry](const PoolPlan& of, telemetry::Labels labels) {
    labels.emplace_back("block_size", std::to_string(of.layout.page_tokens));
    labels.emplace_back("num_gpu_blocks", std::to_string(of.pages));
    labels.emplace_back("cache_dtype", std::string(kv::to_string(of.layout.format)));
    registry.info("vllm:cache_config_info", "Size and format of the page pool.", std::move(labels));
  };
  if (!plan.prefill) return pool(plan, {});
  pool(plan, {{"pool", "decode"}});
  pool(*plan.prefill, {{"pool", "prefill"}});
}

void register_start(telemetry::Registry& registry, double load_seconds, double ready_seconds) {
  registry.gauge("sglang:engine_startup_time", "Seconds from the start to readiness",
                 [ready_seconds] { return ready_seconds; });
  registry.gauge("sglang:engine_load_weights_time", "Seconds that the weights took to load",
                 [load_seconds] { return load_seconds; });
}

}  // namespace bulkhead::serve
