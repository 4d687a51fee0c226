#include "transfer/remote/negotiation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "transfer/remote/testing/handoff_rig.h"

namespace bulkhead::transfer::remote {
namespace {

struct Skew {
  const char* name;
  void (*change)(Hello& decode);
  std::string reason;
};

const Skew kSkews[] = {
    {"Protocol", [](Hello& h) { h.protocol = kProtocolVersion + 1; },
     fmt::format("protocol version: prefill has {}, decode has {}", kProtocolVersion,
                 kProtocolVersion + 1)},
    {"Product", [](Hello& h) { h.product = "other"; },
     "version of Bulkhead: prefill has test, decode has other"},
    {"Model", [](Hello& h) { h.model_digest[0] = 0xab; },
     "model: prefill has 0000000000000000, decode has ab00000000000000"},
    {"PageTokens", [](Hello& h) { h.page_tokens = 64; },
     "page size in tokens: prefill has 16, decode has 64"},
    {"Layout", [](Hello& h) { h.pool_layout = h.wire_layout = "fp8_e4m3/16x2x2x16"; },
     "page layout: prefill has bf16/16x2x2x16, decode has fp8_e4m3/16x2x2x16"},
    {"PageBytes", [](Hello& h) { h.page_bytes = 1; },
     fmt::format("bytes of a page: prefill has {}, decode has 1", test_layout().page_bytes())},
    {"ScaleRule", [](Hello& h) { h.scale_rule = "amax448"; },
     "scale rule: prefill has none, decode has amax448"},
    {"ChunkBytes", [](Hello& h) { h.chunk_bytes = 4096; },
     "bytes of a chunk: prefill has 1000, decode has 4096"},
    {"PoolLayout", [](Hello& h) { h.pool_layout = "something else"; },
     "decode takes pages as bf16/16x2x2x16 and keeps them as something else"},
};

class PairSkew : public testing::TestWithParam<Skew> {};

// C079: peers of unlike versions do not pair up.
TEST_P(PairSkew, IsRefusedByBothSidesWithTheSameClearReason) {
  HandoffRig rig;
  GetParam().change(rig.decode.options.session.identity);
  rig.connect();
  EXPECT_FALSE(rig.open());
  for (int32_t i = 0; i < 5; ++i) rig.step();
  for (const Session* session : {&rig.prefill.sender->session(), &rig.decode.receiver->session()}) {
    ASSERT_TRUE(session->is_closed());
    EXPECT_EQ(to_string(session->why_closed().fault), "pair_refused");
    EXPECT_EQ(session->why_closed().text, GetParam().reason);
    EXPECT_TRUE(session->is_finished());
  }
  // Nothing can be begun.
  EXPECT_FALSE(rig.grant({1, 1}, 10));
  EXPECT_FALSE(rig.open_at_prefill({1, 1}, 10));
  EXPECT_EQ(rig.balance(), "");
}

INSTANTIATE_TEST_SUITE_P(All, PairSkew, testing::ValuesIn(kSkews),
                         [](const auto& suite) { return std::string(suite.param.name); });

TEST(Negotiation, TwoOfTheSameRoleRefuseEachOther) {
  Hello hello;
  EXPECT_EQ(*peer_mismatch(hello, hello), "both sides are prefill");
}

// C223
TEST(Negotiation, APeerWithoutTheKeyIsRefused) {
  HandoffRig rig;
  rig.prefill.options.session.peer_key = "guessed";
  rig.connect();
  EXPECT_FALSE(rig.open());
  for (int32_t i = 0; i < 5; ++i) rig.step();
  EXPECT_EQ(rig.decode.receiver->session().why_closed().text,
            "the two sides do not have the same peer key");
  EXPECT_TRUE(rig.prefill.sender->session().is_closed());
}

TEST(Negotiation, AProofIsOfOneSpeakerAndOneSession) {
  Hello prefill;
  Hello decode;
  decode.role = Role::kDecode;
  decode.session_nonce = {1, 2};
  const auto proof = key_proof("key", prefill, decode);
  EXPECT_NE(proof, key_proof("key", decode, prefill));
  EXPECT_NE(proof, key_proof("kez", prefill, decode));
  decode.session_nonce = {1, 3};
  EXPECT_NE(proof, key_proof("key", prefill, decode));
}

TEST(Negotiation, NothingButAGreetingPassesBeforeIt) {
  HandoffRig rig;
  Frame frame;
  encode_frame({.type = MessageType::kCommit, .to = 0, .sequence = 1, .arrived = 0}, Commit{},
               frame);
  rig.network.inject(0, frame);
  EXPECT_TRUE(rig.open());
  EXPECT_EQ(rig.decode.receiver->session().counters().misdirected, 1u);
}

}  // namespace
}  // namespace bulkhead::transfer::remote
