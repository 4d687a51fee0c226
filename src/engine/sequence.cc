#include "engine/sequence.h"

#include <algorithm>

#include "base/check.h"

namespace bulkhead::engine {

model::SequenceSlice slice_of(const Sequence& sequence, size_t tokens, model::LogitsFor logits) {
  const auto unwritten = sequence.state.unwritten();
  BH_CHECK(tokens > 0 && tokens <= unwritten.size(), "a slice holds unwritten tokens");
  const int64_t end = sequence.state.written + static_cast<int64_t>(tokens);
  BH_CHECK(end <= sequence.pages.covered_tokens(), "pages cover what the step writes");
  return {unwritten.first(tokens), sequence.state.written, sequence.pages.pages(), logits};
}

void keep_for_reuse(Sequence& sequence, kv::PrefixIndex& index) {
  const wire::SequenceState& state = sequence.state;
  if (state.cache.insert) index.insert(state.cache.tenant, state.written_tokens(), sequence.pages);
}

Settled settle(Sequence& sequence, base::Result<wire::TokenEvent> choice,
               wire::PoolEvents& events) {
  wire::SequenceState& state = sequence.state;
  if (!choice.ok()) {
    events.on_end(state.slot,
                  {wire::FinishReason::kError, wire::TokenId{-1}, std::move(choice).error()});
    return Settled::kFailed;
  }
  wire::TokenEvent event = std::move(choice).value();
  event.id = state.id;
  const wire::TokenId token = event.token;
  if (std::find(state.stop_ids.begin(), state.stop_ids.end(), token) != state.stop_ids.end()) {
    events.on_end(state.slot, {wire::FinishReason::kStop, token, std::nullopt});
    return Settled::kEnded;
  }
  state.tokens.push_back(token);
  events.on_token(state.slot, std::move(event));
  if (static_cast<int32_t>(state.generated().size()) >= state.max_tokens) {
    events.on_end(state.slot, {wire::FinishReason::kLength, wire::TokenId{-1}, std::nullopt});
    return Settled::kEnded;
  }
  return Settled::kGoesOn;
}

void settle_without_token(Sequence& sequence, wire::PoolEvents& events) {
  events.on_end(sequence.state.slot,
                {wire::FinishReason::kLength, wire::TokenId{-1}, std::nullopt});
}

}  // namespace bulkhead::engine
