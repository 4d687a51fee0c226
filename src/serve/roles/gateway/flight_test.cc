#include "serve/roles/gateway/flight.h"

#include <gtest/gtest.h>

#include <array>

namespace bulkhead::serve::roles {
namespace {

using E = FlightEvent;
using H = Hearing;

constexpr std::array kEvents = {E::kAdmitted, E::kScores, E::kToken,  E::kOffered,
                                E::kAccepted, E::kEnded,  E::kFailed, E::kReleased};

struct Row {
  const char* state;
  FlightState at;
  std::array<H, 8> prefill;  // by kEvents
  std::array<H, 8> decode;
};

constexpr H kA = H::kApply;
constexpr H kI = H::kIgnore;
constexpr H kL = H::kLater;
constexpr H kX = H::kWrong;

// clang-format off
const Row kTable[] = {
  //                                            admit scor tokn offr acpt end  fail rlse
  {"sent",      {.has_decode = true},          {kA, kA, kA, kX, kX, kA, kA, kX},
                                               {kX, kX, kX, kX, kL, kX, kA, kX}},
  {"token",     {.token = true, .has_decode = true},
                                               {kX, kX, kX, kA, kX, kA, kA, kX},
                                               {kX, kX, kX, kX, kL, kX, kA, kX}},
  {"token, decode ahead", {.token = true, .has_decode = true, .early = true},
                                               {kX, kX, kX, kA, kX, kA, kA, kX},
                                               {kX, kX, kL, kX, kL, kL, kL, kL}},
  {"offered",   {.token = true, .offered = true, .has_decode = true},
                                               {kX, kX, kX, kX, kX, kX, kA, kA},
                                               {kX, kX, kX, kX, kA, kX, kA, kX}},
  {"accepted",  {.token = true, .offered = true, .accepted = true, .has_decode = true},
                                               {kX, kX, kX, kX, kX, kX, kI, kA},
                                               {kX, kX, kA, kX, kX, kA, kA, kX}},
  {"over",      {.token = true, .offered = true, .accepted = true, .over = true,
                 .has_decode = true},
                                               {kI, kI, kI, kI, kX, kI, kI, kA},
                                               {kX, kX, kI, kX, kI, kI, kI, kA}},
  {"over before anything", {.over = true, .has_decode = true},
                                               {kI, kI, kI, kI, kX, kI, kI, kA},
                                               {kX, kX, kI, kX, kI, kI, kI, kA}},
  {"one token alone", {.token = true},         {kX, kX, kX, kX, kX, kA, kA, kX},
                                               {kX, kX, kX, kX, kL, kX, kA, kX}},
};
// clang-format on

TEST(Flight, EveryWordInEveryStateIsJudgedByTheTable) {
  for (const Row& row : kTable) {
    for (size_t i = 0; i < kEvents.size(); ++i) {
      EXPECT_EQ(hear_prefill(row.at, kEvents[i]), row.prefill[i]) << row.state << " prefill " << i;
      EXPECT_EQ(hear_decode(row.at, kEvents[i]), row.decode[i]) << row.state << " decode " << i;
    }
  }
}

// C074
TEST(Flight, OnceItIsOverNothingButItsReleaseMatters) {
  for (const bool token : {false, true}) {
    for (const bool offered : {false, true}) {
      const FlightState over{.token = token, .offered = offered, .over = true, .has_decode = true};
      for (const E event : kEvents) {
        const H from_prefill = hear_prefill(over, event);
        const H from_decode = hear_decode(over, event);
        EXPECT_EQ(from_prefill == H::kApply, event == E::kReleased);
        EXPECT_EQ(from_decode == H::kApply, event == E::kReleased);
        EXPECT_NE(from_prefill, H::kLater);
        EXPECT_NE(from_decode, H::kLater);
      }
    }
  }
}

}  // namespace
}  // namespace bulkhead::serve::roles
