// The parts of `bulkhead bench reproduce`, of which a run may leave some out.
//
// Threads: pure functions. Invariant: parts run in the order of kReproduceParts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/bench/options.h"

namespace bulkhead::apps::reproduce {

// The small model of the source checkout.
inline constexpr const char* kTinyMoe = "tiny-moe";

bool takes_part(const ReproduceOptions& options, std::string_view part);

// The models that the parts of a run load, each named once.
std::vector<std::string> models_to_load(const ReproduceOptions& options);

// How long a run will take on a machine of so many operations per second: a guess, from runs on one
// kind of machine.
double seconds_of_run(const ReproduceOptions& options, double peak_operations);
// "caches 4, weights 5: about 9 minutes"
std::string estimate_text(const ReproduceOptions& options, double peak_operations);

// The models of a run, by their presets' names (tools/checkpoints); the small one stands in
// models/.
struct ReproduceModels {
  std::string latent;   // for what is said of caches
  std::string grouped;  // the shape whose attention is bound by memory
  std::string weights;  // for what is said of weights
  std::string small;    // whose steps are short, so that whatever comes on top shows
};
ReproduceModels models_of(const ReproduceOptions& options);

}  // namespace bulkhead::apps::reproduce
