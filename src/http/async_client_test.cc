#include "http/async_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "http/test_server.h"

namespace bulkhead::http {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;
using testing_support::TestServer;

std::unique_ptr<AsyncClient> client_of(uint16_t port) {
  return std::move(AsyncClient::create("127.0.0.1", port)).value();
}

// Answers once every expected request is there: proof that they were open at the same time.
class Gathering {
 public:
  explicit Gathering(size_t expected) : expected_(expected) {}
  void operator()(Request request, std::shared_ptr<ResponseWriter> writer) {
    waiting_.emplace_back(std::move(request.body), std::move(writer));
    if (waiting_.size() < expected_) return;
    for (auto& [body, each] : waiting_) {
      each->start_stream({.content_type = "text/plain", .headers = {}, .body = {}});
      each->write(body);
      each->write("+");
      each->finish();
    }
    waiting_.clear();
  }

 private:
  size_t expected_;
  std::vector<std::pair<std::string, std::shared_ptr<ResponseWriter>>> waiting_;
};

TEST(AsyncClient, HundredsOfStreamsRunAtOnceAndEachGetsItsOwnAnswer) {
  constexpr size_t kCalls = 300;
  const auto gathering = std::make_shared<Gathering>(kCalls);
  TestServer server([gathering](Request request, std::shared_ptr<ResponseWriter> writer) {
    (*gathering)(std::move(request), std::move(writer));
  });
  const auto client = client_of(server.port());
  std::map<size_t, std::string> bodies;
  size_t done = 0;
  for (size_t i = 0; i < kCalls; ++i) {
    AsyncCall call;
    call.target = "/";
    call.body = std::to_string(i);
    call.on_piece = [&bodies, i](std::string_view piece) {
      bodies[i] += piece;
      return true;
    };
    call.on_done = [&done](base::Result<ClientResponse> result) {
      ASSERT_TRUE(result.ok()) << result.error().message;
      EXPECT_EQ(result->status, 200);
      ++done;
    };
    client->send(std::move(call));
  }
  client->run();
  EXPECT_EQ(done, kCalls);
  for (size_t i = 0; i < kCalls; ++i) EXPECT_EQ(bodies[i], std::to_string(i) + "+");
}

base::Error failure_of(AsyncClient& client, AsyncCall call) {
  base::Error error;
  int done = 0;
  call.on_done = [&](base::Result<ClientResponse> result) {
    ++done;
    ASSERT_FALSE(result.ok());
    error = result.error();
  };
  client.send(std::move(call));
  client.run();
  EXPECT_EQ(done, 1);
  return error;
}

TEST(AsyncClient, ASilentServerEndsAsCancelled) {
  std::shared_ptr<ResponseWriter> kept;
  TestServer server(
      [&kept](Request, std::shared_ptr<ResponseWriter> writer) { kept = std::move(writer); });
  AsyncCall call;
  call.target = "/";
  call.timeout = 20ms;
  const base::Error error = failure_of(*client_of(server.port()), std::move(call));
  EXPECT_EQ(error.code, base::ErrorCode::kCancelled);
  server.stop(0ms);
}

TEST(AsyncClient, NobodyListeningEndsAsUnavailable) {
  uint16_t port = 0;
  {
    TestServer server([](Request, std::shared_ptr<ResponseWriter> writer) { writer->send({}); });
    port = server.port();
  }
  AsyncCall call;
  call.target = "/";
  EXPECT_EQ(failure_of(*client_of(port), std::move(call)).code, base::ErrorCode::kUnavailable);
}

TEST(AsyncClient, AnAnswerThatBreaksOffEndsAsIo) {
  TestServer server([](Request, std::shared_ptr<ResponseWriter> writer) {
    writer->start_stream({});
    writer->write("half");
  });  // dropped before finish()
  AsyncCall call;
  call.target = "/";
  const base::Error error = failure_of(*client_of(server.port()), std::move(call));
  EXPECT_EQ(error.code, base::ErrorCode::kIo);
}

TEST(AsyncClient, WhatCannotBeSentIsRefusedAsInvalid) {
  TestServer server([](Request, std::shared_ptr<ResponseWriter> writer) { writer->send({}); });
  AsyncCall call;
  call.target = "/ HTTP/1.1\r\nX: y";
  const base::Error error = failure_of(*client_of(server.port()), std::move(call));
  EXPECT_EQ(error.code, base::ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("blanks"));
}

TEST(AsyncClient, AReaderThatHasEnoughEndsTheCallWithWhatCame) {
  TestServer server([](Request, std::shared_ptr<ResponseWriter> writer) {
    writer->start_stream({});
    for (int i = 0; i < 1000; ++i) writer->write("piece");
    writer->finish();
  });
  const auto client = client_of(server.port());
  AsyncCall call;
  call.target = "/";
  int pieces = 0;
  call.on_piece = [&pieces](std::string_view) { return ++pieces < 3; };
  int status = 0;
  call.on_done = [&status](base::Result<ClientResponse> result) {
    ASSERT_TRUE(result.ok());
    status = result->status;
  };
  client->send(std::move(call));
  client->run();
  EXPECT_EQ(pieces, 3);
  EXPECT_EQ(status, 200);
}

TEST(AsyncClient, TasksComeInOrderOfTheirTime) {
  TestServer server([](Request, std::shared_ptr<ResponseWriter> writer) { writer->send({}); });
  const auto client = client_of(server.port());
  std::string order;
  client->after(20ms, [&order] { order += 'c'; });
  client->after(0ms, [&] {
    order += 'a';
    client->after(1ms, [&order] { order += 'b'; });
  });
  client->run();
  EXPECT_EQ(order, "abc");
}

}  // namespace
}  // namespace bulkhead::http
