// M3: a stand-in model that turns any foreign, stale or missing cache page into a wrong token.
//
// It writes the identity of each token (the token, its position, a chain hash of everything before)
// into the token's slot. A row's logits are a hash of all that it reads back through its page list.
// expected_logits() computes the same from the tokens alone, without a cache: the oracle.
//
// Threads: as model::Decoder; faults() by any. Invariant: forward() allocates nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "model/decoder.h"

namespace bulkhead::engine::testing {

using model::TokenId;

class CheckingDecoder final : public model::Decoder {
 public:
  CheckingDecoder(model::ModelFacts facts, model::StepLimits limits);

  const model::ModelFacts& facts() const override { return facts_; }
  const model::StepLimits& limits() const override { return limits_; }
  void forward(std::span<const model::SequenceSlice> slices, const kv::CacheView& cache,
               std::span<float> logits) override;

  // Slots read that did not hold what their own sequence had written there.
  uint64_t faults() const { return faults_.load(std::memory_order_relaxed); }
  // Whoever has `token` as its newest token gets a row of NaN; -1: nobody.
  void poison_after(TokenId token) { poison_token_ = token; }

  // The logits after `tokens`, for a vocabulary of row.size().
  static void expected_logits(std::span<const TokenId> tokens, std::span<float> row);
  // Greedy continuation of `prompt`, without any engine.
  static std::vector<TokenId> expected_answer(std::vector<TokenId> prompt, int32_t tokens,
                                              int32_t vocabulary);

 private:
  const model::ModelFacts facts_;
  const model::StepLimits limits_;
  std::atomic<uint64_t> faults_{0};
  TokenId poison_token_ = -1;
};

}  // namespace bulkhead::engine::testing
