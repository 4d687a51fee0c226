// Requests as somebody's service recorded them: when each came, how long it was, and (Mooncake)
// which blocks of its prompt it had in common with others.
//
// Threads: pure functions. Invariants: rows come in the order of time; what a file holds is
// believed only within the bounds below, and what is refused is named by line and field.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "base/result.h"

namespace bulkhead::apps {

inline constexpr int64_t kTraceTokensMax = int64_t{1} << 24;  // of a prompt or an answer
inline constexpr size_t kTraceLineBytesMax = size_t{1} << 20;
inline constexpr uint64_t kTraceBlocksMax = uint64_t{1} << 24;  // of all rows together

struct TraceRow {
  uint64_t line = 0;       // of the file
  double arrival_s = 0.0;  // after the first row that was taken
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  // Names of the prompt's blocks: rows whose names begin alike have prompts that begin alike.
  std::vector<int64_t> blocks;
};

struct Trace {
  std::string kind;          // "mooncake", "azure"
  int64_t block_tokens = 0;  // that one name stands for; the last block of a row may have fewer; 0:
                             // rows have no names, and nothing in common
  std::vector<TraceRow> rows;
};

// `count` rows from row `start` on (0 is the first), or as many as there are. A file that begins
// with "{" is Mooncake's JSON Lines (timestamp in ms, input_length, output_length, hash_ids), any
// other Azure's CSV (TIMESTAMP, ContextTokens, GeneratedTokens). Errors: kInvalidArgument.
base::Result<Trace> read_trace(std::istream& in, const std::string& name, uint64_t start,
                               uint64_t count);
// The same of a file; kNotFound where it cannot be read.
base::Result<Trace> read_trace(const std::string& path, uint64_t start, uint64_t count);

}  // namespace bulkhead::apps
