#include "apps/server_address.h"

#include <gtest/gtest.h>

namespace bulkhead::apps {
namespace {

TEST(ServerAddress, HostsAndPortsAreFound) {
  const auto plain = parse_server_url("http://127.0.0.1:30000");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->host, "127.0.0.1");
  EXPECT_EQ(plain->port, 30000);
  const auto six = parse_server_url("http://[::1]:8080/");
  ASSERT_TRUE(six.ok());
  EXPECT_EQ(six->host, "::1");
  EXPECT_EQ(six->port, 8080);
}

TEST(ServerAddress, AnythingElseIsRefused) {
  for (const char* url :
       {"", "127.0.0.1:30000", "https://a:1", "http://", "http://a", "http://a:", "http://:80",
        "http://a:0", "http://a:65536", "http://a:80x", "http://a:80/v1"}) {
    EXPECT_FALSE(parse_server_url(url).ok()) << url;
  }
}

}  // namespace
}  // namespace bulkhead::apps
