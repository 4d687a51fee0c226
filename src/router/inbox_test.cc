#include "router/inbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace bulkhead::router {
namespace {

Submission submission(wire::RequestId id) {
  Submission result;
  result.request.id = id;
  return result;
}

struct Taken {
  std::vector<Submission> submissions;
  std::vector<wire::RequestId> cancellations;
};

Taken take(Inbox& inbox) {
  Taken taken;
  inbox.take(taken.submissions, taken.cancellations);
  return taken;
}

TEST(Inbox, RefusesBeyondItsLimitUntilARequestIsDone) {
  Inbox inbox(2);
  EXPECT_TRUE(inbox.submit(submission(1)).ok());
  EXPECT_TRUE(inbox.submit(submission(2)).ok());
  const auto full = inbox.submit(submission(3));
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, base::ErrorCode::kResourceExhausted);
  EXPECT_EQ(take(inbox).submissions.size(), 2u);
  EXPECT_FALSE(inbox.submit(submission(3)).ok());  // taken is not done
  inbox.forget(1);
  EXPECT_TRUE(inbox.submit(submission(3)).ok());
}

TEST(Inbox, AnIdInUseIsRefused) {
  Inbox inbox(2);
  EXPECT_TRUE(inbox.submit(submission(1)).ok());
  EXPECT_EQ(inbox.submit(submission(1)).error().code, base::ErrorCode::kInvalidArgument);
}

TEST(Inbox, KeepsOneCancellationPerLiveRequestOnly) {
  Inbox inbox(4);
  EXPECT_TRUE(inbox.submit(submission(1)).ok());
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
  EXPECT_TRUE(inbox.submit(submission(1)).ok());
  inbox.close();
  EXPECT_TRUE(inbox.closed());
  EXPECT_EQ(inbox.submit(submission(2)).error().code, base::ErrorCode::kUnavailable);
  EXPECT_EQ(take(inbox).submissions.size(), 1u);
}

TEST(Inbox, WaitingEndsWhenSomethingArrives) {
  Inbox inbox(4);
  std::thread other([&] { EXPECT_TRUE(inbox.submit(submission(1)).ok()); });
  while (take(inbox).submissions.empty()) inbox.wait(std::chrono::seconds(60));
  other.join();
  inbox.wait(std::chrono::nanoseconds(1));  // nothing: returns at the timeout
}

}  // namespace
}  // namespace bulkhead::router
