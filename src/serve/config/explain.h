// Tells every option's effective value, where it comes from and why: what `bulkhead config explain`
// prints.
//
// Threads: pure functions. Invariants: every option of the table is told; the text is itself a
// deployment file that gives the same values; keys are never shown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "serve/config/settings.h"
#include "serve/plan.h"

namespace bulkhead::serve {

// What model and machine make of the options that were left open.
struct Derived {
  std::optional<Plan> plan;
  std::string model_name;
  std::string problem;  // why there is no plan: no model is named, or it would not start
};

struct Explanation {
  const OptionSpec* spec = nullptr;
  std::string value;   // as the option takes it; empty: nothing
  std::string source;  // "default", "derived", "file", "environment", "flag"
  std::string where;   // "deployment.toml:7", "--isa"; empty for the first two
  std::string why;
};

std::vector<Explanation> explain(const Settings& settings, const Derived& derived);

std::string explanation_text(const std::vector<Explanation>& all, const Derived& derived);
std::string explanation_json(const std::vector<Explanation>& all, const Derived& derived);

}  // namespace bulkhead::serve
