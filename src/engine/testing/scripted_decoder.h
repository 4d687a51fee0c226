// M0: a stand-in model whose next token comes from a script.
//
// Threads: as model::Decoder; set_script() and set_before_step() before use or on the step thread.
// Invariants: the script sees exactly the tokens that were fed for the sequence; nothing is written
// into pages, so this model says nothing about the cache (checking_decoder.h does).
#pragma once

#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "model/decoder.h"

namespace bulkhead::engine::testing {

using model::TokenId;

class ScriptedDecoder final : public model::Decoder {
 public:
  // Returned by a script for a row of NaN.
  static constexpr TokenId kNotANumber = -1;
  // The next token after a prompt and what was generated for it so far.
  using Script =
      std::function<TokenId(std::span<const TokenId> prompt, std::span<const TokenId> generated)>;

  ScriptedDecoder(model::ModelFacts facts, model::StepLimits limits, Script script);
  // Every prompt is answered by `answer`, then by `end` for ever.
  static Script answer_with(std::vector<TokenId> answer, TokenId end);

  const model::ModelFacts& facts() const override { return facts_; }
  const model::StepLimits& limits() const override { return limits_; }
  void forward(std::span<const model::SequenceSlice> slices, const kv::CacheView& cache,
               std::span<float> logits) override;

  void set_script(Script script) { script_ = std::move(script); }
  // Called on the step thread at the start of each forward: to wait, to count, to interfere.
  void set_before_step(std::function<void()> hook) { before_step_ = std::move(hook); }

 private:
  struct History {
    std::vector<TokenId> tokens;
    size_t prompt_tokens = 0;  // 0 while the prompt is being fed
  };
  void answer_row(const History& history, std::span<float> row) const;

  const model::ModelFacts facts_;
  const model::StepLimits limits_;
  Script script_;
  std::function<void()> before_step_;
  std::unordered_map<kv::PageId, History> histories_;  // by a sequence's first page
};

// Facts of a small model for tests: `vocabulary` ids, one layer, one head of 16 dimensions.
model::ModelFacts small_facts(int32_t vocabulary, int32_t context_tokens);
// The page layout those facts ask for.
kv::PageLayout small_layout(int32_t page_tokens);

}  // namespace bulkhead::engine::testing
