#include "router/request_state.h"

#include <gtest/gtest.h>

#include <map>

namespace bulkhead::router {
namespace {

using S = RequestState;
using E = RequestEvent;

constexpr S kStates[] = {S::kQueued,   S::kPrefilling, S::kTransferring,
                         S::kDecoding, S::kDraining,   S::kDone};
constexpr E kEvents[] = {E::kAdmitted,  E::kOffered,  E::kAccepted, E::kEnded,     E::kFailed,
                         E::kCancelled, E::kDeadline, E::kShutdown, E::kPreempted, E::kReleased};

bool from_outside(E event) {
  return event == E::kCancelled || event == E::kDeadline || event == E::kShutdown;
}

// Every (state, event) pair, written down a second time by rule instead of by table.
Transition expected(S state, E event) {
  const Transition impossible{Verdict::kImpossible, S::kDone};
  const Transition late{Verdict::kIgnore, S::kDone};
  if (from_outside(event)) {
    if (state == S::kQueued) return {Verdict::kMove, S::kDone};
    if (state == S::kDraining || state == S::kDone) return late;
    return {Verdict::kMove, S::kDraining};
  }
  static const std::map<std::pair<S, E>, S> moves = {
      {{S::kQueued, E::kAdmitted}, S::kPrefilling},
      {{S::kPrefilling, E::kOffered}, S::kTransferring},
      {{S::kTransferring, E::kAccepted}, S::kDecoding},
      {{S::kPrefilling, E::kEnded}, S::kDraining},
      {{S::kPrefilling, E::kFailed}, S::kDraining},
      {{S::kTransferring, E::kFailed}, S::kDraining},
      {{S::kDecoding, E::kEnded}, S::kDraining},
      {{S::kDecoding, E::kFailed}, S::kDraining},
      {{S::kPrefilling, E::kPreempted}, S::kQueued},
      {{S::kTransferring, E::kPreempted}, S::kQueued},
      {{S::kDecoding, E::kPreempted}, S::kQueued},
      {{S::kDraining, E::kReleased}, S::kDone},
  };
  if (const auto found = moves.find({state, event}); found != moves.end()) {
    return {Verdict::kMove, found->second};
  }
  if (state == S::kDraining && (event == E::kEnded || event == E::kFailed)) return late;
  return impossible;
}

// C074
TEST(RequestState, EveryPairOfStateAndEventIsDecided) {
  for (const S state : kStates) {
    for (const E event : kEvents) {
      EXPECT_EQ(transition(state, event), expected(state, event))
          << to_string(event) << " in " << to_string(state);
    }
  }
}

// C074
TEST(RequestState, DoneIsNeverLeft) {
  for (const E event : kEvents) EXPECT_NE(transition(S::kDone, event).verdict, Verdict::kMove);
}

TEST(RequestState, WhatHoldsResourcesIsReleasedBeforeItIsDone) {
  for (const S state : kStates) {
    for (const E event : kEvents) {
      const Transition next = transition(state, event);
      if (next.verdict != Verdict::kMove || next.to != S::kDone) continue;
      EXPECT_TRUE(state == S::kQueued || event == E::kReleased);
    }
  }
}

TEST(RequestState, NamesAreDistinct) {
  std::map<std::string_view, int> names;
  for (const S state : kStates) ++names[to_string(state)];
  for (const E event : kEvents) ++names[to_string(event)];
  for (const auto& [name, count] : names) EXPECT_EQ(count, 1) << name;
}

}  // namespace
}  // namespace bulkhead::router
