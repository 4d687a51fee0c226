#include "engine/testing/scripted_decoder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace bulkhead::engine::testing {

ScriptedDecoder::ScriptedDecoder(model::ModelFacts facts, model::StepLimits limits, Script script)
    : facts_(std::move(facts)), limits_(limits), script_(std::move(script)) {}

ScriptedDecoder::Script ScriptedDecoder::answer_with(std::vector<TokenId> answer, TokenId end) {
  return [answer = std::move(answer), end](std::span<const TokenId>,
                                           std::span<const TokenId> generated) {
    return generated.size() < answer.size() ? answer[generated.size()] : end;
  };
}

void ScriptedDecoder::forward(std::span<const model::SequenceSlice> slices, const kv::CacheView&,
                              std::span<float> logits) {
  if (before_step_) before_step_();
  const auto width = static_cast<size_t>(facts_.vocabulary_size);
  size_t row = 0;
  for (const model::SequenceSlice& slice : slices) {
    BH_CHECK(!slice.tokens.empty() && !slice.pages.empty(), "a slice has tokens and pages");
    History& history = histories_[slice.pages[0]];
    if (slice.position == 0) history = History{};
    BH_CHECK(history.tokens.size() == static_cast<size_t>(slice.position), "tokens come in order");
    history.tokens.insert(history.tokens.end(), slice.tokens.begin(), slice.tokens.end());
    if (slice.logits == model::LogitsFor::kNone) continue;
    BH_CHECK(slice.logits == model::LogitsFor::kLast, "scripts answer last rows only");
    if (history.prompt_tokens == 0) history.prompt_tokens = history.tokens.size();
    answer_row(history, logits.subspan(row++ * width, width));
  }
}

void ScriptedDecoder::answer_row(const History& history, std::span<float> row) const {
  const std::span<const TokenId> tokens(history.tokens);
  const TokenId next =
      script_(tokens.first(history.prompt_tokens), tokens.subspan(history.prompt_tokens));
  if (next == kNotANumber) {
    std::fill(row.begin(), row.end(), std::numeric_limits<float>::quiet_NaN());
    return;
  }
  BH_CHECK(next >= 0 && static_cast<size_t>(next) < row.size(), "a script stays in the vocabulary");
  std::fill(row.begin(), row.end(), -8.0f);
  row[static_cast<size_t>(next)] = 8.0f;
}

model::ModelFacts small_facts(int32_t vocabulary, int32_t context_tokens) {
  model::ModelFacts facts;
  facts.name = "stand-in";
  facts.family = "test";
  facts.vocabulary_size = vocabulary;
  facts.context_tokens = context_tokens;
  facts.cache = small_layout(16);
  facts.weight_format = "none";
  return facts;
}

kv::PageLayout small_layout(int32_t page_tokens) {
  kv::PageLayout layout;
  layout.page_tokens = page_tokens;
  layout.layers = 1;
  layout.kv_heads = 1;
  layout.head_dim = 16;
  return layout;
}

}  // namespace bulkhead::engine::testing
