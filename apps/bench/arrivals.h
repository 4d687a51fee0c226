// When the requests of an open loop arrive: gaps drawn from a gamma distribution, by a seed.
//
// Threads: pure functions. Invariant: the same arguments give the same times on every machine up to
// the rounding of its mathematical library.
#pragma once

#include <cstdint>
#include <vector>

namespace bulkhead::apps {

// Seconds from the start, ascending, the first at 0. `rate` > 0 arrivals per second on average;
// `burstiness` > 0 is the shape of the gaps: 1 makes a Poisson process, less comes in bursts, more
// is closer to a metronome.
std::vector<double> arrival_times(uint64_t count, double rate, double burstiness, uint64_t seed);

}  // namespace bulkhead::apps
