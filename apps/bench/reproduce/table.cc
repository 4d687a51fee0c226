#include "apps/bench/reproduce/table.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace bulkhead::apps {
namespace {

const char* text_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kFallsShort:
      return "**falls short**";
    case Verdict::kReported:
      return "reported";
  }
  return "";
}

}  // namespace

Row ratio_row(std::string published, std::string measured, const kernels::Spread& ratio,
              std::optional<double> bound, std::string note) {
  Row row;
  row.published = std::move(published);
  row.measured = std::move(measured);
  row.result = fmt::format("{:.2f}x [{:.2f}..{:.2f}]", ratio.median, ratio.p10, ratio.p90);
  row.note = std::move(note);
  if (!bound) return row;
  row.needed = fmt::format(">= {:.2f}x", *bound);
  row.verdict = ratio.median >= *bound ? Verdict::kHolds : Verdict::kFallsShort;
  return row;
}

Row fact_row(std::string published, std::string measured, bool holds, std::string result,
             std::string needed) {
  Row row;
  row.published = std::move(published);
  row.measured = std::move(measured);
  row.result = std::move(result);
  row.needed = std::move(needed);
  row.verdict = holds ? Verdict::kHolds : Verdict::kFallsShort;
  return row;
}

Bounds bounds_of(device::Isa isa) {
  Bounds bounds;
  if (isa == device::Isa::kAmx) {
    bounds.machine = "matrix units (AMX)";
    bounds.latent_peak = 1.41;
    bounds.int4_decode = {1.55, 1.21, 1.16};
    return bounds;
  }
  bounds.machine = "vector units alone";
  bounds.grouped_peak = 1.15;
  bounds.int4_decode = {1.3, 1.0, 0.97};
  bounds.int8_decode = {1.5, 1.3, 1.3};
  // At 1 k tokens, attention over 64 heads is most of a step here, and hides the weights.
  bounds.weights_context = 256;
  return bounds;
}

std::optional<double> speed_bound(const ReproduceOptions& options, std::optional<double> bound) {
  return options.quick ? std::nullopt : bound;
}

std::optional<double> context_bound(const ReproduceOptions& options, std::optional<double> bound) {
  if (options.context != ReproduceOptions{}.context) return std::nullopt;
  return speed_bound(options, bound);
}

kernels::Spread ratio_of(const std::vector<double>& a, const std::vector<double>& b) {
  BH_CHECK(a.size() == b.size() && !a.empty(), "pairs to compare");
  std::vector<double> ratios(a.size());
  for (size_t i = 0; i < a.size(); ++i) ratios[i] = a[i] / b[i];
  return kernels::spread_of(ratios);
}

void Table::print_head() {
  out_ << "| published | measured here | result | needed here | verdict |\n|---|---|---|---|---|"
       << std::endl;
}

void Table::add(const Row& row) {
  out_ << fmt::format("| {} | {} | {} | {} | {}{}{} |", row.published, row.measured, row.result,
                      row.needed.empty() ? "-" : row.needed, text_of(row.verdict),
                      row.note.empty() ? "" : ": ", row.note)
       << std::endl;
  if (row.verdict == Verdict::kFallsShort) all_hold_ = false;
}

}  // namespace bulkhead::apps
