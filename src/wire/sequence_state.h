// All there is to know about a sequence besides its cache pages: what prefill hands to decode.
//
// Threads: plain value, owned by whoever runs the sequence. Invariants: tokens = prompt, then every
// generated token; the first `written` tokens have their K and V
// in the cache; the state of sampling is a function of this alone (no hidden generator state), so a
// sequence that lost its pages goes on exactly where it was once they are computed again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "wire/generate.h"

namespace bulkhead::wire {

// The owner's short name for an admitted request; free for another one after on_released().
using Slot = uint32_t;

struct SequenceState {
  RequestId id = 0;
  Slot slot = 0;
  SamplingParams sampling;
  int32_t max_tokens = 0;
  int32_t min_tokens = 0;
  std::vector<TokenId> stop_ids;
  // Null: anything goes. Follows the generated tokens when the next one is sampled, so it is a
  // function of `tokens` as everything else is.
  std::unique_ptr<ConstraintState> constraint;
  std::vector<TokenId> tokens;
  int32_t prompt_tokens = 0;
  int32_t written = 0;
  CacheScope cache;
  uint64_t session = 0;          // as in GenerateRequest
  int32_t prompt_logprobs = -1;  // as in GenerateRequest
  int32_t scored = 1;  // prompt tokens that have their score; the first one never gets any

  SequenceState() = default;
  SequenceState(GenerateRequest&& request, Slot owner_slot)
      : id(request.id),
        slot(owner_slot),
        sampling(std::move(request.sampling)),
        max_tokens(request.max_tokens),
        min_tokens(request.min_tokens),
        stop_ids(std::move(request.stop_ids)),
        constraint(request.constraint ? request.constraint->start() : nullptr),
        tokens(std::move(request.prompt)),
        prompt_tokens(static_cast<int32_t>(tokens.size())),
        cache(request.cache),
        session(request.session),
        prompt_logprobs(request.prompt_logprobs) {}
  SequenceState(SequenceState&&) noexcept = default;
  SequenceState& operator=(SequenceState&&) noexcept = default;

  std::span<const TokenId> prompt() const {
    return std::span(tokens).first(static_cast<size_t>(prompt_tokens));
  }
  std::span<const TokenId> generated() const {
    return std::span(tokens).subspan(static_cast<size_t>(prompt_tokens));
  }
  // Prompt tokens are still waiting for their scores.
  bool wants_scores() const { return prompt_logprobs >= 0 && scored < prompt_tokens; }
  // The longest it can become.
  int64_t tokens_max() const { return int64_t{prompt_tokens} + max_tokens; }
  std::span<const TokenId> written_tokens() const {
    return std::span(tokens).first(static_cast<size_t>(written));
  }
  std::span<const TokenId> unwritten() const {
    return std::span(tokens).subspan(static_cast<size_t>(written));
  }
};

}  // namespace bulkhead::wire
