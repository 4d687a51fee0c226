#include <iostream>

#include "apps/bench/reproduce/workbench.h"
#include "apps/build_commit.h"
#include "commands.h"

namespace bulkhead::apps {

int run_bench_reproduce(ReproduceOptions options) {
  options.commit = build_commit();
  const base::Result<bool> holds = reproduce::reproduce(options, std::cout, std::cerr);
  if (holds.ok()) return *holds ? 0 : 1;
  std::cerr << "error: " << holds.error().message << '\n';
  return holds.error().code == base::ErrorCode::kInvalidArgument ? 2 : 1;
}

}  // namespace bulkhead::apps
