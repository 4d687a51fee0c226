#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>
#include <vector>

#include "http/server.h"
#include "http/test_server.h"

namespace bulkhead::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;
using testing_support::eventually;
using testing_support::get;
using testing_support::post;
using testing_support::RawClient;
using testing_support::RawResponse;
using testing_support::TestServer;

// Counts what reaches it: an abusive request must not.
struct Counting {
  std::atomic<int> calls{0};
  Handler handler() {
    return [this](const Request&, const std::shared_ptr<ResponseWriter>& writer) {
      ++calls;
      writer->send(Response{});
    };
  }
};

void expect_error(const RawResponse& response, int status, const std::string& code) {
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.status, status);
  EXPECT_EQ(response.header("Content-Type"), "application/json");
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_THAT(response.body, StartsWith(R"({"error":{"message":")"));
  EXPECT_THAT(response.body, HasSubstr(R"("param":null,"code":")" + code + R"(")"));
}

struct Abuse {
  const char* name;
  std::string bytes;
  int status;
  const char* code;
};

class ServerAbuse : public ::testing::TestWithParam<Abuse> {};

TEST_P(ServerAbuse, GetsOneClearErrorAndItsConnectionClosed) {
  Counting counting;
  ServerOptions options;
  options.body_bytes_max = 1000;
  TestServer server(counting.handler(), options);
  RawClient client(server.port());
  const std::string smuggled = get("/admin");
  client.send(GetParam().bytes + smuggled);
  expect_error(client.read_response(), GetParam().status, GetParam().code);
  EXPECT_TRUE(client.reads_end());
  EXPECT_EQ(client.buffered(), "") << "nothing behind a refused request is answered";
  EXPECT_EQ(counting.calls, 0);
  RawClient next(server.port());
  EXPECT_EQ(next.request(get("/")).status, 200) << "the server lives";
}

std::vector<Abuse> abuses() {
  const std::string line = "POST /v1/x HTTP/1.1\r\nHost: a\r\n";
  const std::string chunked = line + "Transfer-Encoding: chunked\r\n\r\n";
  std::string many_headers = line;
  for (int i = 0; i < 101; ++i) many_headers += "A: b\r\n";
  return {
      {"LengthAndChunked", line + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
       "invalid_request"},
      {"TwoLengths", line + "Content-Length: 4\r\nContent-Length: 4\r\n\r\n", 400,
       "invalid_request"},
      {"OddCoding", line + "Transfer-Encoding: chunked, identity\r\n\r\n", 501,
       "unsupported_transfer_encoding"},
      {"LargeBody", post("/", std::string(1001, 'x')), 413, "request_too_large"},
      {"LargeChunkedBody", chunked + "400\r\n" + std::string(1024, 'x') + "\r\n0\r\n\r\n", 413,
       "request_too_large"},
      {"Compressed", post("/", "x", "Content-Encoding: gzip\r\n"), 415,
       "unsupported_content_encoding"},
      {"LongTarget", get("/" + std::string(9000, 'a')), 414, "uri_too_long"},
      {"LongHeader", get("/", "A: " + std::string(40'000, 'a') + "\r\n"), 431, "header_too_large"},
      {"ManyHeaders", many_headers + "\r\n", 431, "header_too_large"},
      {"Expectation", post("/", "x", "Expect: money\r\n"), 417, "expectation_failed"},
      {"Nul", get("/%00"), 400, "invalid_request"},
      {"Tls", std::string("\x16\x03\x01\x00\xa5\x01\x00", 7), 400, "invalid_request"},
      {"Http2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "http_version_not_supported"},
      {"NoHost", "GET / HTTP/1.1\r\n\r\n", 400, "invalid_request"},
      {"Chunk", chunked + "zz\r\n", 400, "invalid_request"},
  };
}

INSTANTIATE_TEST_SUITE_P(Table, ServerAbuse, ::testing::ValuesIn(abuses()),
                         [](const auto& row) { return row.param.name; });

TEST(ServerLimits, AnswersBeforeTheBodyIsSent) {
  Counting counting;
  TestServer server(counting.handler());
  RawClient client(server.port());
  client.send(
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n");
  expect_error(client.read_response(), 413, "request_too_large");
}

TEST(ServerLimits, LetsAClientThatKeepsSendingReadItsError) {
  Counting counting;
  TestServer server(counting.handler());
  RawClient client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n");
  const std::string megabyte(1 << 20, 'x');
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(client.send(megabyte));
  expect_error(client.read_response(), 413, "request_too_large");
}

TEST(ServerLimits, AnswersHeadErrorsWithoutABody) {
  Counting counting;
  TestServer server(counting.handler());
  RawClient client(server.port());
  client.send("HEAD /%zz HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.read_response(true).status, 400);
  EXPECT_TRUE(client.reads_end());
  EXPECT_EQ(client.buffered(), "");
}

TEST(ServerLimits, RefusesConnectionsOverTheirNumber) {
  Counting counting;
  ServerOptions options;
  options.connections_max = 2;
  TestServer server(counting.handler(), options);
  RawClient first(server.port());
  RawClient second(server.port());
  EXPECT_EQ(first.request(get("/")).status, 200);
  EXPECT_EQ(second.request(get("/")).status, 200);
  for (int i = 0; i < 100; ++i) {
    RawClient surplus(server.port());
    surplus.send(get("/"));
    expect_error(surplus.read_response(), 503, "too_many_connections");
  }
  EXPECT_EQ(counting.calls, 2);
  first.close();
  EXPECT_TRUE(eventually([&] { return server.server().open_connections() == 1; }));
  RawClient third(server.port());
  EXPECT_EQ(third.request(get("/")).status, 200);
}

TEST(ServerLimits, BoundsTheBodiesOfAllConnectionsTogether) {
  Counting counting;
  ServerOptions options;
  options.body_bytes_total_max = 100'000;
  TestServer server(counting.handler(), options);
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n";
  RawClient first(server.port());
  RawClient second(server.port());
  first.send(head + std::string(59'999, 'x'));
  second.send(head + std::string(59'999, 'x'));
  // Whichever pushed the sum over the limit is refused; the other may finish.
  auto one = std::async(std::launch::async, [&] { return first.read_response().status; });
  auto two = std::async(std::launch::async, [&] { return second.read_response().status; });
  const auto ready = [](auto& status) { return status.wait_for(0s) == std::future_status::ready; };
  EXPECT_TRUE(eventually([&] { return ready(one) || ready(two); }));
  first.send("x");
  second.send("x");
  EXPECT_THAT((std::vector<int>{one.get(), two.get()}), ::testing::UnorderedElementsAre(200, 503));
  RawClient third(server.port());
  EXPECT_EQ(third.request(post("/", std::string(99'000, 'x'))).status, 200)
      << "what was refused or handed over no longer counts";
}

TEST(ServerTimeouts, EndAHeaderThatDoesNotArrive) {
  Counting counting;
  ServerOptions options;
  options.header_timeout = 1s;
  TestServer server(counting.handler(), options);
  RawClient silent(server.port());
  RawClient slow(server.port());
  slow.send("GET / HTTP/1.1\r\nHost:");
  expect_error(slow.read_response(), 408, "request_timeout");
  EXPECT_TRUE(silent.reads_end());
  EXPECT_EQ(silent.buffered(), "") << "a client that asked nothing is told nothing";
}

TEST(ServerTimeouts, AreNotExtendedByATrickle) {
  Counting counting;
  ServerOptions options;
  options.header_timeout = 1s;
  TestServer server(counting.handler(), options);
  RawClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: a\r\n");
  std::atomic<bool> answered{false};
  std::thread trickle([&] {
    while (!answered && client.send("A: b\r\n")) std::this_thread::sleep_for(100ms);
  });
  expect_error(client.read_response(), 408, "request_timeout");
  answered = true;
  trickle.join();
}

TEST(ServerTimeouts, EndABodyThatDoesNotArrive) {
  Counting counting;
  ServerOptions options;
  options.body_timeout = 1s;
  TestServer server(counting.handler(), options);
  RawClient client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  expect_error(client.read_response(), 408, "request_timeout");
  EXPECT_EQ(counting.calls, 0);
}

TEST(ServerTimeouts, CloseAnIdleConnectionSilently) {
  Counting counting;
  ServerOptions options;
  options.idle_timeout = 1s;
  TestServer server(counting.handler(), options);
  RawClient client(server.port());
  EXPECT_EQ(client.request(get("/")).status, 200);
  EXPECT_TRUE(client.reads_end());
  EXPECT_EQ(client.buffered(), "");
}

TEST(ServerTimeouts, DoNotLetALingeringClientHoldAConnection) {
  Counting counting;
  TestServer server(counting.handler());
  RawClient client(server.port());
  EXPECT_EQ(client.request(get("/", "Connection: close\r\n")).status, 200);
  EXPECT_TRUE(server.becomes_idle()) << "though the client never closes its side";
}

TEST(ServerAbuseStorm, LivesThroughRandomBytes) {
  Counting counting;
  TestServer server(counting.handler());
  std::mt19937 random(11);
  const std::string valid = post("/a?b", "hello", "A: b\r\n");
  for (int round = 0; round < 300; ++round) {
    std::string bytes = valid + valid;
    for (int i = 0; i < 1 + round % 5; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
    }
    RawClient client(server.port());
    client.send(bytes);
    client.shut_sending_side();
    while (client.read_some()) {
    }
  }
  EXPECT_TRUE(server.becomes_idle());
  RawClient next(server.port());
  EXPECT_EQ(next.request(get("/")).status, 200);
}

}  // namespace
}  // namespace bulkhead::http
