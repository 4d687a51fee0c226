#include "wire/sequence_codec.h"

#include <algorithm>
#include <utility>

namespace bulkhead::wire {
namespace {

constexpr int32_t kLogprobsMax = 20;  // docs/api.md

void put_tokens(std::span<const TokenId> tokens, ByteWriter& out) {
  out.count(tokens.size());
  for (const TokenId token : tokens) out.put(token);
}

std::vector<TokenId> get_tokens(ByteReader& in, size_t max, int32_t vocabulary_size) {
  std::vector<TokenId> out(in.count(max, sizeof(TokenId)));
  for (TokenId& token : out) {
    token = in.get<TokenId>();
    if (token < 0 || token >= vocabulary_size) in.fail();
  }
  return out;
}

void put_sampling(const SamplingParams& sampling, ByteWriter& out) {
  out.put(sampling.temperature);
  out.put(sampling.top_p);
  out.put(sampling.top_k);
  out.put(sampling.min_p);
  out.put(sampling.frequency_penalty);
  out.put(sampling.presence_penalty);
  out.put(sampling.repetition_penalty);
  out.put(sampling.seed);
  out.put(sampling.top_logprobs);
  out.count(sampling.logit_bias.size());
  for (const auto& [token, bias] : sampling.logit_bias) {
    out.put(token);
    out.put(bias);
  }
}

// Not a number is in no range.
float get_between(ByteReader& in, float least, float most) {
  const float value = in.get_float();
  if (!(value >= least && value <= most)) in.fail();
  return in.ok() ? value : least;
}

SamplingParams get_sampling(ByteReader& in, int32_t vocabulary_size) {
  SamplingParams out;
  out.temperature = get_between(in, 0, 2);
  out.top_p = get_between(in, 0, 1);
  out.top_k = in.get<int32_t>();
  out.min_p = get_between(in, 0, 1);
  out.frequency_penalty = get_between(in, -2, 2);
  out.presence_penalty = get_between(in, -2, 2);
  out.repetition_penalty = get_between(in, 0, 2);
  out.seed = in.get<uint64_t>();
  out.top_logprobs = in.get<int32_t>();
  if (out.top_p <= 0 || out.repetition_penalty <= 0 || out.top_k < 0 || out.top_logprobs < -1 ||
      out.top_logprobs > kLogprobsMax) {
    in.fail();
  }
  const size_t biases = in.count(static_cast<size_t>(vocabulary_size), 8);
  out.logit_bias.reserve(biases);
  for (size_t i = 0; i < biases; ++i) {
    const auto token = in.get<TokenId>();
    const float bias = get_between(in, -100, 100);
    if (token < 0 || token >= vocabulary_size) in.fail();
    out.logit_bias.emplace_back(token, bias);
  }
  return out;
}

bool is_consistent(const SequenceState& state, const SequenceBounds& bounds) {
  const auto tokens = static_cast<int64_t>(state.tokens.size());
  return state.prompt_tokens >= 1 && state.prompt_tokens <= tokens && state.written >= 0 &&
         state.written <= tokens && state.max_tokens >= 0 && state.min_tokens >= 0 &&
         tokens <= state.tokens_max() && state.tokens_max() <= bounds.context_tokens &&
         state.prompt_logprobs >= -1 && state.prompt_logprobs <= kLogprobsMax &&
         state.scored >= 1 && state.scored <= state.prompt_tokens;
}

}  // namespace

void encode_sequence(const SequenceState& state, ByteWriter& out) {
  put_sampling(state.sampling, out);
  out.put(state.max_tokens);
  out.put(state.min_tokens);
  put_tokens(state.stop_ids, out);
  out.put(static_cast<uint8_t>(state.constraint != nullptr));
  put_tokens(state.tokens, out);
  out.put(state.prompt_tokens);
  out.put(state.written);
  out.bytes(state.cache.tenant);
  out.put(static_cast<uint8_t>(state.cache.insert));
  out.put(state.prompt_logprobs);
  out.put(state.scored);
}

base::Result<DecodedSequence> decode_sequence(ByteReader& in, const SequenceBounds& bounds) {
  const auto context = static_cast<size_t>(std::max(bounds.context_tokens, 0));
  DecodedSequence out;
  SequenceState& state = out.state;
  state.sampling = get_sampling(in, bounds.vocabulary_size);
  state.max_tokens = in.get<int32_t>();
  state.min_tokens = in.get<int32_t>();
  state.stop_ids =
      get_tokens(in, static_cast<size_t>(bounds.vocabulary_size), bounds.vocabulary_size);
  out.constrained = in.get_bool();
  state.tokens = get_tokens(in, context, bounds.vocabulary_size);
  state.prompt_tokens = in.get<int32_t>();
  state.written = in.get<int32_t>();
  state.cache.tenant = in.array<32>();
  state.cache.insert = in.get_bool();
  state.prompt_logprobs = in.get<int32_t>();
  state.scored = in.get<int32_t>();
  if (!in.ok()) return base::corrupt("a sequence's state is cut short or out of range");
  if (!is_consistent(state, bounds)) return base::corrupt("a sequence's state contradicts itself");
  return out;
}

}  // namespace bulkhead::wire
