#include "base/bounded_queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace bulkhead::base {
namespace {

using std::chrono::milliseconds;

TEST(BoundedQueue, RefusesWhatDoesNotFit) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.try_push(1));
  EXPECT_TRUE(queue.try_push(2));
  EXPECT_FALSE(queue.try_push(3));
  EXPECT_EQ(queue.try_pop(), 1);
  EXPECT_TRUE(queue.try_push(3));
  EXPECT_EQ(queue.size(), 2u);
}

TEST(BoundedQueue, ClosingKeepsWhatIsInside) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.try_push(1));
  queue.close();
  EXPECT_FALSE(queue.try_push(2));
  EXPECT_EQ(queue.pop_for(milliseconds(0)), 1);
  EXPECT_EQ(queue.pop_for(milliseconds(1000)), std::nullopt);
}

TEST(BoundedQueue, WakesAWaitingConsumer) {
  BoundedQueue<int> queue(1);
  std::thread producer([&] { EXPECT_TRUE(queue.try_push(7)); });
  EXPECT_EQ(queue.pop_for(milliseconds(10000)), 7);
  producer.join();
}

}  // namespace
}  // namespace bulkhead::base
