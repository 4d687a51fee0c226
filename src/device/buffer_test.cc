#include "device/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace bulkhead::device {
namespace {

Buffer allocated(size_t bytes) {
  base::Result<Buffer> buffer = Buffer::allocate(bytes);
  EXPECT_TRUE(buffer.ok());
  return std::move(buffer).value();
}

TEST(Buffer, IsZeroFilledAndAligned) {
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{100000}, (size_t{2} << 20) + 17}) {
    const Buffer buffer = allocated(bytes);
    EXPECT_EQ(buffer.size(), bytes);
    const size_t alignment = bytes >= (size_t{2} << 20) ? size_t{2} << 20 : 64;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % alignment, 0u) << bytes;
    EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + bytes,
                            [](std::byte value) { return value == std::byte{0}; }));
  }
}

TEST(Buffer, MovingHandsTheBytesOver) {
  Buffer first = allocated(100);
  first.data()[7] = std::byte{42};
  const std::byte* address = first.data();
  Buffer second = std::move(first);
  EXPECT_EQ(second.data(), address);
  EXPECT_EQ(second.data()[7], std::byte{42});
  Buffer third = allocated(10);
  third = std::move(second);
  EXPECT_EQ(third.data(), address);
  EXPECT_EQ(third.size(), 100u);
}

TEST(Buffer, ViewsItsBytesAsWholeElements) {
  Buffer buffer = allocated(4 * 10 + 3);
  EXPECT_EQ(buffer.as<float>().size(), 10u);
  buffer.as<float>()[9] = 1.5f;
  const Buffer& constant = buffer;
  EXPECT_EQ(constant.as<float>()[9], 1.5f);
}

TEST(Buffer, EmptyIsAllowed) {
  const Buffer buffer = allocated(0);
  EXPECT_EQ(buffer.size(), 0u);
}

TEST(Buffer, AnImpossibleSizeIsAnErrorThatNamesIt) {
  for (const size_t bytes : {~size_t{0}, size_t{1} << 47}) {
    const base::Result<Buffer> buffer = Buffer::allocate(bytes);
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.error().code, base::ErrorCode::kResourceExhausted);
    EXPECT_NE(buffer.error().message.find("memory"), std::string::npos);
  }
}

}  // namespace
}  // namespace bulkhead::device
