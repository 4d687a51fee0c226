#include "apps/bench/reproduce/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace bulkhead::apps::reproduce {
namespace {

// Seconds on two cores of a Zen 4 server, whose peak is this many operations per second.
constexpr double kKnownPeak = 199e9;

struct Length {
  std::string_view part;
  double once;   // loading weights and filling caches
  double round;  // one of everything that is timed in turn
};
constexpr Length kLengths[] = {
    {"sizes", 0.0, 0.0},         {"caches", 35.0, 4.5},    {"weights", 235.0, 46.0},
    {"deployments", 170.0, 6.0}, {"integrity", 30.0, 3.5},
};

double seconds_of_part(const ReproduceOptions& options, std::string_view part, double peak) {
  if (!takes_part(options, part)) return 0.0;
  if (options.quick) return 2.0;
  double seconds = 0.0;
  for (const Length& length : kLengths) {
    if (length.part == part) seconds = length.once + length.round * options.rounds;
  }
  seconds *= kKnownPeak / peak;
  return part == "integrity" ? seconds + 2.0 * options.seconds : seconds;
}

}  // namespace

bool takes_part(const ReproduceOptions& options, std::string_view part) {
  return options.only.empty() ||
         std::find(options.only.begin(), options.only.end(), part) != options.only.end();
}

ReproduceModels models_of(const ReproduceOptions& options) {
  if (options.quick) return {"nano", "nano-L", "nano", "nano"};
  return {"mini-K", "mini-L", "mini-G", kTinyMoe};
}

std::vector<std::string> models_to_load(const ReproduceOptions& options) {
  const ReproduceModels models = models_of(options);
  std::set<std::string> names;
  if (takes_part(options, "caches")) names.insert({models.latent, models.grouped});
  if (takes_part(options, "weights")) names.insert(models.weights);
  if (takes_part(options, "deployments")) names.insert({models.latent, models.weights});
  if (takes_part(options, "integrity")) names.insert({models.latent, models.small});
  return {names.begin(), names.end()};
}

double seconds_of_run(const ReproduceOptions& options, double peak_operations) {
  double seconds = 0.0;
  for (const char* part : kReproduceParts) {
    seconds += seconds_of_part(options, part, peak_operations);
  }
  return seconds;
}

std::string estimate_text(const ReproduceOptions& options, double peak_operations) {
  std::string parts;
  for (const char* part : kReproduceParts) {
    if (!takes_part(options, part)) continue;
    parts += fmt::format("{}{} {:.1f}", parts.empty() ? "" : ", ", part,
                         seconds_of_part(options, part, peak_operations) / 60.0);
  }
  return fmt::format("{}: about {:.0f} minutes", parts,
                     std::ceil(seconds_of_run(options, peak_operations) / 60.0));
}

}  // namespace bulkhead::apps::reproduce
