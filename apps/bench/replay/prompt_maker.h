// Prompts for the rows of a trace: where two rows' block names begin alike, so do their tokens.
//
// Threads: pure functions of what the maker was made with. Invariants: the same seed and row give
// the same prompt; the tokens of a block follow from its name alone; blocks of different names
// differ as long as their tokens can tell so many names apart (with two tokens, 88 million
// names in a vocabulary of 10,000); a prompt of a row without names is like no other.
#pragma once

#include <cstdint>

#include "apps/bench/replay/trace.h"
#include "apps/bench/workload.h"

namespace bulkhead::apps {

class PromptMaker {
 public:
  // Lengths are divided by `length_scale`; where rows have block names, by what makes a block whole
  // tokens, so that equal blocks stay equal.
  PromptMaker(uint64_t seed, TokenRange range, int64_t trace_block_tokens, double length_scale);

  // Tokens of a whole block; 0 where rows have no names.
  int64_t block_tokens() const { return block_tokens_; }
  int64_t input_tokens(const TraceRow& row) const;   // at least 1
  int64_t output_tokens(const TraceRow& row) const;  // at least 1
  PromptTokens prompt(const TraceRow& row) const;
  // Of a warm-up request: shares nothing with any row.
  PromptTokens warmup(uint64_t number, int64_t tokens) const;

 private:
  int64_t scaled(int64_t tokens) const;
  void append_block(uint64_t name, int64_t tokens, PromptTokens& prompt) const;
  void append_random(uint64_t domain, uint64_t stream, int64_t tokens, PromptTokens& prompt) const;
  int32_t token(uint64_t number) const {
    return range_.low + static_cast<int32_t>(number % range_.span);
  }

  const uint64_t seed_;
  const TokenRange range_;
  const int64_t trace_block_tokens_;
  const double length_scale_;
  int64_t block_tokens_ = 0;
};

}  // namespace bulkhead::apps
