// Forward passes for measuring: sequences whose cache is full already, decode steps and prompts
// over them, and things timed in turn.
//
// Threads: the caller's; a decoder brings its own pool.
// Invariants: every sequence has pages of its own, so that a step reads as many bytes as it would
// in service; its tokens are its own too, so that experts are chosen as by strangers. What the
// pages hold is one prompt's, computed once and copied: the numbers do not matter for time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/buffer.h"
#include "kv/layout.h"
#include "model/decoder.h"

namespace bulkhead::bench {

// Tokens of one sequence: random, but the same for everyone.
std::vector<model::TokenId> tokens_of(int32_t sequence, int32_t count, int32_t vocabulary);

// `sequences` sequences of `context` tokens each, and room for one more token.
class FilledCache {
 public:
  // Computes the prompt with `decoder`, in chunks of what it can take.
  static base::Result<FilledCache> create(model::Decoder& decoder, const kv::PageLayout& layout,
                                          int32_t sequences, int32_t context);

  const kv::CacheView& view() const { return view_; }
  int32_t sequences() const { return sequences_; }
  int32_t context() const { return context_; }
  std::span<const kv::PageId> pages(int32_t sequence) const;

 private:
  FilledCache() = default;

  int32_t sequences_ = 0;
  int32_t context_ = 0;
  int32_t pages_of_one_ = 0;
  device::Buffer memory_;
  kv::CacheView view_;
  std::vector<kv::PageId> pages_;
};

// One decode step of the first `sequences` of a cache, or the prompt of the first; made once, run
// often.
class Step {
 public:
  static Step decode(model::Decoder& decoder, const FilledCache& cache, int32_t sequences);
  // A chunk of `tokens` tokens behind `context` of the cache's own tokens.
  static Step prompt(model::Decoder& decoder, const FilledCache& cache, int32_t tokens,
                     int32_t context);
  Step(Step&&) = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  Step& operator=(Step&&) = delete;

  void run();
  int32_t tokens() const { return tokens_; }  // that a run computes

 private:
  Step(model::Decoder& decoder, const kv::CacheView& view) : decoder_(decoder), view_(view) {}
  void add(const FilledCache& cache, int32_t sequence, int32_t position, int32_t count);

  model::Decoder& decoder_;
  kv::CacheView view_;
  int32_t tokens_ = 0;
  std::vector<std::vector<model::TokenId>> rows_;
  std::vector<model::SequenceSlice> slices_;
  std::vector<float> logits_;
};

double seconds_of(const std::function<void()>& work);

// Seconds of things done in turn, [thing][round]; who goes first changes every round.
std::vector<std::vector<double>> time_in_turn(int rounds,
                                              const std::vector<std::function<void()>>& things);

}  // namespace bulkhead::bench
