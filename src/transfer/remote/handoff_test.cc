// The handoff as it should go, and what either side may do at any moment of it.
#include <gtest/gtest.h>

#include "transfer/remote/digest.h"
#include "transfer/remote/testing/handoff_rig.h"

namespace bulkhead::transfer::remote {
namespace {

constexpr base::Nanoseconds kSecond{1'000'000'000};

TransferId transfer(uint64_t n) { return {17, n}; }

void expect_well(HandoffRig& rig, TransferId id) {
  const Outcome outcome = rig.outcome(id);
  EXPECT_TRUE(outcome.arrived);
  EXPECT_TRUE(outcome.right);
  EXPECT_FALSE(outcome.decode.has_value()) << outcome.decode->text;
  ASSERT_TRUE(outcome.prefill.has_value());
  EXPECT_EQ(outcome.prefill->fault, Fault::kNone) << outcome.prefill->text;
}

void expect_ended(HandoffRig& rig, TransferId id, Fault prefill, Fault decode) {
  const Outcome outcome = rig.outcome(id);
  EXPECT_FALSE(outcome.arrived);
  ASSERT_TRUE(outcome.prefill.has_value());
  ASSERT_TRUE(outcome.decode.has_value());
  EXPECT_EQ(to_string(outcome.prefill->fault), to_string(prefill)) << outcome.prefill->text;
  EXPECT_EQ(to_string(outcome.decode->fault), to_string(decode)) << outcome.decode->text;
}

TEST(Handoff, PromptsOfEveryLengthArriveAsTheyWereComputed) {
  HandoffRig rig({.pages = 8});
  ASSERT_TRUE(rig.open());
  for (int32_t tokens = 1; tokens <= 50; ++tokens) {
    rig.run(transfer(static_cast<uint64_t>(tokens)), tokens);
    ASSERT_TRUE(rig.settle());
    expect_well(rig, transfer(static_cast<uint64_t>(tokens)));
  }
  EXPECT_EQ(rig.decode.receiver->counters().duplicate, 0u);
  EXPECT_EQ(rig.balance(), "");
}

TEST(Handoff, PagesOfFinishedChunksArriveWhileTheNextIsComputed) {
  HandoffRig rig;
  ASSERT_TRUE(rig.open());
  ASSERT_TRUE(rig.grant(transfer(1), 64));
  ASSERT_TRUE(rig.open_at_prefill(transfer(1), 64));
  const uint64_t page_bytes = test_layout().page_bytes();
  for (uint64_t page = 1; page < 4; ++page) {
    ASSERT_TRUE(rig.compute(transfer(1)));
    rig.step();
    rig.step();
    EXPECT_EQ(rig.decode.receiver->counters().bytes_written, page * page_bytes);
  }
  EXPECT_FALSE(rig.outcome(transfer(1)).arrived);
  rig.compute_all(transfer(1));
  ASSERT_TRUE(rig.settle());
  expect_well(rig, transfer(1));
}

TEST(Handoff, TheGrantMayComeBeforeOrAfterThePromptIsKnown) {
  HandoffRig rig;
  ASSERT_TRUE(rig.open());
  ASSERT_TRUE(rig.grant(transfer(1), 20));
  for (int32_t i = 0; i < 5; ++i) rig.step();
  ASSERT_TRUE(rig.open_at_prefill(transfer(1), 20));
  ASSERT_TRUE(rig.open_at_prefill(transfer(2), 20));
  rig.compute_all(transfer(2));
  for (int32_t i = 0; i < 5; ++i) rig.step();
  ASSERT_TRUE(rig.grant(transfer(2), 20));
  ASSERT_TRUE(rig.settle());
  expect_well(rig, transfer(1));
  expect_well(rig, transfer(2));
  EXPECT_EQ(rig.balance(), "");
}

TEST(Handoff, AShortPromptDoesNotWaitForALongOne) {
  HandoffRig rig({.window_frames = 4});
  ASSERT_TRUE(rig.open());
  rig.grant(transfer(1), 160);
  rig.open_at_prefill(transfer(1), 160);
  rig.compute_all(transfer(1));
  rig.grant(transfer(2), 10);
  rig.open_at_prefill(transfer(2), 10);
  rig.compute_all(transfer(2));
  while (!rig.outcome(transfer(2)).arrived) rig.step();
  EXPECT_FALSE(rig.outcome(transfer(1)).arrived);
  ASSERT_TRUE(rig.settle());
  expect_well(rig, transfer(1));
}

// C084: longer than every ring: pages, remembered grants, sequence numbers.
TEST(Handoff, ThousandsPassThroughSmallPoolsAndAllAreRight) {
  HandoffRig rig({.pages = 16});
  rig.decode.options.accepted_kept = 8;
  rig.connect();
  ASSERT_TRUE(rig.open());
  for (uint64_t n = 0; n < 2000; ++n) {
    rig.run(transfer(n), 1 + static_cast<int32_t>(n % 40));
    ASSERT_TRUE(rig.settle());
    ASSERT_TRUE(rig.outcome(transfer(n)).right) << n;
  }
  EXPECT_EQ(rig.balance(), "");
}

TEST(Handoff, ASlowPeerIsWaitedForWithBoundedMemory) {
  HandoffRig rig({.window_frames = 8, .network = {.room = 6}});
  ASSERT_TRUE(rig.open());
  for (uint64_t n = 0; n < 3; ++n) {
    rig.grant(transfer(n), 60);
    rig.open_at_prefill(transfer(n), 60);
    rig.compute_all(transfer(n));
  }
  for (int32_t i = 0; i < 1000; ++i) rig.prefill.poll();
  EXPECT_LE(rig.prefill.sender->counters().bytes_sent, 8000u);
  for (int32_t round = 0; round < 400; ++round) {
    for (int32_t i = 0; i < 50; ++i) rig.prefill.poll();
    rig.decode.poll();
    rig.clock.advance(kSecond / 10);
  }
  for (uint64_t n = 0; n < 3; ++n) expect_well(rig, transfer(n));
  EXPECT_EQ(rig.balance(), "");
}

// C076: either owner gives up before the k-th poll, for every k until all is over anyway; the
// session and the transfer beside it go on.
TEST(Handoff, MayBeAbortedByEitherSideAtEveryState) {
  for (int32_t side = 0; side < 3; ++side) {
    for (int32_t k = 0; k < 40; ++k) {
      SCOPED_TRACE(testing::Message() << "side " << side << " step " << k);
      HandoffRig rig({.pages = 16, .window_frames = 4});
      ASSERT_TRUE(rig.open());
      int32_t now = 0;
      const auto act = [&] {
        if (now++ != k) return;
        if (side != 1) rig.prefill.sender->abort(transfer(1), {Fault::kAborted, "client left"});
        if (side != 0) rig.decode.receiver->abort(transfer(1));
      };
      act();
      rig.grant(transfer(1), 70);
      act();
      rig.open_at_prefill(transfer(1), 70);
      rig.grant(transfer(2), 30);
      rig.open_at_prefill(transfer(2), 30);
      bool more = true;
      while (more || now <= k) {
        more = rig.compute(transfer(1)) || rig.compute(transfer(2));
        act();
        rig.prefill.poll();
        act();
        rig.decode.poll();
      }
      ASSERT_TRUE(rig.settle());
      expect_well(rig, transfer(2));
      EXPECT_TRUE(rig.prefill.sender->session().is_open());
      const Outcome outcome = rig.outcome(transfer(1));
      ASSERT_TRUE(outcome.prefill.has_value());
      EXPECT_TRUE(outcome.arrived ? outcome.right : outcome.decode.has_value());
      EXPECT_EQ(rig.balance(), "");
    }
  }
}

// C075
TEST(Handoff, AnAbortReachesTheOtherSideAtOnceAndNotByATimeout) {
  HandoffRig rig;
  ASSERT_TRUE(rig.open());
  rig.grant(transfer(1), 70);
  rig.open_at_prefill(transfer(1), 70);
  rig.grant(transfer(2), 70);
  rig.open_at_prefill(transfer(2), 70);
  rig.compute(transfer(1));
  rig.compute(transfer(2));
  rig.step();
  rig.prefill.sender->abort(transfer(1), {Fault::kAborted, "the prompt is too long"});
  rig.decode.receiver->abort(transfer(2));
  for (int32_t i = 0; i < 3; ++i) rig.step();
  expect_ended(rig, transfer(1), Fault::kAborted, Fault::kAborted);
  EXPECT_EQ(rig.outcome(transfer(1)).decode->text, "the prompt is too long");
  expect_ended(rig, transfer(2), Fault::kAborted, Fault::kAborted);
  EXPECT_EQ(rig.decode.receiver->quarantined_pages(), 0);
  EXPECT_EQ(rig.balance(), "");
}

// C074: abort and success in both orders; the rig checks that nothing ends twice.
TEST(Handoff, AnEndThatWasToldIsNotChangedByWhatComesLater) {
  for (const bool abort_first : {true, false}) {
    HandoffRig rig;
    ASSERT_TRUE(rig.open());
    rig.run(transfer(1), 20);
    if (abort_first) rig.decode.receiver->abort(transfer(1));
    for (int32_t i = 0; i < 4; ++i) rig.step();
    rig.decode.receiver->abort(transfer(1));
    rig.prefill.sender->abort(transfer(1), {Fault::kAborted, "too late"});
    ASSERT_TRUE(rig.settle());
    EXPECT_EQ(rig.balance(), "");
  }
}

// C073: decode is told, before or after its grant, and gets no half of a cache.
TEST(Handoff, PrefillThatRefusesAPromptLeavesDecodeNothingToRun) {
  for (const bool granted_first : {true, false}) {
    HandoffRig rig;
    ASSERT_TRUE(rig.open());
    if (granted_first) rig.grant(transfer(1), 40);
    if (granted_first) rig.step();
    rig.open_at_prefill(transfer(1), 40);
    rig.compute(transfer(1));
    rig.prefill.sender->abort(transfer(1), {Fault::kAborted, "refused"});
    if (!granted_first) rig.grant(transfer(1), 40);
    for (int32_t i = 0; i < 4; ++i) rig.step();
    expect_ended(rig, transfer(1), Fault::kAborted, Fault::kAborted);
    EXPECT_EQ(rig.balance(), "");
  }
}

// C073
TEST(Handoff, TheTwoSidesMustMeanTheSamePrompt) {
  HandoffRig rig;
  ASSERT_TRUE(rig.open());
  rig.grant(transfer(1), 40);
  rig.open_at_prefill(transfer(1), 41);
  rig.compute_all(transfer(1));
  ASSERT_TRUE(rig.settle());
  expect_ended(rig, transfer(1), Fault::kIntegrity, Fault::kIntegrity);
  EXPECT_EQ(rig.outcome(transfer(1)).decode->text, "decode granted 40 tokens, the prompt has 41");
  EXPECT_EQ(rig.balance(), "");
}

// C077: decode never heard of the request.
TEST(Handoff, PagesThatNobodyAsksForAreGivenBack) {
  HandoffRig rig;
  ASSERT_TRUE(rig.open());
  rig.open_at_prefill(transfer(1), 40);
  rig.compute_all(transfer(1));
  EXPECT_LT(rig.prefill.pages->counts().available, 24);
  ASSERT_TRUE(rig.settle());
  ASSERT_TRUE(rig.outcome(transfer(1)).prefill.has_value());
  EXPECT_EQ(rig.outcome(transfer(1)).prefill->fault, Fault::kNoGrant);
  EXPECT_EQ(rig.balance(), "");
}

TEST(Handoff, AGrantWhosePromptNeverComesIsGivenBack) {
  HandoffRig rig;
  ASSERT_TRUE(rig.open());
  rig.grant(transfer(1), 40);
  ASSERT_TRUE(rig.settle());
  ASSERT_TRUE(rig.outcome(transfer(1)).decode.has_value());
  EXPECT_EQ(rig.outcome(transfer(1)).decode->fault, Fault::kAborted);
  EXPECT_EQ(rig.balance(), "");
}

TEST(Handoff, ALeaseLastsAsLongAsPrefillSaysThatItHoldsTheGrant) {
  HandoffRig rig;
  ASSERT_TRUE(rig.open());
  rig.grant(transfer(1), 40);
  rig.open_at_prefill(transfer(1), 40);
  // Five times the lease, with the prompt queueing.
  for (int32_t i = 0; i < 1000; ++i) {
    rig.step();
    rig.clock.advance(kSecond / 10);
  }
  EXPECT_FALSE(rig.outcome(transfer(1)).decode.has_value());
  rig.compute_all(transfer(1));
  ASSERT_TRUE(rig.settle());
  expect_well(rig, transfer(1));
}

// C078, C079: the answer to the revocation is lost until prefill is heard again.
TEST(Handoff, QuarantineEndsWithTheAnswerAndNotWithTime) {
  HandoffRig rig;
  ASSERT_TRUE(rig.open());
  rig.grant(transfer(1), 70);
  rig.open_at_prefill(transfer(1), 70);
  rig.compute(transfer(1));
  rig.step();
  bool deaf = true;
  rig.network.set_plan([&](int32_t, std::span<const std::byte> frame, uint64_t) {
    return deaf && describe_frame(frame) == "revoke_ack" ? NetFault::kDrop : NetFault::kNone;
  });
  rig.decode.receiver->abort(transfer(1));
  for (int32_t i = 0; i < 600; ++i) {
    rig.step();
    rig.clock.advance(kSecond / 10);
  }
  EXPECT_EQ(rig.decode.receiver->quarantined_pages(), 5);
  EXPECT_EQ(rig.outcome(transfer(1)).decode->fault, Fault::kAborted);  // the owner knew at once
  deaf = false;
  for (int32_t i = 0; i < 10; ++i) {
    rig.step();
    rig.clock.advance(kSecond / 10);
  }
  EXPECT_EQ(rig.decode.receiver->quarantined_pages(), 0);
  EXPECT_EQ(rig.balance(), "");
}

// C040
TEST(Handoff, AWriteAfterRevocationIsRefusedAndCounted) {
  // The chunks are on the way when decode gives up, and arrive long after its pages have new
  // owners.
  bool late = true;
  HandoffRig rig({.pages = 6, .network = {.delay = kSecond * 2}});
  ASSERT_TRUE(rig.open());
  rig.network.set_plan([&](int32_t, std::span<const std::byte> frame, uint64_t) {
    return late && describe_frame(frame) == "chunk" ? NetFault::kDelay : NetFault::kNone;
  });
  rig.grant(transfer(1), 70);
  rig.open_at_prefill(transfer(1), 70);
  rig.compute(transfer(1));
  rig.step();
  rig.decode.receiver->abort(transfer(1));
  for (int32_t i = 0; i < 3; ++i) rig.step();
  late = false;
  ASSERT_EQ(rig.decode.pages->counts().available, 6);
  rig.run(transfer(2), 80);
  ASSERT_TRUE(rig.settle());
  expect_well(rig, transfer(2));
  for (int32_t i = 0; i < 40; ++i) {
    rig.step();
    rig.clock.advance(kSecond / 10);
  }
  EXPECT_GT(rig.decode.receiver->counters().late, 0u);
  EXPECT_EQ(rig.balance(), "");
}

TEST(Handoff, MissingPagesAreAskedForAgainAndThenGivenUp) {
  for (const bool recovers : {true, false}) {
    int32_t dropped = 0;
    HandoffRig rig;
    ASSERT_TRUE(rig.open());
    rig.network.set_plan([&](int32_t, std::span<const std::byte> frame, uint64_t) {
      const bool drop = describe_frame(frame) == "chunk" && (!recovers || dropped < 7);
      dropped += drop ? 1 : 0;
      return drop ? NetFault::kDrop : NetFault::kNone;
    });
    rig.run(transfer(1), 40);
    ASSERT_TRUE(rig.settle());
    EXPECT_GT(rig.decode.receiver->counters().resends_asked, 0u);
    if (recovers) {
      expect_well(rig, transfer(1));
    } else {
      expect_ended(rig, transfer(1), Fault::kMissing, Fault::kMissing);
    }
    EXPECT_EQ(rig.balance(), "");
  }
}

TEST(Handoff, WatchedPagesArriveWithTheirStampsAndNothingIsSuspected) {
  HandoffRig rig({.pages = 8, .integrity = kv::integrity::Mode::kAbort});
  ASSERT_TRUE(rig.open());
  for (int32_t tokens = 1; tokens <= 50; ++tokens) {
    rig.run(transfer(static_cast<uint64_t>(tokens)), tokens);
    ASSERT_TRUE(rig.settle());
    expect_well(rig, transfer(static_cast<uint64_t>(tokens)));
  }
  for (const kv::PagePool* pool : {rig.prefill.pages.get(), rig.decode.pages.get()}) {
    EXPECT_TRUE(pool->integrity().report().events.empty());
  }
  EXPECT_EQ(rig.balance(), "");
}

// The bytes are whole and their digests right; it is another place's text.
TEST(Handoff, APageThatHoldsAnotherTextIsRefusedByItsStamp) {
  HandoffRig rig({.integrity = kv::integrity::Mode::kAbort});
  ASSERT_TRUE(rig.open());
  rig.prefill.tamper = [](kv::PagePool& pool, const kv::PageTable& table) {
    const auto stamp = pool.integrity().stamp(table.pages()[0]);
    if (stamp && table.pages().size() > 1) pool.integrity().set_stamp(table.pages()[1], *stamp);
  };
  rig.run(transfer(1), 40);
  ASSERT_TRUE(rig.settle());
  expect_ended(rig, transfer(1), Fault::kIntegrity, Fault::kIntegrity);
  const auto events = rig.decode.pages->integrity().report().events;
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, kv::integrity::Kind::kStamp);
  EXPECT_EQ(events[0].entry, 1);
  EXPECT_EQ(rig.balance(), "");
}

TEST(Handoff, ASourcePageThatBecameAnotherTenantsIsNotHandedOver) {
  HandoffRig rig({.integrity = kv::integrity::Mode::kAbort});
  ASSERT_TRUE(rig.open());
  rig.prefill.tamper = [](kv::PagePool& pool, const kv::PageTable& table) {
    pool.integrity().set_label(table.pages()[0], 9);
  };
  rig.run(transfer(1), 40);
  ASSERT_TRUE(rig.settle());
  expect_ended(rig, transfer(1), Fault::kIntegrity, Fault::kIntegrity);
  const auto counts = rig.prefill.pages->integrity().report().mismatches;
  EXPECT_EQ(counts[static_cast<size_t>(kv::integrity::Kind::kLabel)], 1u);
  EXPECT_EQ(rig.balance(), "");
}

TEST(Handoff, ASourcePageOfAnotherPlaceIsNotHandedOver) {
  HandoffRig rig({.integrity = kv::integrity::Mode::kAbort});
  ASSERT_TRUE(rig.open());
  rig.prefill.tamper = [](kv::PagePool& pool, const kv::PageTable& table) {
    pool.integrity().set_place(table.pages()[1], 0);
  };
  rig.run(transfer(1), 40);
  ASSERT_TRUE(rig.settle());
  expect_ended(rig, transfer(1), Fault::kIntegrity, Fault::kIntegrity);
  const auto counts = rig.prefill.pages->integrity().report().mismatches;
  EXPECT_EQ(counts[static_cast<size_t>(kv::integrity::Kind::kMisplaced)], 1u);
  EXPECT_EQ(rig.balance(), "");
}

// C040, C056: the pool's own hold is dropped when the prompt is done, and its pages are wanted at
// once.
TEST(Handoff, SourcePagesAreHeldUntilDecodeHasAccepted) {
  HandoffRig rig({.pages = 4});
  ASSERT_TRUE(rig.open());
  rig.network.set_plan([](int32_t, std::span<const std::byte> frame, uint64_t) {
    return describe_frame(frame) == "grant" ? NetFault::kDelay : NetFault::kNone;
  });
  rig.grant(transfer(1), 40);
  rig.open_at_prefill(transfer(1), 40);
  rig.compute_all(transfer(1));
  EXPECT_EQ(rig.prefill.pages->counts().available, 1);
  EXPECT_FALSE(rig.open_at_prefill(transfer(2), 40));
  ASSERT_TRUE(rig.settle());
  expect_well(rig, transfer(1));
  EXPECT_EQ(rig.prefill.pages->counts().available, 4);
}

}  // namespace
}  // namespace bulkhead::transfer::remote
