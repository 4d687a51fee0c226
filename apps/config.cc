#include <iostream>

#include "commands.h"
#include "device/cpu.h"
#include "model/checkpoint.h"
#include "serve/config/explain.h"
#include "serve/plan.h"
#include "serve/roles/deployment.h"

namespace bulkhead::apps {
namespace {

base::Result<serve::Plan> plan_of(const serve::ServeOptions& options,
                                  const model::Checkpoint& checkpoint) {
  const device::CpuFacts cpu = device::detect_cpu();
  if (options.roles.role == serve::Role::kAll) {
    return serve::make_plan(options.model, checkpoint, cpu);
  }
  return serve::roles::worker_plan(options, checkpoint, cpu);
}

// What the server would make of it; the reason where it would make nothing.
serve::Derived derive(const serve::ServeOptions& options) {
  serve::Derived derived;
  if (options.model.model_path.empty()) {
    derived.problem = "no model is named";
    return derived;
  }
  const base::Result<model::Checkpoint> checkpoint =
      model::Checkpoint::open(options.model.model_path);
  if (!checkpoint.ok()) {
    derived.problem = checkpoint.error().message;
    return derived;
  }
  derived.model_name = checkpoint->name();
  const auto refused = [&derived](const base::Error& error) {
    derived.problem = "it would not start: " + error.message;
    return derived;
  };
  const base::Status roles = serve::roles::check_roles(options);
  if (!roles.ok()) return refused(roles.error());
  if (options.roles.role == serve::Role::kGateway) return derived;  // it runs no model
  base::Result<serve::Plan> plan = plan_of(options, *checkpoint);
  if (!plan.ok()) return refused(plan.error());
  derived.plan = std::move(plan).value();
  return derived;
}

}  // namespace

int run_config_explain(const ConfigExplainOptions& options) {
  const serve::Derived derived = derive(options.settings.options);
  const std::vector<serve::Explanation> all = serve::explain(options.settings, derived);
  std::cout << (options.json ? serve::explanation_json(all, derived)
                             : serve::explanation_text(all, derived));
  return 0;
}

}  // namespace bulkhead::apps
