#include "router/worker_choice.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <vector>

namespace bulkhead::router {
namespace {

WorkerView worker(uint64_t name, int64_t tokens_in_flight = 0) {
  return {.name = name, .available = true, .has_room = true, .tokens_in_flight = tokens_in_flight};
}

TEST(WorkerChoice, NobodyIsChosenFromNobody) {
  EXPECT_FALSE(choose_worker({}, {.tokens = 10}).has_value());
}

struct Row {
  const char* what;
  std::array<WorkerView, 3> workers;
  WorkerNeed need;
  std::optional<size_t> chosen;
};

TEST(WorkerChoice, FollowsTheTable) {
  const WorkerView gone{.name = 9, .available = false, .has_room = true};
  const WorkerView full{.name = 9, .available = true, .has_room = false};
  WorkerView failed = worker(9);
  failed.failed = true;
  WorkerView knows = worker(5, 60);
  knows.cached_tokens = 90;
  WorkerView knows_and_busy = worker(5, 95);
  knows_and_busy.cached_tokens = 90;
  WorkerView knows_more_than_there_is = worker(5, 95);
  knows_more_than_there_is.cached_tokens = 500;
  const Row rows[] = {
      {"least in flight", {worker(1, 30), worker(2, 10), worker(3, 20)}, {100, 0}, 1},
      {"first among equals", {worker(1, 10), worker(2, 10), worker(3, 10)}, {100, 0}, 0},
      {"retired or draining never", {gone, worker(2, 99), worker(3, 100)}, {100, 0}, 1},
      {"full never", {full, worker(2, 99), worker(3, 100)}, {100, 0}, 1},
      {"nobody has room", {full, full, gone}, {100, 0}, std::nullopt},
      {"who failed it comes last", {failed, worker(2, 99), worker(3, 98)}, {100, 0}, 2},
      {"who failed it, if there is no other", {failed, full, gone}, {100, 0}, 0},
      {"a cached prefix outweighs load", {worker(1, 0), knows, worker(3, 0)}, {100, 0}, 1},
      {"load outweighs a cached prefix", {worker(1, 0), knows_and_busy, worker(3, 0)}, {100, 0}, 0},
      {"no worker saves more than the prompt",
       {worker(1, 0), knows_more_than_there_is, gone},
       {50, 0},
       0 /* 0 + 50 before 95 + 0 */},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(choose_worker(row.workers, row.need), row.chosen) << row.what;
  }
}

TEST(WorkerChoice, ASessionStaysWithItsWorkerWhateverTheLoad) {
  std::vector<WorkerView> workers = {worker(11), worker(22), worker(33)};
  const auto home = choose_worker(workers, {.tokens = 10, .session = 777});
  ASSERT_TRUE(home.has_value());
  workers[*home].tokens_in_flight = 1'000'000;
  EXPECT_EQ(choose_worker(workers, {.tokens = 10, .session = 777}), home);
  workers[*home].has_room = false;
  const auto other = choose_worker(workers, {.tokens = 10, .session = 777});
  ASSERT_TRUE(other.has_value());
  EXPECT_NE(other, home);
}

TEST(WorkerChoice, ASessionLeavesTheWorkerThatFailedIt) {
  std::vector<WorkerView> workers = {worker(11), worker(22)};
  const auto home = choose_worker(workers, {.tokens = 10, .session = 5});
  workers[*home].failed = true;
  EXPECT_NE(choose_worker(workers, {.tokens = 10, .session = 5}), home);
}

TEST(WorkerChoice, SessionsSpreadAndOnlyThoseOfAWorkerThatGoesMove) {
  std::vector<WorkerView> workers = {worker(11), worker(22), worker(33)};
  std::map<uint64_t, size_t> homes;
  std::array<int, 3> count{};
  for (uint64_t session = 1; session <= 300; ++session) {
    homes[session] = *home_of_session(workers, session);
    ++count[homes[session]];
  }
  for (const int n : count) EXPECT_GT(n, 60);
  workers[1].available = false;
  for (const auto& [session, home] : homes) {
    const size_t now = *home_of_session(workers, session);
    if (home == 1) {
      EXPECT_NE(now, 1u);
    } else {
      EXPECT_EQ(now, home);
    }
  }
}

TEST(WorkerChoice, ASessionsHomeDoesNotDependOnTheOrderOfTheDeployment) {
  const std::vector<WorkerView> one = {worker(11), worker(22), worker(33)};
  const std::vector<WorkerView> other = {worker(33), worker(11), worker(22)};
  for (uint64_t session = 1; session <= 50; ++session) {
    EXPECT_EQ(one[*home_of_session(one, session)].name,
              other[*home_of_session(other, session)].name);
  }
}

}  // namespace
}  // namespace bulkhead::router
