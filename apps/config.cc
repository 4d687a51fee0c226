#include <iostream>

#include "commands.h"
#include "device/cpu.h"
#include "model/checkpoint.h"
#include "serve/config/explain.h"
#include "serve/plan.h"

namespace bulkhead::apps {
namespace {

// What the server would make of it; the reason where it would make nothing.
serve::Derived derive(const serve::ModelOptions& options) {
  serve::Derived derived;
  if (options.model_path.empty()) {
    derived.problem = "no model is named";
    return derived;
  }
  const base::Result<model::Checkpoint> checkpoint = model::Checkpoint::open(options.model_path);
  if (!checkpoint.ok()) {
    derived.problem = checkpoint.error().message;
    return derived;
  }
  derived.model_name = checkpoint->name();
  base::Result<serve::Plan> plan = serve::make_plan(options, *checkpoint, device::detect_cpu());
  if (plan.ok()) {
    derived.plan = std::move(plan).value();
  } else {
    derived.problem = "it would not start: " + plan.error().message;
  }
  return derived;
}

}  // namespace

int run_config_explain(const ConfigExplainOptions& options) {
  const serve::Derived derived = derive(options.settings.options.model);
  const std::vector<serve::Explanation> all = serve::explain(options.settings, derived);
  std::cout << (options.json ? serve::explanation_json(all, derived)
                             : serve::explanation_text(all, derived));
  return 0;
}

}  // namespace bulkhead::apps
