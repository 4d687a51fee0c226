// What two runs over the same questions may be concluded from: intervals and a test for pairs.
//
// Threads: pure functions. Invariants: intervals are two-sided at 95 % and lie within what a share
// or a difference of shares can be; no questions give the widest of them.
#pragma once

#include <cstdint>
#include <vector>

namespace bulkhead::apps::eval {

struct Interval {
  double low = 0.0, high = 0.0;
};

// Wilson's score interval of a share.
Interval wilson(uint64_t right, uint64_t total);

// Of the mean: the sample's standard deviation (n - 1) over the root of n, as lm-eval gives it; 0
// below two values.
double standard_error(const std::vector<double>& values);

// The same questions, answered twice.
struct Paired {
  uint64_t both = 0, only_before = 0, only_after = 0, neither = 0;

  uint64_t total() const { return both + only_before + only_after + neither; }
};

// Share after minus share before: Newcombe's interval for paired shares, which makes it from two
// Wilson intervals and the correlation of the pairs (Statistics in Medicine 17, 1998, 2635-2650,
// method 10). Unlike the normal one it keeps a width where no question flipped.
Interval paired_difference(const Paired& pairs);

// McNemar's exact test: how probable a split at least this uneven is among the flipped questions,
// where flips either way are equally likely. 1 without a flip.
double mcnemar_exact(uint64_t only_before, uint64_t only_after);

}  // namespace bulkhead::apps::eval
