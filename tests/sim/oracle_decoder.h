// A stand-in model that knows what every slot of the cache has to hold.
//
// It writes into each token's slot, in each layer, the token, its position and a hash of everything
// before; it reads all of it back through the page list of the slice. A row that read anything else
// than its own sequence's past answers kWrongRead, a token that no right row ever chooses: one
// wrong byte that was read and let out is seen at once, never by chance only.
//
// Threads: one. Invariants: forward() allocates nothing; a page id outside the pool is a wrong read
// and touches nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/decoder.h"

namespace bulkhead::sim {

using model::TokenId;

constexpr int32_t kVocabulary = 32;
constexpr TokenId kWrongRead = kVocabulary - 1;  // in no prompt, and in no right answer

kv::PageLayout sim_layout(int32_t layers);

class OracleDecoder final : public model::Decoder {
 public:
  OracleDecoder(int32_t layers, const model::StepLimits& limits);

  const model::ModelFacts& facts() const override { return facts_; }
  const model::StepLimits& limits() const override { return limits_; }
  void forward(std::span<const model::SequenceSlice> slices, const kv::CacheView& cache,
               std::span<float> logits) override;

  // Rows, with logits or without, that read what is not theirs.
  uint64_t wrong_reads() const { return wrong_reads_; }
  uint64_t tokens() const { return tokens_; }

 private:
  bool write(const model::SequenceSlice& slice, const kv::CacheView& cache) const;

  model::ModelFacts facts_;
  const model::StepLimits limits_;
  uint64_t wrong_reads_ = 0;
  uint64_t tokens_ = 0;
};

// The logits of a sequence, token by token, without any cache.
class OracleRow {
 public:
  OracleRow() : row_(static_cast<size_t>(kVocabulary)) {}
  void append(TokenId token);
  // After the last token appended.
  std::span<const float> logits();

 private:
  uint64_t chain_ = 0;
  int32_t position_ = 0;
  std::vector<float> row_;
};

}  // namespace bulkhead::sim
