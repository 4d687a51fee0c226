// A peer that greets as it should and then says anything at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/rng.h"
#include "transfer/remote/negotiation.h"
#include "transfer/remote/testing/handoff_rig.h"

namespace bulkhead::transfer::remote {
namespace {

// One honest side and, at the other end of its wire, a session that says what the test wants.
class HostilePeer : public testing::Test {
 protected:
  void face_decode() {
    auto ends = network.connect();
    peer.emplace(test_session(Role::kPrefill), std::move(ends.first), clock);
    decode.connect(std::move(ends.second), clock);
    while (!peer->is_open() || !decode.receiver->session().is_open()) step();
  }
  void face_prefill() {
    auto ends = network.connect();
    prefill.connect(std::move(ends.first), clock);
    peer.emplace(test_session(Role::kDecode), std::move(ends.second), clock);
    while (!peer->is_open() || !prefill.sender->session().is_open()) step();
  }
  // What the honest side said meanwhile is kept.
  void step() {
    peer->tick();
    while (auto message = peer->poll()) {
      if (const auto* grant = std::get_if<Grant>(&*message)) granted = *grant;
      if (const auto* commit = std::get_if<Commit>(&*message)) record = *commit;
      heard.push_back(type_of(*message));
    }
    if (decode.receiver) decode.poll();
    if (prefill.sender) prefill.poll();
    clock.advance(base::Nanoseconds{1'000'000});
  }
  void say(const Message& message) {
    peer->post(message);
    step();
    step();
  }
  Chunk chunk_of(const Grant& grant, uint32_t page, uint64_t offset) {
    Chunk out;
    out.grant = grant.grant;
    out.page_index = page;
    out.tag = grant.pages[page].ref.tag;
    out.offset = offset;
    out.payload =
        std::span(payload).first(std::min<size_t>(1000, test_layout().page_bytes() - offset));
    return out;
  }
  bool was_heard(MessageType type) const {
    return std::find(heard.begin(), heard.end(), type) != heard.end();
  }

  base::ManualClock clock;
  FakeNetwork network{clock};
  DecodeSide decode{8};
  PrefillSide prefill{8};
  std::optional<Session> peer;
  Grant granted;
  Commit record;
  std::vector<MessageType> heard;
  std::vector<std::byte> payload = std::vector<std::byte>(1000, std::byte{7});
};

// C038
TEST_F(HostilePeer, ARecordWithoutTheBytesIsNotAccepted) {
  face_decode();
  ASSERT_TRUE(decode.grant({1, 1}, 20));
  step();
  Commit commit;
  commit.grant = granted.grant;
  commit.transfer = {1, 1};
  for (int32_t i = 0; i < 10; ++i) say(commit);
  EXPECT_TRUE(was_heard(MessageType::kResend));
  EXPECT_TRUE(was_heard(MessageType::kRevoke));
  EXPECT_FALSE(was_heard(MessageType::kAccept));
  EXPECT_EQ(decode.outcomes[(TransferId{1, 1})].end->fault, Fault::kMissing);
  // It never says that it stopped, so the pages stay where they are until it is gone.
  EXPECT_EQ(decode.receiver->quarantined_pages(), 2);
  decode.receiver->close(Fault::kShutdown, "enough");
  EXPECT_EQ(decode.pages->counts().available, 8);
}

TEST_F(HostilePeer, AStateThatBreaksARuleIsNotAccepted) {
  face_decode();
  ASSERT_TRUE(decode.grant({1, 1}, 5));
  step();
  for (uint64_t offset = 0; offset < test_layout().page_bytes(); offset += 1000) {
    say(chunk_of(granted, 0, offset));
  }
  Commit commit;
  commit.grant = granted.grant;
  commit.transfer = {1, 1};
  commit.tokens = 5;
  commit.layout = test_layout().id();
  commit.page_bytes = test_layout().page_bytes();
  const uint64_t layer = test_layout().layer_bytes();
  commit.layer_bytes = {layer, layer};
  commit.pages = {{granted.pages[0], false, {}}};
  commit.state.assign(3, std::byte{0});
  say(commit);
  EXPECT_FALSE(was_heard(MessageType::kAccept));
  EXPECT_EQ(decode.outcomes[(TransferId{1, 1})].end->fault, Fault::kIntegrity);
  EXPECT_EQ(contract_code(Fault::kIntegrity), "kv_integrity");
}

TEST_F(HostilePeer, WritesOutsideWhatWasGrantedChangeNothing) {
  face_decode();
  ASSERT_TRUE(decode.grant({1, 1}, 20));
  step();
  Chunk chunk = chunk_of(granted, 0, 0);
  chunk.page_index = 2;
  say(chunk);
  chunk = chunk_of(granted, 0, 0);
  chunk.offset = 500;
  say(chunk);
  chunk = chunk_of(granted, 1, 0);
  chunk.tag = granted.pages[0].ref.tag;
  say(chunk);
  chunk = chunk_of(granted, 0, 0);
  chunk.grant.low ^= 1;
  say(chunk);
  say(chunk_of(granted, 0, 0));
  say(chunk_of(granted, 0, 0));
  const ReceiverCounters& counters = decode.receiver->counters();
  EXPECT_EQ(counters.out_of_range, 2u);
  EXPECT_EQ(counters.stale_tag, 1u);
  EXPECT_EQ(counters.late, 1u);
  EXPECT_EQ(counters.duplicate, 1u);
  EXPECT_EQ(counters.chunks_written, 1u);
}

TEST_F(HostilePeer, GrantsThatMakeNoSenseCloseTheSession) {
  const auto spoil = [](int32_t how, Grant grant) {
    if (how == 0) grant.tokens = -1;
    if (how == 1) grant.tokens = 2'000'000'000;
    if (how == 2) grant.page_bytes = 1;
    if (how == 3) grant.pages.clear();
    if (how == 4) grant.pages[0].token_begin = 3;
    if (how == 5) grant.pages[0].token_count = 4;
    if (how == 6) grant.pages[0].ref.page = -7;
    return grant;
  };
  Grant good;
  good.grant = {5, 5};
  good.transfer = {1, 1};
  good.tokens = 5;
  good.page_bytes = test_layout().page_bytes();
  good.pages = {{{3, 9}, 0, 5}};
  for (int32_t how = 0; how < 7; ++how) {
    face_prefill();
    prefill.open({1, 1}, 5);
    say(spoil(how, good));
    EXPECT_TRUE(prefill.sender->session().is_closed()) << how;
    EXPECT_EQ(prefill.outcomes[(TransferId{1, 1})].end->fault, Fault::kProtocol);
    prefill.outcomes.clear();
    prefill.forget();
    EXPECT_EQ(prefill.pages->counts().available, 8);
  }
}

TEST_F(HostilePeer, EndlessGrantsAndResendsCostBoundedMemory) {
  face_prefill();
  Grant grant;
  grant.tokens = 5;
  grant.page_bytes = test_layout().page_bytes();
  grant.pages = {{{3, 9}, 0, 5}};
  for (uint64_t n = 0; n < 5000; ++n) {
    grant.grant = {1, n};
    grant.transfer = {2, n};
    peer->post(grant);
    step();
  }
  ASSERT_FALSE(prefill.sender->session().is_closed());
  heard.clear();
  prefill.open({2, 0}, 5);
  prefill.compute({2, 0});
  for (int32_t i = 0; i < 1000; ++i) say(Resend{{1, 0}, std::vector<uint32_t>(100, 0)});
  EXPECT_LT(prefill.sender->counters().pages_resent, 3000u);
  EXPECT_TRUE(was_heard(MessageType::kCommit));
}

TEST_F(HostilePeer, AMessageOfTheWrongSideClosesTheSession) {
  face_decode();
  say(Accept{{1, 2}});
  EXPECT_EQ(decode.receiver->session().why_closed().text, "prefill may not say: accept");
  decode.receiver.reset();
  face_prefill();
  say(Commit{});
  EXPECT_EQ(prefill.sender->session().why_closed().text, "decode may not say: commit");
}

TEST_F(HostilePeer, TenThousandRandomWordsHarmNobody) {
  base::Rng rng(11);
  for (uint64_t n = 0; n < 10000; ++n) {
    if (!decode.receiver || decode.receiver->session().is_closed()) face_decode();
    const TransferId id = {9, n};
    if (n % 8 == 0) decode.grant(id, 40);
    step();
    const GrantId grant = rng.below(4) == 0 ? random_id() : granted.grant;
    switch (rng.below(7)) {
      case 0:
        say(Heartbeat{{grant, random_id()}});
        break;
      case 1: {
        if (granted.pages.empty()) break;
        Chunk chunk = chunk_of(granted, static_cast<uint32_t>(rng.below(granted.pages.size())), 0);
        chunk.grant = grant;
        chunk.offset = rng.below(8) * (rng.below(4) == 0 ? 999 : 1000);
        say(chunk);
        break;
      }
      case 2:
        record.grant = grant;
        record.transfer = id;
        say(record);
        break;
      case 3:
        say(RevokeAck{grant});
        break;
      case 4:
        say(Abort{id, grant, {Fault::kAborted, "?"}});
        break;
      case 5:
        say(rng.below(50) == 0 ? Message(Resend{}) : Message(Ack{}));
        break;
      default:
        say(Close{{Fault::kShutdown, "bye"}});
    }
  }
  for (const auto& [id, outcome] : decode.outcomes) EXPECT_FALSE(outcome.arrived);
  decode.receiver.reset();
  EXPECT_EQ(kv::describe(kv::validate_idle(decode.pages->snapshot())), "");
}

}  // namespace
}  // namespace bulkhead::transfer::remote
