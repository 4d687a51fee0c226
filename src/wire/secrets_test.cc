#include "wire/secrets.h"

#include <gtest/gtest.h>

namespace bulkhead::wire {
namespace {

// RFC 4231, test cases 1 and 2.
TEST(Secrets, ProofsAreHmacSha256) {
  const std::string text = "Hi There";
  EXPECT_EQ(short_hex(hmac_sha256(std::string(20, '\x0b'), std::as_bytes(std::span(text)))),
            "b0344c61d8db3853");
  const std::string other = "what do ya want for nothing?";
  EXPECT_EQ(short_hex(hmac_sha256("Jefe", std::as_bytes(std::span(other)))), "5bdcc146bf60754e");
}

TEST(Secrets, NothingIsDrawnTwice) {
  EXPECT_NE(draw_bytes<16>(), draw_bytes<16>());
  EXPECT_NE(draw_word(), draw_word());
}

}  // namespace
}  // namespace bulkhead::wire
