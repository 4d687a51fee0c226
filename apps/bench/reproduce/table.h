// The table that `bulkhead bench reproduce` prints: a published figure, ours beside it, what ours
// has to be on this kind of machine, and the verdict.
//
// Threads: plain values; a table belongs to one thread.
// Invariants: a verdict follows from the median of a row's ratio and its bound alone, that of a
// cost from its interval; a row that could not be measured says why and never passes, and one that
// noise leaves open is told as open.
#pragma once

#include <array>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench/options.h"
#include "apps/bench/reproduce/paired.h"
#include "device/cpu.h"
#include "kernels/bench/peaks.h"

namespace bulkhead::apps::reproduce {

enum class Verdict {
  kHolds,
  kFallsShort,
  kReported,  // there is no bound on this kind of machine
  kOpen,      // the bound lies within what noise leaves open
};
const char* to_string(Verdict verdict);  // "holds", "falls short", "reported", "open"

struct Row {
  std::string published;
  std::string measured;  // what was, on which shape
  std::string result;
  std::string needed;  // empty: nothing
  Verdict verdict = Verdict::kReported;
  std::string note;             // what explains it
  std::optional<double> ratio;  // for the history, where the result is one
};

// A ratio that has to reach `bound`, where there is one.
Row ratio_row(std::string published, std::string measured, const kernels::Spread& ratio,
              std::optional<double> bound, std::string note = {});
// The same of a gain at its peak as money: so much less a token, in equal hours.
Row saving_row(std::string published, std::string measured, const kernels::Spread& ratio,
               std::optional<double> ratio_bound);
// A share of something that may be no more than `bound`, where there is one.
Row share_row(std::string published, std::string measured, const kernels::Spread& share,
              std::optional<double> bound, std::string note = {});

// What a check costs, as a share of what is done without it.
struct Cost {
  Interval paired;   // by which steps with it took longer than those beside them
  double own = 0.0;  // what the clock says of the calls themselves
  size_t pairs = 0;
};
// Falls short where either is shown to be more than `bound`; holds where pairs show that it is not.
Row cost_row(std::string published, std::string measured, const Cost& cost,
             std::optional<double> bound);
// The same of two steps that are other machine code: `copies` is by how much copies of one code
// differ, from where in memory they lie. What is within that is not told apart.
Row placement_row(std::string published, std::string measured, const Cost& cost,
                  const Interval& copies, std::optional<double> bound);

// The same of the slow end of steps (step_costs.h has the two ways of telling it).
struct TailCost {
  Interval apart;
  Interval together;
  size_t steps = 0;  // with the check, and as many without
};
constexpr size_t kStepsForATail = 1000;  // fewer have no 99th percentile, but a maximum
Row tail_row(std::string published, std::string measured, const TailCost& cost,
             std::optional<double> bound);

// A statement that is true or not.
Row fact_row(std::string published, std::string measured, bool holds, std::string result,
             std::string needed);

// At 1, 8 and 64 requests.
using DecodeBounds = std::array<std::optional<double>, 3>;

// What ratios have to be on a kind of machine. Matrix units make it one kind; without them
// arithmetic is scarce and memory is not, and some published gains have no room.
struct Bounds {
  std::string machine;
  double resident_tokens = 1.98;
  double equal_concurrency = 0.95;
  std::optional<double> latent_peak;   // of FP8 cache over BF16, 64 heads a latent
  std::optional<double> grouped_peak;  // the same on the grouped-query shape
  DecodeBounds int4_decode;            // over FP8
  DecodeBounds int8_decode;            // the same with activations in bytes
  double fp8_prefill = 0.9;            // of BF16's speed
  double hybrid = 0.95;
  double check = 0.002;            // of a step's time: comparing before and after
  double digest = 0.01;            // of a step's time or of a prompt's: all of integrity
  double off = 0.0002;             // of a step's time: integrity that is off
  int32_t weights_context = 1024;  // tokens at which weight formats are compared
};
Bounds bounds_of(device::Isa isa);

// What a run holds a speed to; nothing in a quick run, which judges none.
std::optional<double> speed_bound(const ReproduceOptions& options, std::optional<double> bound);
// The same of a speed at the context of the run: bounds are of the default context.
std::optional<double> context_bound(const ReproduceOptions& options, std::optional<double> bound);

// Ratio of two things timed in turn, `a` over `b`, round by round.
kernels::Spread ratio_of(const std::vector<double>& a, const std::vector<double>& b);

// Tokens per second by requests at once, for a plot.
struct Point {
  int32_t requests = 0;
  kernels::Spread rate;
};
struct Curve {
  std::string figure;  // curves of one figure are in one picture, ...
  std::string chart;   // ... those of one chart in one frame
  std::string name;
  std::vector<Point> points;
};

// Prints each row as soon as it is added, for the rows of a run are minutes apart.
class Table {
 public:
  explicit Table(std::ostream& out) : out_(out) {}

  void print_head();
  void add(const Row& row);
  void add(Curve curve) { curves_.push_back(std::move(curve)); }
  bool all_hold() const;  // no row so far falls short
  const std::vector<Row>& rows() const { return rows_; }
  const std::vector<Curve>& curves() const { return curves_; }

 private:
  std::ostream& out_;
  std::vector<Row> rows_;
  std::vector<Curve> curves_;
};

}  // namespace bulkhead::apps::reproduce
