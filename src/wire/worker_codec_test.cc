#include "wire/worker_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"

namespace bulkhead::wire {
namespace {

constexpr SequenceBounds kBounds{.vocabulary_size = 100, .context_tokens = 64};

SequenceState make_state() {
  GenerateRequest request;
  request.id = 7;
  request.prompt = {3, 1, 4, 1, 5};
  request.max_tokens = 20;
  request.min_tokens = 2;
  request.stop_ids = {0, 2};
  request.sampling.seed = 99;
  request.sampling.temperature = 0.5f;
  request.sampling.logit_bias = {{4, -1.5f}};
  request.cache.tenant[3] = 17;
  return SequenceState(std::move(request), 4);
}

TokenEvent make_token() {
  TokenEvent event;
  event.token = 42;
  event.logprob = -0.25f;
  event.top_logprobs = {{42, -0.25f}, {7, -2.0f}};
  return event;
}

WorkerHello make_hello() {
  WorkerHello hello;
  hello.role = WorkerRole::kDecode;
  hello.product = "0.1.0";
  hello.model_digest[31] = 9;
  hello.label = "decode-0";
  hello.weights = "int4";
  hello.kv = "fp8_e4m3";
  hello.layout = "gqa/30/3/64";
  hello.page_tokens = 64;
  hello.vocabulary_size = 100;
  hello.context_tokens = 64;
  hello.pages = 12;
  hello.sequences_max = 8;
  hello.transfer_address = "127.0.0.1:7";
  hello.http_address = "127.0.0.1:8";
  hello.boot_nonce = 0x1122334455667788;
  hello.session_nonce[0] = 1;
  return hello;
}

// One of each type, in the order of the variant.
std::vector<WorkerMessage> one_of_each() {
  const AttemptId id{5, 6};
  std::vector<WorkerMessage> all;
  all.reserve(std::variant_size_v<WorkerMessage>);
  all.emplace_back(make_hello());
  all.emplace_back(WorkerReady{{1, 2, 3}});
  all.emplace_back(WorkerClose{"leaving"});
  all.emplace_back(WorkerBeat{10, 4, 3, 2, true, 5});
  all.emplace_back(Expect{id, 77, 5, 25});
  all.emplace_back(Submit{id, "127.0.0.1:7", 88, make_state()});
  all.emplace_back(Cancel{id});
  all.emplace_back(FlushCache{});
  all.emplace_back(Admitted{id, 4});
  PromptEvent scores;
  scores.position = 1;
  scores.tokens = {make_token(), make_token()};
  all.emplace_back(PromptScored{id, scores});
  all.emplace_back(TokenMade{id, make_token()});
  all.emplace_back(Offered{id});
  all.emplace_back(Accepted{id});
  all.emplace_back(Ended{
      id,
      {FinishReason::kError, TokenId{-1}, base::Error{base::ErrorCode::kUnavailable, "no", "x"}}});
  all.emplace_back(Released{id});
  return all;
}

std::vector<std::byte> encode(const WorkerMessage& message, uint64_t number = 3) {
  std::vector<std::byte> frame;
  encode_worker_frame(message, number, frame);
  return frame;
}

std::vector<std::byte> unsealed(std::vector<std::byte> frame) {
  frame.resize(frame.size() - sizeof(uint64_t));
  return frame;
}

TEST(WorkerCodec, EveryMessageArrivesAsItWasSent) {
  const auto all = one_of_each();
  ASSERT_EQ(all.size(), std::variant_size_v<WorkerMessage>);
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(name_of(all[i]));
    ASSERT_EQ(all[i].index(), i);
    const auto frame = encode(all[i], 1000 + i);
    auto decoded = decode_worker_frame(frame, kBounds);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(decoded->number, 1000 + i);
    ASSERT_EQ(decoded->message.index(), i);
    EXPECT_EQ(encode(decoded->message, 1000 + i), frame);
  }
}

TEST(WorkerCodec, APromptTravelsWithAllThatDecidesItsAnswer) {
  auto decoded = decode_worker_frame(encode(Submit{{1, 2}, "there", 3, make_state()}), kBounds);
  ASSERT_TRUE(decoded.ok());
  const auto& submit = std::get<Submit>(decoded->message);
  const SequenceState sent = make_state();
  EXPECT_EQ(submit.decode_address, "there");
  EXPECT_EQ(submit.decode_boot, 3u);
  EXPECT_EQ(submit.state.tokens, sent.tokens);
  EXPECT_EQ(submit.state.max_tokens, sent.max_tokens);
  EXPECT_EQ(submit.state.min_tokens, sent.min_tokens);
  EXPECT_EQ(submit.state.stop_ids, sent.stop_ids);
  EXPECT_EQ(submit.state.sampling.seed, sent.sampling.seed);
  EXPECT_EQ(submit.state.sampling.temperature, sent.sampling.temperature);
  EXPECT_EQ(submit.state.sampling.logit_bias, sent.sampling.logit_bias);
  EXPECT_EQ(submit.state.cache.tenant, sent.cache.tenant);
  EXPECT_EQ(submit.state.id, 0u);  // the process gives those
  EXPECT_EQ(submit.state.slot, 0u);
}

// C223
TEST(WorkerCodec, APromptThatIsComputedInPartOrLeadsNowhereIsRefused) {
  const auto arrives = [](auto change) {
    Submit submit{{1, 2}, "there", 3, make_state()};
    change(submit);
    return decode_worker_frame(encode(std::move(submit)), kBounds).ok();
  };
  EXPECT_TRUE(arrives([](Submit&) {}));
  EXPECT_FALSE(arrives([](Submit& submit) { submit.state.tokens.push_back(9); }));
  EXPECT_FALSE(arrives([](Submit& submit) { submit.state.prompt_tokens -= 1; }));
  EXPECT_FALSE(arrives([](Submit& submit) { submit.state.written = 1; }));
  EXPECT_FALSE(arrives([](Submit& submit) { submit.state.written = submit.state.prompt_tokens; }));
  EXPECT_FALSE(arrives([](Submit& submit) { submit.decode_address.clear(); }));
  for (const int32_t tokens : {0, 1}) {
    EXPECT_TRUE(arrives([tokens](Submit& submit) {
      submit.decode_address.clear();
      submit.state.max_tokens = tokens;
    }));
  }
}

// C223
TEST(WorkerCodec, AFrameCutAnywhereOrWithMoreBehindItIsRefused) {
  for (const WorkerMessage& message : one_of_each()) {
    SCOPED_TRACE(name_of(message));
    auto frame = encode(message);
    for (size_t length = 0; length < frame.size(); ++length) {
      EXPECT_FALSE(decode_worker_frame(std::span(frame).first(length), kBounds).ok()) << length;
    }
    frame = unsealed(std::move(frame));
    for (size_t length = 0; length < frame.size(); ++length) {
      auto cut = frame;
      cut.resize(length);
      seal_worker_frame(cut);
      EXPECT_FALSE(decode_worker_frame(cut, kBounds).ok()) << length;
    }
    frame.push_back(std::byte{0});
    seal_worker_frame(frame);
    EXPECT_FALSE(decode_worker_frame(frame, kBounds).ok());
  }
}

// One bit of a token, or of its probability, is as well formed as any other.
TEST(WorkerCodec, AFrameWithAnyBitChangedIsRefused) {
  for (const WorkerMessage& message : one_of_each()) {
    SCOPED_TRACE(name_of(message));
    auto frame = encode(message);
    for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
      frame[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_FALSE(decode_worker_frame(frame, kBounds).ok()) << bit;
      frame[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
}

// C223: by a peer that seals what it makes up.
TEST(WorkerCodec, AFrameWithAnyByteChangedIsRefusedOrKeepsEveryBound) {
  for (const WorkerMessage& message : one_of_each()) {
    SCOPED_TRACE(name_of(message));
    const auto frame = unsealed(encode(message));
    for (size_t at = 0; at < frame.size(); ++at) {
      for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
        auto changed = frame;
        changed[at] = static_cast<std::byte>(value);
        seal_worker_frame(changed);
        auto decoded = decode_worker_frame(changed, kBounds);
        if (!decoded.ok()) continue;
        if (const auto* token = std::get_if<TokenMade>(&decoded->message)) {
          EXPECT_GE(token->event.token, 0);
          EXPECT_LT(token->event.token, kBounds.vocabulary_size);
        }
        if (const auto* expect = std::get_if<Expect>(&decoded->message)) {
          EXPECT_LE(expect->tokens_max, kBounds.context_tokens);
        }
        if (const auto* submit = std::get_if<Submit>(&decoded->message)) {
          EXPECT_LE(submit->state.tokens_max(), kBounds.context_tokens);
          EXPECT_EQ(submit->state.constraint, nullptr);
        }
        EXPECT_EQ(encode(decoded->message, decoded->number).size(), changed.size());
      }
    }
  }
}

TEST(WorkerCodec, RandomBytesAreRefused) {
  base::Rng rng(1);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> frame(rng.below(200));
    for (std::byte& byte : frame) byte = static_cast<std::byte>(rng.bits());
    EXPECT_FALSE(decode_worker_frame(frame, kBounds).ok());
    seal_worker_frame(frame);
    EXPECT_FALSE(decode_worker_frame(frame, kBounds).ok());
  }
}

// C223: a length of 2^32 - 1 with nothing behind it allocates nothing.
TEST(WorkerCodec, ACountWithoutItsItemsIsRefusedBeforeAnythingIsAllocated) {
  auto frame = unsealed(encode(WorkerClose{"why"}));
  for (size_t i = frame.size() - 7; i < frame.size() - 3; ++i) frame[i] = std::byte{0xff};
  seal_worker_frame(frame);
  EXPECT_FALSE(decode_worker_frame(frame, kBounds).ok());
}

TEST(WorkerCodec, AnotherVersionIsNamed) {
  auto frame = encode(Cancel{{1, 2}});
  frame[4] = std::byte{9};
  auto decoded = decode_worker_frame(frame, kBounds);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().code, base::ErrorCode::kUnsupported);
  EXPECT_THAT(decoded.error().message, testing::HasSubstr("version 9"));
}

TEST(WorkerCodec, APromptBeyondTheReceiversContextIsRefused) {
  auto state = make_state();
  state.max_tokens = 1000;
  EXPECT_FALSE(decode_worker_frame(encode(Submit{{1, 2}, "", 0, std::move(state)}), kBounds).ok());
}

TEST(WorkerCodec, LongWordsAreCutAtTheSender) {
  auto decoded = decode_worker_frame(encode(WorkerClose{std::string(5000, 'x')}), kBounds);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<WorkerClose>(decoded->message).why.size(), kWorkerTextMax);
}

}  // namespace
}  // namespace bulkhead::wire
