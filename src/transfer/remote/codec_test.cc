#include "transfer/remote/codec.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "transfer/remote/testing/raw_frames.h"
#include "wire/bytes.h"

namespace bulkhead::transfer::remote {
namespace {

Hello make_hello() {
  Hello hello;
  hello.role = Role::kDecode;
  hello.product = "0.1.0";
  hello.model_digest[3] = 7;
  hello.pool_layout = hello.wire_layout = "bf16/64x2x2x64";
  hello.page_tokens = 64;
  hello.page_bytes = 65536;
  hello.scale_rule = "none";
  hello.chunk_bytes = 4096;
  hello.boot_nonce = 99;
  hello.session_nonce = {1, 2};
  return hello;
}

// One of every type.
std::vector<Message> every_message() {
  static const std::vector<std::byte> payload(33, std::byte{0x5a});
  const GrantPage page = {{5, 77}, 64, 12};
  Commit commit;
  commit.grant = {3, 4};
  commit.transfer = {5, 6};
  commit.tokens = 76;
  commit.layout = "bf16/64x2x2x64";
  commit.page_bytes = 65536;
  commit.layer_bytes = {32768, 32768};
  commit.pages = {{page, true, {8, 9}}, {page, false, {}}};
  commit.first_token = 1234;
  commit.state = payload;
  return {
      make_hello(),
      Ready{{1, 2, 3}},
      Close{{Fault::kShutdown, "good night"}},
      Heartbeat{{{1, 2}, {3, 4}}},
      Ack{},
      Grant{{1, 2}, {3, 4}, 76, 65536, 20000, {page, page}},
      Chunk{{1, 2}, 1, 77, 4096, payload},
      commit,
      Accept{{9, 9}},
      Resend{{9, 9}, {0, 5}},
      Abort{{1, 1}, {2, 2}, {Fault::kAborted, "gone"}},
      Revoke{{2, 2}, {Fault::kLeaseExpired, "late"}},
      RevokeAck{{2, 2}},
  };
}

Frame encode(const Message& message, uint64_t sequence = 4) {
  Frame frame;
  encode_frame({.type = type_of(message), .to = 11, .sequence = sequence, .arrived = 3}, message,
               frame);
  return frame;
}

TEST(Codec, EveryMessageComesBackAsItWas) {
  const auto messages = every_message();
  ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
  for (size_t i = 0; i < messages.size(); ++i) {
    SCOPED_TRACE(to_string(type_of(messages[i])));
    ASSERT_EQ(messages[i].index(), i);
    const Frame frame = encode(messages[i]);
    const auto decoded = decode_frame(frame);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(decoded->header.type, type_of(messages[i]));
    EXPECT_EQ(decoded->header.to, 11u);
    EXPECT_EQ(decoded->header.sequence, 4u);
    EXPECT_EQ(decoded->header.arrived, 3u);
    // Equal messages are equal frames.
    EXPECT_EQ(encode(decoded->message), frame);
  }
}

TEST(Codec, AFrameIsLittleEndianAndStartsWithItsName) {
  const Frame frame = encode(Accept{{0x0102030405060708, 1}});
  ASSERT_EQ(frame.size(), kFrameHeaderBytes + 16);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(frame.data()), 4), "BHK1");
  EXPECT_EQ(frame[4], std::byte{kProtocolVersion});
  EXPECT_EQ(frame[6], std::byte{9});  // accept
  EXPECT_EQ(frame[kFrameHeaderBytes], std::byte{8});
}

TEST(Codec, EveryTruncationAndEveryBitFlipIsAnError) {
  for (const Message& message : every_message()) {
    const Frame frame = encode(message);
    for (size_t n = 0; n < frame.size(); ++n) {
      EXPECT_FALSE(decode_frame(std::span(frame).first(n)).ok());
    }
    for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
      Frame bad = frame;
      bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      EXPECT_FALSE(decode_frame(bad).ok()) << to_string(type_of(message)) << " bit " << bit;
    }
  }
}

TEST(Codec, AnotherProtocolVersionIsToldApart) {
  Frame frame = encode(Ack{});
  frame[4] = std::byte{kProtocolVersion + 1};
  const auto decoded = decode_frame(frame);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().code, base::ErrorCode::kUnsupported);
  EXPECT_EQ(decoded.error().message,
            fmt::format("a frame of protocol version {}; this is version {}", kProtocolVersion + 1,
                        kProtocolVersion));
}

// C223. Bodies of random bytes under a header that is right, so that the body is looked at.
TEST(Codec, RandomBodiesNeverCrashAndNeverPassUnread) {
  base::Rng rng(7);
  int32_t accepted = 0;
  for (int32_t round = 0; round < 200000; ++round) {
    const auto type = static_cast<uint16_t>(1 + rng.below(std::variant_size_v<Message> + 1));
    Frame body(rng.below(120));
    for (std::byte& byte : body) {
      // Small counts are the interesting ones.
      byte = static_cast<std::byte>(rng.below(3) == 0 ? rng.below(256) : rng.below(3));
    }
    const Frame frame = frame_of(type, body);
    const auto decoded = decode_frame(frame);
    if (!decoded.ok()) continue;
    ++accepted;
    Frame again;
    encode_frame(decoded->header, decoded->message, again);
    EXPECT_EQ(again, frame);
  }
  EXPECT_GT(accepted, 100);
}

TEST(Codec, ACountBeyondWhatIsThereAllocatesNothing) {
  // A heartbeat that claims the most grants there may be, and brings none.
  Frame body;
  wire::ByteWriter writer(body);
  writer.put(uint32_t{kHeartbeatGrantsMax});
  EXPECT_FALSE(decode_frame(frame_of(static_cast<uint16_t>(MessageType::kHeartbeat), body)).ok());
  body.clear();
  writer.put(uint32_t{0xffffffff});
  EXPECT_FALSE(decode_frame(frame_of(static_cast<uint16_t>(MessageType::kHeartbeat), body)).ok());
}

TEST(Codec, WhatEndsAlwaysHasAReason) {
  Frame body;
  wire::ByteWriter writer(body);
  writer.put(Fault::kNone);
  writer.text("for no reason");
  EXPECT_FALSE(decode_frame(frame_of(static_cast<uint16_t>(MessageType::kClose), body)).ok());
}

TEST(Codec, DescribesFramesWithoutTrustingThem) {
  EXPECT_EQ(describe_frame(encode(Ack{})), "ack");
  EXPECT_EQ(describe_frame({}), "a cut frame");
  EXPECT_EQ(describe_frame(Frame(kFrameHeaderBytes)), "an unknown frame");
}

}  // namespace
}  // namespace bulkhead::transfer::remote
