#include "wire/sequence_codec.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace bulkhead::wire {
namespace {

constexpr SequenceBounds kBounds = {.vocabulary_size = 100, .context_tokens = 64};

SequenceState make_state() {
  GenerateRequest request;
  request.id = 5;
  request.prompt = {7, 99, 0};
  request.max_tokens = 10;
  request.min_tokens = 2;
  request.stop_ids = {1, 2};
  request.sampling.temperature = 0.5f;
  request.sampling.top_k = 40;
  request.sampling.seed = 0xfedcba9876543210;
  request.sampling.logit_bias = {{3, -100.0f}, {4, 2.5f}};
  request.sampling.top_logprobs = 20;
  request.cache.tenant[31] = 9;
  request.cache.insert = false;
  SequenceState state(std::move(request), 3);
  state.tokens.push_back(42);
  state.written = 3;
  return state;
}

std::vector<std::byte> encode(const SequenceState& state) {
  std::vector<std::byte> out;
  ByteWriter writer(out);
  encode_sequence(state, writer);
  return out;
}

base::Result<DecodedSequence> decode(std::span<const std::byte> bytes,
                                     const SequenceBounds& bounds = kBounds) {
  ByteReader reader(bytes);
  auto out = decode_sequence(reader, bounds);
  if (out.ok() && !reader.finished()) return base::corrupt("left over");
  return out;
}

TEST(SequenceCodec, AStateComesBackAsItWas) {
  const auto bytes = encode(make_state());
  const auto decoded = decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  const SequenceState& state = decoded->state;
  EXPECT_EQ(state.tokens, (std::vector<TokenId>{7, 99, 0, 42}));
  EXPECT_EQ(state.sampling.seed, 0xfedcba9876543210);
  EXPECT_EQ(state.sampling.logit_bias, make_state().sampling.logit_bias);
  EXPECT_EQ(state.cache.tenant[31], 9);
  EXPECT_FALSE(state.cache.insert);
  EXPECT_FALSE(decoded->constrained);
  EXPECT_EQ(encode(state), bytes);
}

TEST(SequenceCodec, EveryTruncationIsAnError) {
  const auto bytes = encode(make_state());
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(decode(std::span(bytes).first(n)).ok()) << n;
  }
}

TEST(SequenceCodec, WhatBreaksARuleIsAnError) {
  const std::vector<void (*)(SequenceState&)> breaks = {
      [](SequenceState& s) { s.sampling.temperature = 2.5f; },
      [](SequenceState& s) { s.sampling.temperature = std::nanf(""); },
      [](SequenceState& s) { s.sampling.top_p = 0; },
      [](SequenceState& s) { s.sampling.top_k = -1; },
      [](SequenceState& s) { s.sampling.min_p = -0.1f; },
      [](SequenceState& s) { s.sampling.repetition_penalty = 0; },
      [](SequenceState& s) { s.sampling.top_logprobs = 21; },
      [](SequenceState& s) { s.sampling.logit_bias[0].first = 100; },
      [](SequenceState& s) { s.stop_ids[0] = -1; },
      [](SequenceState& s) { s.tokens[1] = 100; },
      [](SequenceState& s) { s.prompt_tokens = 0; },
      [](SequenceState& s) { s.prompt_tokens = 5; },
      [](SequenceState& s) { s.written = 5; },
      [](SequenceState& s) { s.written = -1; },
      [](SequenceState& s) { s.max_tokens = 0; },  // it has a generated token
      [](SequenceState& s) { s.max_tokens = 62; },
      [](SequenceState& s) { s.max_tokens = 2147483647; },
      [](SequenceState& s) { s.scored = 0; },
      [](SequenceState& s) { s.scored = 4; },
      [](SequenceState& s) { s.prompt_logprobs = 21; },
  };
  for (size_t i = 0; i < breaks.size(); ++i) {
    SequenceState state = make_state();
    breaks[i](state);
    EXPECT_FALSE(decode(encode(state)).ok()) << i;
  }
}

TEST(SequenceCodec, RandomBytesGiveValidStatesOrErrors) {
  base::Rng rng(3);
  const auto good = encode(make_state());
  int32_t accepted = 0;
  for (int32_t round = 0; round < 200000; ++round) {
    auto bytes = good;
    for (uint64_t n = rng.below(4) + 1; n > 0; --n) {
      bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.below(256));
    }
    const auto decoded = decode(bytes);
    if (!decoded.ok()) continue;
    ++accepted;
    const SequenceState& state = decoded->state;
    EXPECT_LE(state.tokens_max(), kBounds.context_tokens);
    EXPECT_LE(state.tokens.size(), static_cast<size_t>(state.tokens_max()));
    for (const TokenId token : state.tokens) EXPECT_LT(static_cast<uint32_t>(token), 100u);
    EXPECT_TRUE(state.sampling.temperature >= 0 && state.sampling.temperature <= 2);
  }
  EXPECT_GT(accepted, 1000);
}

TEST(ByteReader, GivesZeroesAfterTheFirstMistake) {
  const std::vector<std::byte> bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  ByteReader reader(bytes);
  EXPECT_EQ(reader.get<uint16_t>(), 0x0201);
  EXPECT_EQ(reader.get<uint32_t>(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.get<uint8_t>(), 0);
  EXPECT_FALSE(reader.finished());
}

}  // namespace
}  // namespace bulkhead::wire
