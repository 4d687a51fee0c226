// What a format changes in the distribution of the next token, by position in a text that is
// forced: divergence and agreement of the likeliest token.
//
// Threads: plain values, pure functions; measure_likely sends requests from the caller's thread.
// Invariant: a server tells the likeliest tokens alone, so divergences are of coarser outcomes,
// which by the data-processing inequality are lower bounds of the true ones.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/eval/ask/asker.h"
#include "base/result.h"

namespace bulkhead::apps::eval {

inline constexpr size_t kForcedTokens = 512;
inline constexpr size_t kDriftBucket = 64;
inline constexpr size_t kDriftBuckets = kForcedTokens / kDriftBucket;

struct LikelyToken {
  int64_t id = 0;
  double logprob = 0.0;
};
// The likeliest tokens behind one position of a text, and the text's own next; by probability, by
// id where that is equal.
using Likely = std::vector<LikelyToken>;

// Every position of some stretches of text, in one precision.
struct LikelySample {
  std::string identity;             // of text, model and formats
  std::vector<std::string> banner;  // what the server said of itself
  std::vector<std::vector<Likely>> windows;
};

// Of `after` from `before`, in nats, over the tokens that both name and all others as one outcome.
double divergence_bound(const Likely& before, const Likely& after);

struct DriftBucket {
  uint64_t positions = 0;
  double divergence = 0.0;        // mean of the bounds, nats
  double divergence_error = 0.0;  // standard error over the windows
  uint64_t same_first = 0;        // positions whose likeliest token is the same
  double named = 0.0;             // mean probability, before, of what is no "all others"
};

// Bucket by bucket. The samples are of the same windows.
std::vector<DriftBucket> drift_between(const LikelySample& before, const LikelySample& after);

// At most `count` stretches, evenly spread, each beginning at a line's beginning and long enough
// for a window in any vocabulary that people use.
std::vector<std::string> stretches_of(std::string_view text, size_t count);

// Asks for each stretch's first tokens with `echo`. `on_window` hears how many are done. Errors:
// those of the server; kUnsupported without /tokenize; kInvalidArgument for a stretch too short.
base::Result<std::vector<std::vector<Likely>>> measure_likely(
    Server& server, const ServerFacts& facts, const std::vector<std::string>& stretches,
    const std::function<void(size_t)>& on_window);
// The positions of one window, from the choice of an echoed prompt. Errors: kCorruptData.
base::Result<std::vector<Likely>> window_of(const boost::json::value& choice);

std::string likely_json(const LikelySample& sample);
// Errors: kCorruptData.
base::Result<LikelySample> read_likely(const std::string& text);

}  // namespace bulkhead::apps::eval
