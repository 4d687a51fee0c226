#include "http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>

#include "http/test_server.h"

namespace bulkhead::http {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using namespace std::chrono_literals;
using testing_support::eventually;
using testing_support::get;
using testing_support::post;
using testing_support::RawClient;
using testing_support::RawResponse;
using testing_support::TestServer;

void echo(Request request, std::shared_ptr<ResponseWriter> writer) {
  Response response;
  response.content_type = "text/plain";
  response.body = request.method + " " + request.path + " " + request.body;
  writer->send(std::move(response));
}

// Keeps writers until a test answers them.
class Desk {
 public:
  Handler handler() {
    return [this](Request request, std::shared_ptr<ResponseWriter> writer) {
      const std::lock_guard lock(mutex_);
      waiting_.emplace_back(std::move(request.path), std::move(writer));
    };
  }
  std::shared_ptr<ResponseWriter> take() {
    if (!eventually([this] { return size() > 0; })) return nullptr;
    const std::lock_guard lock(mutex_);
    auto writer = std::move(waiting_.front().second);
    waiting_.pop_front();
    return writer;
  }
  size_t size() {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }

 private:
  std::mutex mutex_;
  std::deque<std::pair<std::string, std::shared_ptr<ResponseWriter>>> waiting_;
};

Response text(std::string body) {
  Response response;
  response.body = std::move(body);
  return response;
}

TEST(Server, AnswersOverAKeptConnectionAHundredTimes) {
  TestServer server(echo);
  RawClient client(server.port());
  for (int i = 0; i < 100; ++i) {
    const std::string body = "body " + std::to_string(i);
    const RawResponse response = client.request(post("/x", body));
    ASSERT_TRUE(response.complete);
    ASSERT_EQ(response.status, 200);
    ASSERT_EQ(response.body, "POST /x " + body);
  }
  EXPECT_EQ(server.server().open_connections(), 1u);
}

TEST(Server, SendsTheHeadersAClientNeeds) {
  TestServer server([](Request request, std::shared_ptr<ResponseWriter> writer) {
    EXPECT_THAT(request.remote_address, StartsWith("127.0.0.1:"));
    Response response = text("{}");
    response.headers = {{"x-request-id", "abc"}, {"x-odd", "a\r\nSet-Cookie: b"}};
    writer->send(std::move(response));
  });
  RawClient client(server.port());
  const RawResponse response = client.request(get("/"));
  EXPECT_THAT(response.head, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(response.header("Content-Type"), "application/json");
  EXPECT_EQ(response.header("Content-Length"), "2");
  EXPECT_EQ(response.header("x-request-id"), "abc");
  EXPECT_THAT(response.header("Date"), ::testing::EndsWith(" GMT"));
  EXPECT_THAT(response.head, Not(HasSubstr("\r\nSet-Cookie"))) << "a value cannot add a header";
  EXPECT_THAT(response.head, Not(HasSubstr("Connection:")));
}

TEST(Server, ReadsARequestThatArrivesByteByByte) {
  TestServer server(echo);
  RawClient client(server.port());
  for (const char c : post("/slow", "abc")) ASSERT_TRUE(client.send(std::string_view(&c, 1)));
  EXPECT_EQ(client.read_response().body, "POST /slow abc");
}

TEST(Server, AnswersPipelinedRequestsOneAtATimeAndInOrder) {
  Desk desk;
  TestServer server(desk.handler());
  RawClient client(server.port());
  std::string all;
  for (int i = 0; i < 20; ++i) all += post("/", std::to_string(i));
  client.send(all);
  for (int i = 0; i < 20; ++i) {
    const auto writer = desk.take();
    ASSERT_NE(writer, nullptr);
    EXPECT_EQ(desk.size(), 0u) << "the next request waits for this answer";
    writer->send(text(std::to_string(i)));
    ASSERT_EQ(client.read_response().body, std::to_string(i));
  }
}

TEST(Server, KeepsPipelinedBytesThatArriveWhileAHandlerWorks) {
  Desk desk;
  TestServer server(desk.handler());
  RawClient client(server.port());
  client.send(get("/1"));
  const auto first = desk.take();
  const std::string second = post("/2", std::string(300'000, 'b'));  // more than is read ahead
  std::thread sender([&] { client.send(second); });
  first->send(text("one"));
  EXPECT_EQ(client.read_response().body, "one");
  const auto writer = desk.take();
  sender.join();
  writer->send(text("two"));
  EXPECT_EQ(client.read_response().body, "two");
}

TEST(Server, AnswersAPipelineWhoseClientHasStoppedSending) {
  TestServer server(echo);
  RawClient client(server.port());
  client.send(get("/1") + get("/2"));
  EXPECT_EQ(client.read_response().body, "GET /1 ");
  EXPECT_EQ(client.read_response().body, "GET /2 ");
  client.shut_sending_side();
  EXPECT_TRUE(client.reads_end());
}

TEST(Server, AnswersHeadWithoutABody) {
  TestServer server(echo);
  RawClient client(server.port());
  client.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
  const RawResponse response = client.read_response(true);
  EXPECT_EQ(response.header("Content-Length"), "8");
  EXPECT_EQ(client.request(get("/y")).body, "GET /y ") << "no byte of a body may follow the head";
}

TEST(Server, SpeaksHttp10) {
  TestServer server(echo);
  RawClient client(server.port());
  RawResponse response = client.request("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(response.body, "GET /a ");
  EXPECT_EQ(response.header("Connection"), "keep-alive");
  response = client.request("GET /b HTTP/1.0\r\n\r\n");
  EXPECT_EQ(response.body, "GET /b ");
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_TRUE(client.reads_end());
}

TEST(Server, ClosesWhenTheClientAsksForIt) {
  TestServer server(echo);
  RawClient client(server.port());
  const RawResponse response = client.request(get("/", "Connection: close\r\n"));
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_TRUE(client.reads_end());
}

TEST(Server, SaysContinueToAClientThatWaits) {
  TestServer server(echo);
  RawClient client(server.port());
  client.send("PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 100);
  EXPECT_EQ(client.request("abc").body, "PUT /x abc");
  client.send("PUT /y HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nxyz");
  EXPECT_EQ(client.read_response().body, "PUT /y xyz") << "this client did not wait";
}

TEST(Server, SendsNoBodyWithAStatusThatHasNone) {
  TestServer server([](const Request&, std::shared_ptr<ResponseWriter> writer) {
    Response response = text("never sent");
    response.status = 204;
    writer->send(std::move(response));
  });
  RawClient client(server.port());
  const RawResponse response = client.request(get("/"));
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.header("Content-Length"), "");
  EXPECT_EQ(client.request(get("/")).status, 204);
}

TEST(Server, SendsALargeAnswerWhole) {
  const std::string large(20'000'000, 'x');
  TestServer server(
      [&](const Request&, std::shared_ptr<ResponseWriter> writer) { writer->send(text(large)); });
  RawClient client(server.port());
  const RawResponse response = client.request(get("/"));
  EXPECT_TRUE(response.complete);
  EXPECT_TRUE(response.body == large);
}

TEST(Server, TurnsAnExceptionIntoA500AndLives) {
  std::shared_ptr<ResponseWriter> kept;
  TestServer server([&](const Request& request, std::shared_ptr<ResponseWriter> writer) {
    if (request.path == "/keep") kept = writer;
    if (request.path == "/int") throw 7;
    throw std::runtime_error("secret detail");
  });
  RawClient client(server.port());
  for (const char* target : {"/", "/keep", "/int"}) {
    const RawResponse response = client.request(get(target));
    EXPECT_EQ(response.status, 500);
    EXPECT_THAT(response.body, HasSubstr(R"("code":"internal_error")"));
    EXPECT_THAT(response.body, Not(HasSubstr("secret")));
  }
  kept->send(text("too late, and ignored"));
  EXPECT_EQ(client.request(get("/")).status, 500);
}

TEST(Server, AnswersForAHandlerThatDropsItsWriter) {
  TestServer server([](const Request&, const std::shared_ptr<ResponseWriter>&) {});
  RawClient client(server.port());
  EXPECT_EQ(client.request(get("/")).status, 500);
  EXPECT_EQ(client.request(get("/")).status, 500);
}

// C187
TEST(Server, CallsOnAbortWhenAWaitingClientLeaves) {
  Desk desk;
  TestServer server(desk.handler());
  for (const bool with_reset : {false, true}) {
    RawClient client(server.port());
    client.send(post("/", "x"));
    const auto writer = desk.take();
    std::atomic<int> aborts{0};
    writer->on_abort([&] { ++aborts; });
    if (with_reset) {
      client.reset();
    } else {
      client.close();
    }
    EXPECT_TRUE(eventually([&] { return aborts == 1; }));
    std::atomic<int> late{0};
    writer->on_abort([&] { ++late; });
    EXPECT_TRUE(eventually([&] { return late == 1; })) << "called at once when it has happened";
    writer->send(text("nobody hears this"));
    EXPECT_TRUE(server.becomes_idle());
    EXPECT_EQ(aborts, 1);
  }
}

TEST(Server, NoticesADisconnectBehindAFullPipeline) {
  Desk desk;
  TestServer server(desk.handler());
  RawClient client(server.port());
  client.send(get("/"));
  const auto writer = desk.take();
  std::atomic<bool> aborted{false};
  writer->on_abort([&] { aborted = true; });
  client.send(post("/", std::string(100'000, 'x')));
  client.close();
  EXPECT_TRUE(eventually([&] { return aborted.load(); }));
}

TEST(Server, DoesNotCallOnAbortAfterACompleteResponse) {
  Desk desk;
  std::atomic<bool> aborted{false};
  TestServer server(desk.handler());
  {
    RawClient client(server.port());
    client.send(get("/"));
    const auto writer = desk.take();
    writer->on_abort([&] { aborted = true; });
    writer->send(text("done"));
    EXPECT_EQ(client.read_response().body, "done");
    writer->on_abort([&] { aborted = true; });
  }
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_FALSE(aborted);
}

TEST(Server, RunsPostedTasksOnItsOwnThreadInOrder) {
  TestServer server(echo);
  std::mutex mutex;
  std::vector<int> order;
  std::atomic<int> count{0};
  std::thread::id task_thread;
  for (int i = 0; i < 100; ++i) {
    server.server().post([&, i] {
      const std::lock_guard lock(mutex);
      task_thread = std::this_thread::get_id();
      order.push_back(i);
      ++count;
    });
  }
  server.server().post([] { throw std::runtime_error("contained"); });
  server.server().post_after(1ms, [&] { ++count; });
  server.server().post_after(24h, [&] { ++count; });  // does not keep run() alive
  EXPECT_TRUE(eventually([&] { return count == 101; }));
  server.stop(0ms);
  EXPECT_NE(task_thread, std::this_thread::get_id());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  server.server().post([&] { ++count; });
  EXPECT_EQ(count, 101) << "a task after the end is dropped";
}

TEST(ServerStop, LetsAResponseInProgressFinish) {
  Desk desk;
  TestServer server(desk.handler());
  RawClient idle(server.port());
  RawClient partial(server.port());
  partial.send("GET / HT");
  RawClient busy(server.port());
  busy.send(get("/"));
  const auto writer = desk.take();
  server.server().stop(1h);
  EXPECT_TRUE(idle.reads_end());
  EXPECT_TRUE(partial.reads_end());
  EXPECT_THROW(RawClient(server.port()), std::runtime_error) << "no new connections";
  writer->send(text("last words"));
  const RawResponse response = busy.read_response();
  EXPECT_EQ(response.body, "last words");
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_TRUE(busy.reads_end());
  busy.close();
  server.stop(1h);  // returns because nothing is left
  EXPECT_EQ(server.server().open_connections(), 0u);
}

TEST(ServerStop, CutsWhatIsLeftAfterTheGrace) {
  Desk desk;
  TestServer server(desk.handler());
  RawClient client(server.port());
  client.send(get("/"));
  const auto writer = desk.take();
  std::atomic<bool> aborted{false};
  writer->on_abort([&] { aborted = true; });
  writer->start_stream(text(""));
  EXPECT_TRUE(writer->write("half"));
  EXPECT_TRUE(client.read_until("half"));
  server.server().stop(1h);
  server.stop(10ms);  // a second stop may shorten the grace
  EXPECT_TRUE(aborted);
  EXPECT_FALSE(writer->write("more"));
  EXPECT_TRUE(client.reads_end());
  EXPECT_THAT(client.buffered(), Not(HasSubstr("0\r\n\r\n"))) << "a cut stream has no end mark";
}

TEST(ServerStop, MayBeCalledBeforeRunAndAWriterMayOutliveTheServer) {
  std::ostringstream log;
  base::Logger logger(log, base::LogFormat::kText, base::LogLevel::kDebug);
  ServerOptions options;
  options.port = 0;
  auto server = Server::listen(options, echo, logger);
  ASSERT_TRUE(server.ok());
  (*server)->stop(0ms);
  (*server)->run();

  Desk desk;
  auto other = std::make_unique<TestServer>(desk.handler());
  RawClient client(other->port());
  client.send(get("/"));
  const auto writer = desk.take();
  other.reset();
  bool aborted = false;
  writer->on_abort([&] { aborted = true; });
  EXPECT_TRUE(aborted);
  writer->send(text("late"));
}

TEST(ServerListen, SaysWhichAddressIsInUseAndByWhichFlagToChange) {
  TestServer first(echo);
  std::ostringstream log;
  base::Logger logger(log, base::LogFormat::kText, base::LogLevel::kDebug);
  ServerOptions options;
  options.port = first.port();
  const auto second = Server::listen(options, echo, logger);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, base::ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message, HasSubstr("127.0.0.1:" + std::to_string(first.port())));
  EXPECT_THAT(second.error().message, HasSubstr("--port"));
}

TEST(ServerListen, ReusesAPortThatOldConnectionsStillRemember) {
  uint16_t port = 0;
  {
    TestServer server(echo);
    port = server.port();
    RawClient client(port);
    client.request(get("/", "Connection: close\r\n"));
  }
  std::ostringstream log;
  base::Logger logger(log, base::LogFormat::kText, base::LogLevel::kDebug);
  ServerOptions options;
  options.port = port;
  EXPECT_TRUE(Server::listen(options, echo, logger).ok());
}

TEST(ServerListen, NamesAHostItCannotUse) {
  std::ostringstream log;
  base::Logger logger(log, base::LogFormat::kText, base::LogLevel::kDebug);
  ServerOptions options;
  options.port = 0;
  for (const char* host : {"203.0.113.7", "no such host", ""}) {
    options.host = host;
    const auto server = Server::listen(options, echo, logger);
    ASSERT_FALSE(server.ok()) << host;
    EXPECT_EQ(server.error().field, "host");
    EXPECT_EQ(server.error().code, base::ErrorCode::kInvalidArgument);
    EXPECT_THAT(server.error().message, HasSubstr(host));
  }
  options.host = "localhost";
  EXPECT_TRUE(Server::listen(options, echo, logger).ok());
}

}  // namespace
}  // namespace bulkhead::http
