#include "engine/sequence.h"

#include <gtest/gtest.h>

#include "engine/testing/event_trace.h"

namespace bulkhead::engine {
namespace {

using testing::EventTrace;
using Lines = std::vector<std::string>;

Sequence make_sequence(int32_t max_tokens, std::vector<wire::TokenId> stop_ids = {}) {
  wire::GenerateRequest request;
  request.id = 77;
  request.prompt = {1, 2, 3};
  request.max_tokens = max_tokens;
  request.stop_ids = std::move(stop_ids);
  return {wire::SequenceState(std::move(request), 4), {}};
}

wire::TokenEvent token(wire::TokenId id) {
  wire::TokenEvent event;
  event.token = id;
  return event;
}

TEST(Settle, EmitsATokenAndKeepsIt) {
  Sequence sequence = make_sequence(2);
  EventTrace events;
  EXPECT_EQ(settle(sequence, token(9), events), Settled::kGoesOn);
  EXPECT_EQ(events.take(), (Lines{"4: token 9"}));
  EXPECT_EQ(sequence.state.generated().size(), 1u);
  EXPECT_EQ(sequence.state.generated()[0], 9);
}

TEST(Settle, TheLimitEndsWithTheTokenThatReachesIt) {
  Sequence sequence = make_sequence(1);
  EventTrace events;
  EXPECT_EQ(settle(sequence, token(9), events), Settled::kEnded);
  EXPECT_EQ(events.take(), (Lines{"4: token 9", "4: end length"}));
}

TEST(Settle, AStopIdEndsWithoutBeingEmitted) {
  Sequence sequence = make_sequence(5, {8, 9});
  EventTrace events;
  EXPECT_EQ(settle(sequence, token(9), events), Settled::kEnded);
  EXPECT_EQ(events.take(), (Lines{"4: end stop by 9"}));
  EXPECT_TRUE(sequence.state.generated().empty());
}

TEST(Settle, AnErrorEndsTheSequence) {
  Sequence sequence = make_sequence(5);
  EventTrace events;
  const auto settled =
      settle(sequence, base::Error{base::ErrorCode::kInternal, "not a number", {}}, events);
  EXPECT_EQ(settled, Settled::kFailed);
  EXPECT_EQ(events.take(), (Lines{"4: end error"}));
}

}  // namespace
}  // namespace bulkhead::engine
