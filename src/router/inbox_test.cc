#include "router/inbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace bulkhead::router {
namespace {

using std::chrono::nanoseconds;

base::Status submit(Inbox& inbox, std::initializer_list<wire::RequestId> ids) {
  std::vector<wire::Submission> batch;
  for (const wire::RequestId id : ids) batch.emplace_back().request.id = id;
  return inbox.submit(std::move(batch), nanoseconds(0));
}

struct Taken {
  std::vector<Arrival> arrivals;
  std::vector<wire::RequestId> cancellations;
};

Taken take(Inbox& inbox) {
  Taken taken;
  inbox.take(taken.arrivals, taken.cancellations);
  return taken;
}

TEST(Inbox, TakesABatchWholeOrNotAtAll) {
  Inbox inbox(3);
  EXPECT_TRUE(submit(inbox, {1}).ok());
  EXPECT_EQ(submit(inbox, {2, 3, 4}).error().code, base::ErrorCode::kResourceExhausted);
  EXPECT_EQ(submit(inbox, {2, 1}).error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_EQ(take(inbox).arrivals.size(), 1u);
  EXPECT_TRUE(submit(inbox, {2, 3}).ok());  // neither was left behind by the refusals
  EXPECT_EQ(take(inbox).arrivals.size(), 2u);
}

TEST(Inbox, RefusesBeyondItsLimitUntilARequestIsDone) {
  Inbox inbox(2);
  EXPECT_TRUE(submit(inbox, {1}).ok());
  EXPECT_TRUE(submit(inbox, {2}).ok());
  const auto full = submit(inbox, {3});
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, base::ErrorCode::kResourceExhausted);
  EXPECT_EQ(take(inbox).arrivals.size(), 2u);
  EXPECT_FALSE(submit(inbox, {3}).ok());  // taken is not done
  inbox.forget(1);
  EXPECT_TRUE(submit(inbox, {3}).ok());
}

TEST(Inbox, AnIdInUseIsRefused) {
  Inbox inbox(2);
  EXPECT_TRUE(submit(inbox, {1}).ok());
  EXPECT_EQ(submit(inbox, {1}).error().code, base::ErrorCode::kInvalidArgument);
}

TEST(Inbox, KeepsOneCancellationPerLiveRequestOnly) {
  Inbox inbox(4);
  EXPECT_TRUE(submit(inbox, {1}).ok());
  for (int i = 0; i < 1000; ++i) {
    inbox.cancel(1);
    inbox.cancel(99);
  }
  EXPECT_EQ(take(inbox).cancellations, (std::vector<wire::RequestId>{1}));
  inbox.cancel(1);
  EXPECT_TRUE(take(inbox).cancellations.empty());
  inbox.forget(1);
  inbox.cancel(1);
  EXPECT_TRUE(take(inbox).cancellations.empty());
}

TEST(Inbox, ClosingRefusesAndKeepsWhatIsInside) {
  Inbox inbox(4);
  EXPECT_TRUE(submit(inbox, {1}).ok());
  inbox.close();
  EXPECT_TRUE(inbox.closed());
  EXPECT_EQ(submit(inbox, {2}).error().code, base::ErrorCode::kUnavailable);
  EXPECT_EQ(take(inbox).arrivals.size(), 1u);
}

TEST(Inbox, WaitingEndsWhenSomethingArrives) {
  Inbox inbox(4);
  std::thread other([&] { EXPECT_TRUE(submit(inbox, {1}).ok()); });
  while (take(inbox).arrivals.empty()) inbox.wait(std::chrono::seconds(60));
  other.join();
  inbox.wait(std::chrono::nanoseconds(1));  // nothing: returns at the timeout
}

}  // namespace
}  // namespace bulkhead::router
