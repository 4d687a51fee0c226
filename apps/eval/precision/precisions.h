// The precisions that `bulkhead eval precision` compares, and pairs of them.
//
// Threads: constant tables, pure functions. Invariant: a name means the same formats everywhere.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace bulkhead::apps::eval {

struct Precision {
  std::string_view name;
  std::string_view weights;      // --weights
  std::string_view cache;        // --kv-cache-dtype
  std::string_view activations;  // --activations
  std::string_view meaning;
};

const std::vector<Precision>& precisions();

// The formats, as options of `bulkhead serve`.
std::vector<std::string> words_of(const Precision& precision);
// The same as settings of a result.
std::vector<std::pair<std::string, std::string>> settings_of(const Precision& precision);

struct PrecisionPair {
  const Precision* before = nullptr;
  const Precision* after = nullptr;

  std::string name() const;  // "bf16/fp8kv"
  // Whether only the format of the cache differs.
  bool caches_alone() const;
};

// "bf16/fp8kv", "fp8/int4". Errors: kInvalidArgument with the names that there are.
base::Result<std::vector<PrecisionPair>> parse_pairs(const std::vector<std::string>& texts);
// Each once, in the order in which the pairs name them.
std::vector<const Precision*> needed(const std::vector<PrecisionPair>& pairs);

}  // namespace bulkhead::apps::eval
