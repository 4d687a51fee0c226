// Every fault of the network at every step of the protocol: the bytes are right or there are none,
// both sides come to an end, every page comes back, and the next transfer works.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "transfer/remote/codec.h"
#include "transfer/remote/testing/handoff_rig.h"

namespace bulkhead::transfer::remote {
namespace {

TransferId transfer(uint64_t n) { return {23, n}; }

// The `nth` frame of one type suffers one fault.
FakeNetwork::Plan once(MessageType type, int32_t nth, NetFault fault, int32_t* hits) {
  return [=, seen = 0](int32_t, std::span<const std::byte> frame, uint64_t) mutable {
    if (describe_frame(frame) != to_string(type) || seen++ != nth) return NetFault::kNone;
    ++*hits;
    return fault;
  };
}

struct Fate {
  bool all_arrived = true;
};

// Three prompts at once, one of them given up by decode on the way.
Fate run_three(HandoffRig& rig) {
  Fate fate;
  const bool opened = rig.open();
  const std::array<int32_t, 3> tokens = {70, 5, 33};
  for (uint64_t n = 0; opened && n < 3; ++n) {
    rig.grant(transfer(n), tokens[n]);
    rig.open_at_prefill(transfer(n), tokens[n]);
  }
  for (int32_t i = 0; opened && i < 2; ++i) {
    for (uint64_t n = 0; n < 3; ++n) rig.compute(transfer(n));
    rig.step();
    rig.clock.advance(base::Nanoseconds{600'000'000});  // heartbeats are among the steps
    rig.step();
  }
  rig.decode.receiver->abort(transfer(2));
  EXPECT_TRUE(rig.settle());
  for (uint64_t n = 0; opened && n < 3; ++n) {
    SCOPED_TRACE(testing::Message() << "transfer " << n);
    const Outcome outcome = rig.outcome(transfer(n));
    EXPECT_TRUE(outcome.prefill.has_value());
    EXPECT_TRUE(outcome.arrived || outcome.decode.has_value());
    EXPECT_EQ(outcome.arrived, outcome.right);
    // What prefill believes to have gone well did.
    if (outcome.prefill && outcome.prefill->fault == Fault::kNone) {
      EXPECT_TRUE(outcome.arrived);
    }
    if (n < 2) fate.all_arrived = fate.all_arrived && outcome.arrived;
  }
  fate.all_arrived = fate.all_arrived && opened;
  return fate;
}

void expect_alive(HandoffRig& rig) {
  rig.network.set_plan(nullptr);
  if (!rig.prefill.sender->session().is_open() || !rig.decode.receiver->session().is_open())
    rig.connect();
  ASSERT_TRUE(rig.open());
  rig.run(transfer(100), 50);
  ASSERT_TRUE(rig.settle());
  EXPECT_TRUE(rig.outcome(transfer(100)).right);
  EXPECT_EQ(rig.balance(), "");
}

bool is_harmless(MessageType type, NetFault fault) {
  // Seen twice is seen once; and what is asked for again comes again.
  if (fault == NetFault::kDuplicate || fault == NetFault::kNone) return true;
  const bool passed_over =
      fault == NetFault::kDrop || fault == NetFault::kReorder || fault == NetFault::kDelay;
  return passed_over && (type == MessageType::kChunk || type == MessageType::kCommit ||
                         type == MessageType::kAccept || type == MessageType::kHeartbeat ||
                         type == MessageType::kAck || type == MessageType::kRevoke ||
                         type == MessageType::kRevokeAck);
}

class Faults : public testing::TestWithParam<NetFault> {};

// C078: any message may be lost, among them every acknowledgement.
TEST_P(Faults, AtEveryStepEndInRightBytesOrNone) {
  const NetFault fault = GetParam();
  int32_t steps_hit = 0;
  for (auto type = MessageType::kHello; type <= kLastMessageType;
       type = static_cast<MessageType>(static_cast<uint16_t>(type) + 1)) {
    for (const int32_t nth : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 25, 40, 50}) {
      SCOPED_TRACE(testing::Message()
                   << to_string(fault) << " of " << to_string(type) << " " << nth);
      int32_t hits = 0;
      HandoffRig rig({.pages = 16, .window_frames = 8, .plan = once(type, nth, fault, &hits)});
      const Fate fate = run_three(rig);
      if (hits == 0) break;
      ++steps_hit;
      if (is_harmless(type, fault)) {
        EXPECT_TRUE(fate.all_arrived);
      }
      expect_alive(rig);
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
  EXPECT_GT(steps_hit, 30);
}

INSTANTIATE_TEST_SUITE_P(Network, Faults, testing::ValuesIn(kAllNetFaults),
                         [](const auto& suite) { return std::string(to_string(suite.param)); });

// Any frame may suffer anything, at a rate; seeds name the runs.
TEST(BadNetwork, AtRandomNeverGiveWrongBytesAndNeverLosePages) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    base::Rng rng(seed);
    const uint64_t rate = 3 + rng.below(60);
    HandoffRig rig({.pages = 16, .window_frames = 8});
    rig.network.set_plan([&](int32_t, std::span<const std::byte>, uint64_t) {
      if (rng.below(rate) != 0) return NetFault::kNone;
      return kAllNetFaults[rng.below(std::size(kAllNetFaults))];
    });
    rig.connect();
    run_three(rig);
    expect_alive(rig);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(BadNetwork, APartitionIsNoticedByBothSidesAndHealsWithoutARestart) {
  HandoffRig rig;
  ASSERT_TRUE(rig.open());
  rig.run(transfer(1), 20);
  ASSERT_TRUE(rig.settle());
  rig.network.set_plan(
      [](int32_t, std::span<const std::byte>, uint64_t) { return NetFault::kPartition; });
  rig.grant(transfer(2), 70);
  rig.open_at_prefill(transfer(2), 70);
  ASSERT_TRUE(rig.settle());
  EXPECT_EQ(rig.outcome(transfer(2)).prefill->fault, Fault::kPeerLost);
  EXPECT_EQ(rig.outcome(transfer(2)).decode->fault, Fault::kPeerLost);
  EXPECT_EQ(contract_code(rig.outcome(transfer(2)).decode->fault), "worker_lost");
  EXPECT_EQ(rig.decode.pages->counts().available, 24);
  expect_alive(rig);
}

// One side is stopped for twice as long as silence may last, with everything under way.
TEST(BadNetwork, AStoppedPeerFindsItsGrantsRevokedWhenItGoesOn) {
  for (const bool prefill_stops : {true, false}) {
    HandoffRig rig({.pages = 8});
    ASSERT_TRUE(rig.open());
    rig.grant(transfer(1), 70);
    rig.open_at_prefill(transfer(1), 70);
    rig.compute(transfer(1));
    rig.step();
    for (int32_t i = 0; i < 100; ++i) {
      if (prefill_stops) rig.decode.poll();
      if (!prefill_stops) rig.prefill.poll();
      rig.clock.advance(base::Nanoseconds{100'000'000});
    }
    // The one that runs is free of it already.
    EXPECT_EQ((prefill_stops ? rig.decode.pages : rig.prefill.pages)->counts().available, 8);
    ASSERT_TRUE(rig.settle());
    const Outcome outcome = rig.outcome(transfer(1));
    EXPECT_FALSE(outcome.arrived);
    EXPECT_EQ(outcome.prefill->fault, Fault::kPeerLost);
    EXPECT_EQ(outcome.decode->fault, Fault::kPeerLost);
    expect_alive(rig);
  }
}

// One step of this side took longer than silence may last, and the peer's word waits all along.
TEST(BadNetwork, ALongStepOfOnesOwnIsNotThePeersSilence) {
  for (const bool prefill_steps : {true, false}) {
    HandoffRig rig;
    ASSERT_TRUE(rig.open());
    rig.step();
    rig.clock.advance(base::Nanoseconds{600'000'000});  // a heartbeat is due
    prefill_steps ? rig.decode.poll() : rig.prefill.poll();
    rig.clock.advance(base::Nanoseconds{10'000'000'000});
    prefill_steps ? rig.prefill.poll() : rig.decode.poll();
    const Session& session =
        prefill_steps ? rig.prefill.sender->session() : rig.decode.receiver->session();
    EXPECT_TRUE(session.is_open()) << session.why_closed().text;
    // With nothing new it is silence.
    rig.clock.advance(base::Nanoseconds{10'000'000'000});
    prefill_steps ? rig.prefill.poll() : rig.decode.poll();
    EXPECT_EQ(session.why_closed().fault, Fault::kPeerLost);
  }
}

TEST(BadNetwork, ARecordedSessionReplayedChangesNothing) {
  HandoffRig rig({.pages = 8});
  ASSERT_TRUE(rig.open());
  rig.run(transfer(1), 70);
  ASSERT_TRUE(rig.settle());
  const std::vector<RecordedFrame> recorded = rig.network.recorded();
  ASSERT_GT(recorded.size(), 20u);
  // Into the session that it is of, and into one that came after.
  for (const bool reconnect : {false, true}) {
    if (reconnect) rig.connect();
    ASSERT_TRUE(rig.open());
    const uint64_t n = reconnect ? 3 : 2;
    rig.grant(transfer(n), 70);
    rig.open_at_prefill(transfer(n), 70);
    const auto tags = rig.decode.pages->snapshot().tags;
    for (size_t i = 0; i < recorded.size(); ++i) {
      rig.network.inject(recorded[i].direction, recorded[i].bytes);
      rig.step();
    }
    EXPECT_EQ(rig.decode.pages->snapshot().tags, tags);
    EXPECT_EQ(rig.decode.receiver->counters().bytes_written,
              reconnect ? 0 : 5 * test_layout().page_bytes());
    const SessionCounters& counters = rig.decode.receiver->session().counters();
    EXPECT_GT(counters.replayed + counters.misdirected, 20u);
    rig.compute_all(transfer(n));
    ASSERT_TRUE(rig.settle());
    EXPECT_TRUE(rig.outcome(transfer(n)).right);
  }
  EXPECT_EQ(rig.balance(), "");
}

}  // namespace
}  // namespace bulkhead::transfer::remote
