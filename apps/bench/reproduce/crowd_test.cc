#include "apps/bench/reproduce/crowd.h"

#include <gtest/gtest.h>

#include <thread>

namespace bulkhead::apps::reproduce {
namespace {

Told told(uint64_t first_token, uint64_t finished) {
  Told one;
  one.first_token = first_token;
  one.finished = finished;
  return one;
}

TEST(Admission, CountsWhoRanTogetherAndWhetherTheLastWaited) {
  // The third begins when the first has ended.
  const std::vector<Told> waited = {told(1, 3), told(2, 5), told(4, 6)};
  EXPECT_EQ(admission_of(waited).together, 2u);
  EXPECT_TRUE(admission_of(waited).last_waited);
  EXPECT_EQ(admission_of(waited).failed, 0u);
  const std::vector<Told> all = {told(1, 4), told(2, 5), told(3, 6)};
  EXPECT_EQ(admission_of(all).together, 3u);
  EXPECT_FALSE(admission_of(all).last_waited);
}

TEST(Admission, WhoGotAnErrorOrNoTokenFailed) {
  std::vector<Told> requests = {told(1, 3), told(2, 4), told(0, 5)};
  requests[1].end.error = base::Error{};
  EXPECT_EQ(admission_of(requests).failed, 2u);
  EXPECT_EQ(admission_of(requests).together, 1u);
}

TEST(Crowd, EndsWhenEverybodyHasAndKeepsTheOrder) {
  Crowd crowd(2);
  std::thread step([&] {
    crowd.on_token(1);
    crowd.on_token(0);
    crowd.on_token(1);
    crowd.on_finish(1, {});
    crowd.on_finish(0, {});
  });
  const std::vector<Told> all = crowd.wait();
  step.join();
  EXPECT_EQ(all[1].first_token, 1u);
  EXPECT_EQ(all[0].first_token, 2u);
  EXPECT_EQ(all[1].finished, 3u);
  EXPECT_EQ(all[0].finished, 4u);
}

TEST(Phases, PrefillEndsWithTheLastPromptAndDecodeBeginsThere) {
  std::vector<Told> requests(2);
  requests[0].end.prefill_time = std::chrono::milliseconds(500);
  requests[1].end.prefill_time = std::chrono::milliseconds(1000);
  requests[0].first_seconds = 10.5;
  requests[1].first_seconds = 11.0;
  requests[0].last_seconds = 14.5;
  requests[1].last_seconds = 15.0;
  const Phases phases = phases_of(requests, 100, 9);
  EXPECT_DOUBLE_EQ(phases.prefill, 200.0);
  EXPECT_DOUBLE_EQ(phases.decode, 4.0);
}

}  // namespace
}  // namespace bulkhead::apps::reproduce
