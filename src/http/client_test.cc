#include "http/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "http/sse.h"
#include "http/test_server.h"

namespace bulkhead::http {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;
using testing_support::eventually;
using testing_support::TestServer;

void echo(Request request, std::shared_ptr<ResponseWriter> writer) {
  Response response;
  response.status = 201;
  response.headers = {{"x-method", request.method},
                      {"x-seen", std::string(request.header("x-in"))}};
  response.body = std::move(request.body);
  writer->send(std::move(response));
}

// Accepts one connection and answers it with fixed bytes, whatever it asks.
class CannedServer {
 public:
  explicit CannedServer(std::string bytes) : bytes_(std::move(bytes)) {
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] {
      const int peer = accept(fd_, nullptr, nullptr);
      char buffer[4096];
      std::string request;
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = recv(peer, buffer, sizeof(buffer), 0);
        if (got <= 0) break;
        request.append(buffer, static_cast<size_t>(got));
      }
      for (const char c : bytes_) ::send(peer, &c, 1, MSG_NOSIGNAL);
      ::close(peer);
    });
  }
  ~CannedServer() {
    thread_.join();
    ::close(fd_);
  }
  uint16_t port() const { return port_; }

 private:
  std::string bytes_;
  int fd_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
};

base::Result<ClientResponse> get_canned(std::string bytes) {
  CannedServer server(std::move(bytes));
  return Client("127.0.0.1", server.port(), 60s).send("GET", "/", {}, "");
}

TEST(Client, SendsARequestAndReadsTheAnswer) {
  TestServer server(echo);
  Client client("localhost", server.port(), 60s);
  const std::string body(3'000'000, 'b');
  const auto response = client.send("POST", "/x", {{"X-In", "value"}}, body);
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->status, 201);
  EXPECT_TRUE(response->body == body);
  EXPECT_THAT(response->headers, ::testing::Contains(::testing::Field(&Header::value, "value")));
  EXPECT_EQ(client.send("HEAD", "/", {}, "")->body, "");
  EXPECT_EQ(client.send("DELETE", "/", {}, "")->status, 201) << "a client may be used again";
}

// The writer of the one request a test makes, from the I/O thread to the test's.
class Handed {
 public:
  Handler handler() {
    return [this](const Request&, std::shared_ptr<ResponseWriter> writer) {
      writer->start_stream(Response{});
      promise_.set_value(std::move(writer));
    };
  }
  std::shared_ptr<ResponseWriter> take() { return promise_.get_future().get(); }

 private:
  std::promise<std::shared_ptr<ResponseWriter>> promise_;
};

TEST(Client, HandsOverAStreamPieceByPiece) {
  Handed handed;
  TestServer server(handed.handler());
  Client client("127.0.0.1", server.port(), 60s);
  auto first = std::async(std::launch::async, [&] {
    auto writer = handed.take();
    writer->write(sse_event("0"));
    return writer;
  });
  std::shared_ptr<ResponseWriter> writer;
  std::vector<std::string> events;
  SseParser parser;
  const auto response = client.send("GET", "/", {}, "", [&](std::string_view piece) {
    if (!writer) writer = first.get();
    for (auto& event : parser.push(piece)) {
      events.push_back(event);
      // The next event is sent only when this one has arrived.
      if (events.size() < 5) {
        writer->write(sse_event(std::to_string(events.size())));
      } else {
        writer->finish();
      }
    }
    return true;
  });
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->body, "");
  EXPECT_THAT(events, ElementsAre("0", "1", "2", "3", "4"));
}

TEST(Client, HangsUpWhenThePieceSinkSaysSo) {
  std::atomic<bool> aborted{false};
  Handed handed;
  TestServer server(handed.handler());
  auto held = std::async(std::launch::async, [&] {
    auto writer = handed.take();
    writer->on_abort([&] { aborted = true; });
    writer->write("first");
    return writer;
  });
  int pieces = 0;
  const auto response =
      Client("127.0.0.1", server.port(), 60s).send("GET", "/", {}, "", [&](std::string_view) {
        ++pieces;
        return false;
      });
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(pieces, 1);
  const auto writer = held.get();
  EXPECT_TRUE(eventually([&] { return aborted.load(); }));
}

TEST(Client, GivesUpWhenTheTotalTimeIsOver) {
  Handed handed;
  TestServer server(handed.handler());
  const auto response =
      Client("127.0.0.1", server.port(), 200ms).send("GET", "/", {}, "", [](std::string_view) {
        return true;
      });
  ASSERT_FALSE(response.ok());
  EXPECT_THAT(response.error().message, HasSubstr("in time"));
}

TEST(Client, SaysThatNobodyListens) {
  uint16_t port = 0;
  {
    TestServer server(echo);
    port = server.port();
  }
  const auto response = Client("127.0.0.1", port, 60s).send("GET", "/", {}, "");
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().code, base::ErrorCode::kIo);
  EXPECT_THAT(response.error().message, HasSubstr("127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(response.error().message, HasSubstr("refused"));
  EXPECT_FALSE(Client("no such host", port, 60s).send("GET", "/", {}, "").ok());
}

TEST(Client, ReadsEveryKindOfBody) {
  EXPECT_EQ(get_canned("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef")->body, "abc");
  EXPECT_EQ(get_canned("HTTP/1.0 200 OK\r\n\r\nuntil the end")->body, "until the end");
  EXPECT_EQ(get_canned("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "2;x\r\nab\r\n1\r\nc\r\n0\r\nA: b\r\n\r\n")
                ->body,
            "abc");
  EXPECT_EQ(get_canned("HTTP/1.1 204 No Content\r\n\r\n")->status, 204);
  EXPECT_EQ(get_canned("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
                ->body,
            "x");
  EXPECT_EQ(get_canned("HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n")->status,
            302);
}

TEST(Client, DoesNotTakeAPartForTheWhole) {
  for (const char* bytes :
       {"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n", "SSH-2.0-OpenSSH\r\n", "HTTP/9.1 200 OK\r\n\r\n"}) {
    const auto response = get_canned(bytes);
    EXPECT_FALSE(response.ok()) << bytes;
  }
}

TEST(Client, BoundsTheHeaderOfAnAnswer) {
  std::string many = "HTTP/1.1 200 OK\r\n";
  for (int i = 0; i < 300; ++i) many += "A: b\r\n";
  EXPECT_FALSE(get_canned(many + "\r\n").ok());
}

TEST(Client, RefusesWhatWouldBreakItsOwnRequest) {
  Client client("127.0.0.1", 1, 1s);
  EXPECT_EQ(client.send("GET", "/a b", {}, "").error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_EQ(client.send("GET", "/", {{"A", "b\r\nC: d"}}, "").error().code,
            base::ErrorCode::kInvalidArgument);
}

TEST(Client, ReachesAServerOverIpv6) {
  std::ostringstream log;
  base::Logger logger(log, base::LogFormat::kText, base::LogLevel::kDebug);
  ServerOptions options;
  options.host = "[::1]";
  options.port = 0;
  auto server = Server::listen(options, echo, logger);
  if (!server.ok()) GTEST_SKIP() << "no IPv6 here: " << server.error().message;
  std::thread thread([&] { (*server)->run(); });
  const auto response = Client("[::1]", (*server)->port(), 60s).send("GET", "/", {}, "");
  EXPECT_TRUE(response.ok());
  (*server)->stop(0ms);
  thread.join();
}

}  // namespace
}  // namespace bulkhead::http
