#include "apps/quantize/tables.h"

#include <fmt/format.h>

#include "base/units.h"
#include "model/weight_sizes.h"

namespace bulkhead::apps {
namespace {

using base::format_bytes;
using base::format_count;
using model::write::KindSummary;
using model::write::TensorError;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr size_t kWorst = 10;

std::string gib(uint64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / kGiB);
}

std::string percent(double share) { return fmt::format("{:.2f} %", share * 100.0); }

uint64_t total_of(const model::WeightSizes& sizes, std::string_view kind) {
  const model::WeightShare* share = sizes.find(kind);
  return share == nullptr ? 0 : share->total();
}

}  // namespace

std::string config_table(const model::ModelConfig& config, const model::WeightRecipe& recipe,
                         int ranks) {
  const model::WeightSizes bf16 = model::sizes_of(config, {});
  const model::WeightSizes fp8 = model::sizes_of(config, *model::parse_recipe("fp8"));
  const model::WeightSizes chosen = model::sizes_of(config, recipe);
  const auto line = [](std::string_view kind, const std::string& elements, const std::string& a,
                       const std::string& b, const std::string& c) {
    return fmt::format("{:<28}{:>20}{:>14}{:>14}{:>14}\n", kind, elements, a, b, c);
  };
  const std::string name = recipe.text();
  std::string out = line("kind", "elements", "bf16", "fp8", name.size() > 13 ? "recipe" : name);
  for (const model::WeightShare& share : chosen.shares) {
    out += line(share.name, format_count(share.elements), gib(total_of(bf16, share.name)),
                gib(total_of(fp8, share.name)), gib(share.total()));
  }
  out += line("total", format_count(chosen.elements()), gib(bf16.bytes()), gib(fp8.bytes()),
              gib(chosen.bytes()));
  out += line(fmt::format("each of {} ranks, evenly", ranks), "", gib(bf16.even_bytes(ranks)),
              gib(fp8.even_bytes(ranks)), gib(chosen.even_bytes(ranks)));
  out += line(fmt::format("each of {} ranks, serving", ranks), "", gib(bf16.serving_bytes(ranks)),
              gib(fp8.serving_bytes(ranks)), gib(chosen.serving_bytes(ranks)));
  out +=
      "Serving: small tensors (norms, routers, projections to latent vectors, the indexer) whole "
      "on "
      "each\nrank, prediction layers left out.";
  for (const std::string& prefix : config.ignored_prefixes) {
    out += fmt::format(" {}* not counted: the configuration does not size them.", prefix);
  }
  return out + "\n";
}

std::string plan_table(const model::write::WritePlan& plan, int ranks) {
  const auto line = [](std::string_view kind, std::string_view action, const std::string& tensors,
                       const std::string& elements, const std::string& before,
                       const std::string& after) {
    return fmt::format("{:<20}{:<14}{:>9}{:>18}{:>13}{:>13}\n", kind, action, tensors, elements,
                       before, after);
  };
  std::string out = line("kind", "becomes", "tensors", "elements", "now", "then");
  KindSummary total;
  for (const KindSummary& kind : model::write::summarise(plan, {})) {
    out += line(kind.kind, to_string(kind.action), format_count(kind.tensors),
                format_count(kind.elements), format_bytes(kind.source_bytes),
                format_bytes(kind.bytes));
    total.tensors += kind.tensors;
    total.elements += kind.elements;
    total.source_bytes += kind.source_bytes;
    total.bytes += kind.bytes;
  }
  out += line("total", "", format_count(total.tensors), format_count(total.elements),
              format_bytes(total.source_bytes), format_bytes(total.bytes));
  const auto count = static_cast<uint64_t>(ranks);
  return out + fmt::format("{} in {} file{}; {} for each of {} ranks, evenly\n",
                           gib(plan.file_bytes()), plan.shards.size(),
                           plan.shards.size() == 1 ? "" : "s",
                           gib((total.bytes + count - 1) / count), ranks);
}

std::string error_tables(const model::write::WritePlan& plan,
                         const std::vector<TensorError>& errors) {
  const auto line = [](std::string_view what, std::string_view action, const std::string& rms,
                       const std::string& largest, const std::string& gain) {
    return fmt::format("{:<52}{:<10}{:>12}{:>12}{:>14}\n", what, action, rms, largest, gain);
  };
  const auto error_line = [&](std::string_view what, model::write::Action action,
                              const TensorError& error) {
    return line(what, to_string(action), percent(error.relative_rms()),
                fmt::format("{:.3g}", error.largest), percent(error.gain()));
  };
  std::string out = line("kind", "", "RMS error", "largest", "below amax");
  for (const KindSummary& kind : model::write::summarise(plan, errors)) {
    if (kind.error.squares > 0.0) out += error_line(kind.kind, kind.action, kind.error);
  }
  const std::vector<size_t> worst = model::write::worst_jobs(plan, errors, kWorst);
  out += line(fmt::format("the {} tensors with the largest error", worst.size()), "", "", "", "");
  for (const size_t job : worst) {
    out += error_line(plan.jobs[job].name, plan.jobs[job].action, errors[job]);
  }
  return out;
}

}  // namespace bulkhead::apps
