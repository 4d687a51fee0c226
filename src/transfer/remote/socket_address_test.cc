#include "transfer/remote/socket_address.h"

#include <gtest/gtest.h>

namespace bulkhead::transfer::remote {
namespace {

TEST(SocketAddress, HostAndPortAreTakenApart) {
  const struct {
    const char* text;
    const char* host;
    uint16_t port;
  } cases[] = {{"127.0.0.1:7000", "127.0.0.1", 7000},
               {"[::1]:65535", "::1", 65535},
               {"decode-0.example:0", "decode-0.example", 0}};
  for (const auto& one : cases) {
    const auto parsed = parse_address(one.text);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(parsed->host, one.host);
    EXPECT_EQ(parsed->port, one.port);
  }
}

TEST(SocketAddress, WhatIsNoAddressIsRefused) {
  for (const char* text : {"", ":", "127.0.0.1", ":7000", "host:", "host:65536", "host:-1",
                           "host:70x", " host:70", "http://host:70", "ho st:70", "[]:1"}) {
    const auto parsed = parse_address(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, base::ErrorCode::kInvalidArgument);
  }
}

// A step thread must not wait for a resolver, so it knows no names at all.
TEST(SocketAddress, ANumericAddressIsFoundWithoutANameServer) {
  for (const char* text : {"127.0.0.1:7000", "[::1]:7000"}) {
    const auto found = numeric_address(text);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(to_string(*found), text);
  }
  EXPECT_FALSE(numeric_address("localhost:7000").ok());
  EXPECT_FALSE(numeric_address("nowhere").ok());
}

TEST(SocketAddress, AWildcardIsNobodysAddress) {
  for (const char* text : {"0.0.0.0:7000", "[::]:0"}) {
    EXPECT_TRUE(is_wildcard(*numeric_address(text))) << text;
  }
  for (const char* text : {"127.0.0.1:7000", "[::1]:0"}) {
    EXPECT_FALSE(is_wildcard(*numeric_address(text))) << text;
  }
}

}  // namespace
}  // namespace bulkhead::transfer::remote
