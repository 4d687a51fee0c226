// What a replay adds to the report of a load: which part of which trace it was, how it was scaled,
// and what a cache of the server's kind was to find.
//
// Threads: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bulkhead::apps {

struct CacheShape {
  int64_t pages = 0;
  int64_t page_tokens = 0;
  // Pages of an answer stay for prompts that go on from it; not where decode has a cache of its
  // own.
  bool keeps_answers = true;

  bool operator==(const CacheShape&) const = default;
};

struct ReplayFacts {
  std::string trace;  // path
  std::string kind;
  uint64_t start = 0;
  double time_scale = 1.0;
  double length_scale = 1.0;
  int64_t block_tokens = 0;  // of a prompt, after scaling; 0: the trace has no blocks
  bool closed_loop = false;
  bool flushed = false;  // the server forgot its cache before the first request
  std::optional<CacheShape> cache;
  std::string not_simulated;  // why, where there is no cache
  // Prompt tokens found in that cache by each request, had each ended before the next began.
  std::vector<int64_t> simulated;
};

}  // namespace bulkhead::apps
