// What pairs of measurements say of a small difference: an estimate, and what noise leaves open.
//
// Threads: pure functions. Invariants: an interval holds the true value in 95 of 100 runs; nothing
// is assumed of how noise is distributed; a median's interval takes it that pairs do not depend on
// each other, a quantile's that blocks of them do not; the same values give the same interval.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace bulkhead::apps::reproduce {

struct Interval {
  double middle = 0.0, low = 0.0, high = 0.0;
};

// How many of `count` sorted values lie below the interval of their median, and as many above it:
// the sign test, which asks for no more than that. With fewer than six values the interval is all
// of them, and holds less than 95 %.
size_t outside_sign_interval(size_t count);

// The median. `values` must not be empty.
Interval median_interval(std::vector<double> values);

// Two series that were measured pair by pair: by which share the `quantile` of `changed` lies above
// that of `plain`. The interval comes from drawing pairs again (a bootstrap with a fixed seed), in
// blocks of as many consecutive ones as there are blocks, since what slows a step down goes on for
// a while. As many of the one as of the other, at least one.
Interval quantile_growth(std::span<const double> plain, std::span<const double> changed,
                         double quantile);

}  // namespace bulkhead::apps::reproduce
