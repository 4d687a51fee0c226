#include <iostream>

#include "commands.h"
#include "device/cpu.h"

namespace bulkhead::apps {
namespace {

int fail(const base::Error& error) {
  std::cerr << "error: " << error.message << '\n';
  return error.code == base::ErrorCode::kInvalidArgument ? 2 : 1;
}

bool fits(const serve::CapacityPlan& plan) {
  return plan.prefill.problem.empty() && plan.decode.problem.empty();
}

}  // namespace

int run_plan(const PlanOptions& options) {
  auto model = serve::load_planned_model(options.model_path);
  if (!model.ok()) return fail(model.error());
  serve::CapacityOptions capacity = options.capacity;
  for (serve::PoolWish* pool : {&capacity.prefill, &capacity.decode}) {
    if (pool->weights.empty()) pool->weights = options.weights;
  }
  if (capacity.memory_bytes == 0) {
    capacity.memory_bytes = device::detect_cpu().memory_bytes;
    capacity.machines_memory = true;
  }
  const auto plan = serve::plan_capacity(std::move(model).value(), capacity);
  if (!plan.ok()) return fail(plan.error());
  std::cout << (options.json ? serve::capacity_json(*plan) + "\n" : serve::capacity_text(*plan));
  return fits(*plan) ? 0 : 1;
}

}  // namespace bulkhead::apps
