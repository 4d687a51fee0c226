#include "transfer/remote/reorder_buffer.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace bulkhead::transfer::remote {
namespace {

using Buffer = ReorderBuffer<int>;

TEST(ReorderBuffer, GivesInOrderWhatArrivedInAny) {
  Buffer buffer(1 << 20);
  for (const uint64_t number : {2, 0, 3, 1}) {
    *buffer.add(number, 10).entry = static_cast<int>(number);
  }
  for (int number = 0; number < 4; ++number) {
    ASSERT_NE(buffer.front(), nullptr);
    EXPECT_EQ(*buffer.front(), number);
    buffer.pop();
  }
  EXPECT_EQ(buffer.front(), nullptr);
}

TEST(ReorderBuffer, ANumberIsTakenOnce) {
  Buffer buffer(1 << 20);
  ASSERT_NE(buffer.add(0, 1).entry, nullptr);
  EXPECT_EQ(buffer.add(0, 1).fault, ArrivalFault::kTwice);
  buffer.pop();
  EXPECT_EQ(buffer.add(0, 1).fault, ArrivalFault::kTwice);
}

// Frames of no bytes cost memory too.
TEST(ReorderBuffer, TinyEntriesAreBoundedAsLargeOnesAre) {
  constexpr size_t kMany = 100;
  Buffer buffer(kMany * Buffer::kEntryBytes);
  for (uint64_t number = 0; number < kMany; ++number) {
    ASSERT_NE(buffer.add(number + 1, 0).entry, nullptr) << number;
  }
  EXPECT_EQ(buffer.add(0, 0).fault, ArrivalFault::kTooMuch);

  Buffer large(1000 + Buffer::kEntryBytes);
  EXPECT_EQ(large.add(0, 1001).fault, ArrivalFault::kTooMuch);
  EXPECT_EQ(large.add(0, std::numeric_limits<size_t>::max()).fault, ArrivalFault::kTooMuch);
  ASSERT_NE(large.add(0, 1000).entry, nullptr);
  EXPECT_EQ(large.add(1, 0).fault, ArrivalFault::kTooMuch);
  large.pop();
  EXPECT_NE(large.add(1, 1000).entry, nullptr) << "what left makes room";
}

TEST(ReorderBuffer, ANumberFarAheadIsRefused) {
  Buffer buffer(1 << 30);
  EXPECT_NE(buffer.add(Buffer::kAheadMax, 0).entry, nullptr);
  EXPECT_EQ(buffer.add(Buffer::kAheadMax + 1, 0).fault, ArrivalFault::kTooFar);
  EXPECT_EQ(buffer.add(std::numeric_limits<uint64_t>::max(), 0).fault, ArrivalFault::kTooFar);
}

// A side that was busy for long finds many frames, all in order.
TEST(ReorderBuffer, WhatArrivedWithoutAGapIsNotFarAhead) {
  Buffer buffer(1 << 30);
  for (uint64_t number = 0; number < 3 * Buffer::kAheadMax; ++number) {
    ASSERT_NE(buffer.add(number, 8).entry, nullptr) << number;
  }
  EXPECT_EQ(buffer.add(4 * Buffer::kAheadMax + 1, 8).fault, ArrivalFault::kTooFar);
}

TEST(ReorderBuffer, GivesUpWhatWaits) {
  Buffer buffer(1 << 20);
  *buffer.add(1, 1).entry = 7;
  *buffer.add(5, 1).entry = 8;
  std::vector<int> taken;
  buffer.clear([&taken](int entry) { taken.push_back(entry); });
  EXPECT_EQ(taken, (std::vector<int>{7, 8}));
}

}  // namespace
}  // namespace bulkhead::transfer::remote
