// The table that `bulkhead bench reproduce` prints: a published figure, ours beside it, what ours
// has to be on this kind of machine, and the verdict.
//
// Threads: plain values; a table belongs to one thread.
// Invariants: a verdict follows from the median of a row's ratio and its bound alone; a row that
// could not be measured says why and never passes.
#pragma once

#include <array>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "apps/bench/options.h"
#include "device/cpu.h"
#include "kernels/bench/peaks.h"

namespace bulkhead::apps {

enum class Verdict {
  kHolds,
  kFallsShort,
  kReported,  // there is no bound on this kind of machine
};

struct Row {
  std::string published;
  std::string measured;  // what was, on which shape
  std::string result;
  std::string needed;  // empty: nothing
  Verdict verdict = Verdict::kReported;
  std::string note;  // what explains it
};

// A ratio that has to reach `bound`, where there is one.
Row ratio_row(std::string published, std::string measured, const kernels::Spread& ratio,
              std::optional<double> bound, std::string note = {});
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
  int32_t weights_context = 1024;  // tokens at which weight formats are compared
};
Bounds bounds_of(device::Isa isa);

// What a run holds a speed to; nothing in a quick run, which judges none.
std::optional<double> speed_bound(const ReproduceOptions& options, std::optional<double> bound);
// The same of a speed at the context of the run: bounds are of the default context.
std::optional<double> context_bound(const ReproduceOptions& options, std::optional<double> bound);

// Ratio of two things timed in turn, `a` over `b`, round by round.
kernels::Spread ratio_of(const std::vector<double>& a, const std::vector<double>& b);

// Prints each row as soon as it is added, for the rows of a run are minutes apart.
class Table {
 public:
  explicit Table(std::ostream& out) : out_(out) {}

  void print_head();
  void add(const Row& row);
  bool all_hold() const { return all_hold_; }  // no row so far falls short

 private:
  std::ostream& out_;
  bool all_hold_ = true;
};

}  // namespace bulkhead::apps
