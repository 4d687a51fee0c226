#include "apps/bench/reproduce/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace bulkhead::apps::reproduce {
namespace {

std::string percent(double share) { return fmt::format("{:.2g}", 100.0 * share); }

std::string at_most(double bound) { return fmt::format("<= {:.3g} %", 100.0 * bound); }

std::string range(const Interval& interval) {
  return fmt::format("[{:+.2f}..{:+.2f}]", 100.0 * interval.low, 100.0 * interval.high);
}

std::string with_range(const Interval& interval) {
  return fmt::format("{:+.2f} % {}", 100.0 * interval.middle, range(interval));
}

Verdict verdict_of(const Interval& cost, double bound) {
  if (cost.low > bound) return Verdict::kFallsShort;
  return cost.high > bound ? Verdict::kOpen : Verdict::kHolds;
}

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kFallsShort:
      return "falls short";
    case Verdict::kReported:
      return "reported";
    case Verdict::kOpen:
      return "open";
  }
  return "";
}

Row ratio_row(std::string published, std::string measured, const kernels::Spread& ratio,
              std::optional<double> bound, std::string note) {
  Row row;
  row.published = std::move(published);
  row.measured = std::move(measured);
  row.result = fmt::format("{:.2f}x [{:.2f}..{:.2f}]", ratio.median, ratio.p10, ratio.p90);
  row.ratio = ratio.median;
  row.note = std::move(note);
  if (!bound) return row;
  row.needed = fmt::format(">= {:.2f}x", *bound);
  row.verdict = ratio.median >= *bound ? Verdict::kHolds : Verdict::kFallsShort;
  return row;
}

Row saving_row(std::string published, std::string measured, const kernels::Spread& ratio,
               std::optional<double> ratio_bound) {
  const auto saved = [](double more) { return 100.0 * (1.0 - 1.0 / more); };
  Row row;
  row.published = std::move(published);
  row.measured = std::move(measured);
  row.result = fmt::format("{:.0f} % less [{:.0f}..{:.0f}]", saved(ratio.median), saved(ratio.p10),
                           saved(ratio.p90));
  if (!ratio_bound) return row;
  row.needed = fmt::format(">= {:.0f} % less", saved(*ratio_bound));
  row.verdict = ratio.median >= *ratio_bound ? Verdict::kHolds : Verdict::kFallsShort;
  return row;
}

Row share_row(std::string published, std::string measured, const kernels::Spread& share,
              std::optional<double> bound, std::string note) {
  Row row;
  row.published = std::move(published);
  row.measured = std::move(measured);
  row.result = percent(share.median) + " %";
  if (share.p10 < share.p90) {
    row.result += fmt::format(" [{}..{}]", percent(share.p10), percent(share.p90));
  }
  row.note = std::move(note);
  if (!bound) return row;
  row.needed = at_most(*bound);
  row.verdict = share.median <= *bound ? Verdict::kHolds : Verdict::kFallsShort;
  return row;
}

Row cost_row(std::string published, std::string measured, const Cost& cost,
             std::optional<double> bound) {
  Row row;
  row.published = std::move(published);
  row.measured = std::move(measured);
  row.result = fmt::format("{} of {} pairs; its calls {} %", with_range(cost.paired), cost.pairs,
                           percent(cost.own));
  if (!bound) return row;
  row.needed = at_most(*bound);
  row.verdict = cost.own > *bound ? Verdict::kFallsShort : verdict_of(cost.paired, *bound);
  if (row.verdict == Verdict::kOpen) {
    row.note = "noise leaves the pairs open on both sides of the bound; its calls are below it";
  }
  return row;
}

Row placement_row(std::string published, std::string measured, const Cost& cost,
                  const Interval& copies, std::optional<double> bound) {
  Row row = cost_row(std::move(published), std::move(measured), cost, bound);
  row.result += fmt::format("; copies of one code {} %", range(copies));
  if (!bound || cost.own > *bound || row.verdict == Verdict::kHolds) return row;
  if (cost.paired.low > copies.high) return row;
  row.verdict = Verdict::kOpen;
  row.note = "not told apart from copies of one code; its calls are below the bound";
  return row;
}

Row tail_row(std::string published, std::string measured, const TailCost& cost,
             std::optional<double> bound) {
  Row row;
  row.published = std::move(published);
  row.measured = std::move(measured);
  row.result = fmt::format("{} of {} steps less what it took of each; arms apart {}",
                           with_range(cost.together), cost.steps, with_range(cost.apart));
  if (!bound) return row;
  row.needed = at_most(*bound);
  row.verdict = verdict_of(cost.together, *bound);
  if (cost.apart.low > *bound) row.verdict = Verdict::kFallsShort;
  if (cost.steps < kStepsForATail) {
    row.verdict = Verdict::kOpen;
    row.note = "so few steps have no 99th percentile";
  } else if (row.verdict == Verdict::kOpen) {
    row.note = "noise leaves both sides of the bound open";
  } else if (row.verdict == Verdict::kHolds && cost.apart.high > *bound) {
    row.note = "by the slow steps themselves; noise leaves the arms apart open";
  }
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
  const std::string_view mark = row.verdict == Verdict::kFallsShort ? "**" : "";
  out_ << fmt::format("| {} | {} | {} | {} | {}{}{}{}{} |", row.published, row.measured, row.result,
                      row.needed.empty() ? "-" : row.needed, mark, to_string(row.verdict), mark,
                      row.note.empty() ? "" : ": ", row.note)
       << std::endl;
  rows_.push_back(row);
}

bool Table::all_hold() const {
  return std::none_of(rows_.begin(), rows_.end(),
                      [](const Row& row) { return row.verdict == Verdict::kFallsShort; });
}

}  // namespace bulkhead::apps::reproduce
