#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <vector>

#include "http/server.h"
#include "http/sse.h"
#include "http/test_server.h"

namespace bulkhead::http {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;
using testing_support::eventually;
using testing_support::get;
using testing_support::RawClient;
using testing_support::RawResponse;
using testing_support::TestServer;

Response event_stream() {
  Response head;
  head.content_type = "text/event-stream";
  return head;
}

// Runs each request on a thread of its own, as a pool would.
class Threads {
 public:
  using Work = std::function<void(const Request&, ResponseWriter&)>;
  explicit Threads(Work work) : work_(std::move(work)) {}
  ~Threads() { join(); }
  Handler handler() {
    return [this](Request request, std::shared_ptr<ResponseWriter> writer) {
      const std::lock_guard lock(mutex_);
      threads_.emplace_back([this, request = std::move(request), writer = std::move(writer)] {
        work_(request, *writer);
      });
    };
  }
  void join() {
    std::vector<std::thread> threads;
    {
      const std::lock_guard lock(mutex_);
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  Work work_;
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

TEST(ServerStream, FlushesEveryPieceAtOnce) {
  std::shared_ptr<ResponseWriter> writer;
  std::atomic<bool> ready{false};
  TestServer server([&](const Request&, std::shared_ptr<ResponseWriter> w) {
    w->start_stream(event_stream());
    writer = std::move(w);
    ready = true;
  });
  RawClient client(server.port());
  client.send(get("/"));
  ASSERT_TRUE(eventually([&] { return ready.load(); }));
  ASSERT_TRUE(client.read_until("\r\n\r\n")) << "the head is sent before the first event";
  EXPECT_THAT(client.buffered(), HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_THAT(client.buffered(), HasSubstr("Transfer-Encoding: chunked\r\n"));
  for (int i = 0; i < 50; ++i) {
    const std::string event = sse_event(std::to_string(i));
    ASSERT_TRUE(writer->write(event));
    ASSERT_TRUE(client.read_until(event)) << "an event waits for no other";
  }
  EXPECT_TRUE(writer->write("")) << "an empty piece is not the end mark";
  writer->finish();
  EXPECT_TRUE(client.read_until("\r\n0\r\n\r\n"));
}

TEST(ServerStream, CarriesSixtyFourStreamsAtOnceUnmixed) {
  constexpr int kStreams = 64;
  constexpr int kEvents = 100;
  Threads threads([](const Request& request, ResponseWriter& writer) {
    writer.start_stream(event_stream());
    for (int i = 0; i < kEvents; ++i) {
      EXPECT_TRUE(writer.write(sse_event(request.path + "#" + std::to_string(i))));
    }
    writer.finish();
  });
  TestServer server(threads.handler());
  std::vector<RawClient> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.emplace_back(server.port());
    clients.back().send(get("/" + std::to_string(i)));
  }
  for (int i = 0; i < kStreams; ++i) {
    auto& client = clients[static_cast<size_t>(i)];
    const RawResponse response = client.read_response();
    ASSERT_TRUE(response.complete);
    SseParser parser;
    const auto events = parser.push(response.body);
    ASSERT_EQ(events.size(), static_cast<size_t>(kEvents));
    for (int e = 0; e < kEvents; ++e) {
      ASSERT_EQ(events[static_cast<size_t>(e)], "/" + std::to_string(i) + "#" + std::to_string(e));
    }
    client.send(get("/again"));
    EXPECT_TRUE(client.read_response().complete) << "the connection is kept after a stream";
  }
}

TEST(ServerStream, CallsOnAbortWhenTheClientLeavesInMidStream) {
  std::atomic<int> aborts{0};
  std::atomic<int> ended{0};
  Threads threads([&](const Request&, ResponseWriter& writer) {
    writer.on_abort([&] { ++aborts; });
    writer.start_stream(event_stream());
    while (writer.write(sse_event("x"))) std::this_thread::sleep_for(1ms);
    writer.finish();
    ++ended;
  });
  TestServer server(threads.handler());
  for (int i = 0; i < 10; ++i) {
    RawClient client(server.port());
    client.send(get("/"));
    EXPECT_TRUE(client.read_until("data: x\n\n"));
    if (i % 2 == 0) client.reset();
  }
  EXPECT_TRUE(eventually([&] { return aborts == 10 && ended == 10; }));
  EXPECT_TRUE(server.becomes_idle());
}

TEST(ServerStream, ClosesWithoutAnEndMarkWhenTheWriterGivesUp) {
  TestServer server([](const Request&, const std::shared_ptr<ResponseWriter>& writer) {
    writer->start_stream(event_stream());
    writer->write(sse_event("last words"));
  });
  RawClient client(server.port());
  const RawResponse response = client.request(get("/"));
  EXPECT_EQ(response.body, "data: last words\n\n");
  EXPECT_FALSE(response.complete) << "a client can tell this from a whole body";
}

TEST(ServerStream, EndsAThrownStreamTheSameWay) {
  TestServer server([](const Request&, const std::shared_ptr<ResponseWriter>& writer) {
    writer->start_stream(event_stream());
    writer->write("a");
    throw std::runtime_error("in mid-stream");
  });
  RawClient client(server.port());
  const RawResponse response = client.request(get("/"));
  EXPECT_EQ(response.body, "a");
  EXPECT_FALSE(response.complete);
}

TEST(ServerStream, GivesAnHttp10ClientABodyUntilTheEnd) {
  TestServer server([](const Request& request, const std::shared_ptr<ResponseWriter>& writer) {
    writer->start_stream(event_stream());
    writer->write("one ");
    writer->write("two");
    if (request.path == "/whole") writer->finish();
  });
  RawClient whole(server.port());
  const RawResponse response = whole.request("GET /whole HTTP/1.0\r\n\r\n");
  EXPECT_EQ(response.body, "one two");
  EXPECT_EQ(response.header("Transfer-Encoding"), "");
  RawClient broken(server.port());
  broken.send("GET /broken HTTP/1.0\r\n\r\n");
  while (broken.read_some()) {
  }
  EXPECT_EQ(errno, ECONNRESET) << "an end by reset is the only mark HTTP/1.0 has";
}

TEST(ServerStream, AnswersHeadWithTheHeadOfTheStream) {
  TestServer server([](const Request&, const std::shared_ptr<ResponseWriter>& writer) {
    writer->start_stream(event_stream());
    EXPECT_TRUE(writer->write("not sent"));
    writer->finish();
  });
  RawClient client(server.port());
  client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.read_response(true).status, 200);
  EXPECT_EQ(client.read_response(true).status, 200);
  EXPECT_EQ(client.buffered(), "");
}

// C186, C193
TEST(ServerStream, CutsOffAReaderThatTakesNothing) {
  ServerOptions options;
  options.stream_backlog_bytes_max = 100'000;
  std::atomic<bool> aborted{false};
  std::atomic<uint64_t> written{0};
  Threads threads([&](const Request&, ResponseWriter& writer) {
    writer.on_abort([&] { aborted = true; });
    writer.start_stream(event_stream());
    const std::string event = sse_event(std::string(1000, 'x'));
    while (writer.write(event)) written += event.size();
    EXPECT_FALSE(writer.write("once cut off, always cut off"));
    EXPECT_TRUE(writer.too_slow());
    writer.finish();
  });
  TestServer server(threads.handler(), options);
  RawClient client(server.port(), 4096);
  client.send(get("/"));
  EXPECT_TRUE(eventually([&] { return aborted.load(); }));
  threads.join();
  EXPECT_GE(written, 100'000u - 2000u) << "the backlog may be used in full";
  EXPECT_LE(written, 4'000'000u) << "the kernel's share is small too";
  EXPECT_TRUE(server.becomes_idle());
}

TEST(ServerStream, DeliversToASlowReaderThatStaysWithinTheBacklog) {
  Threads threads([&](const Request&, ResponseWriter& writer) {
    writer.start_stream(event_stream());
    for (int i = 0; i < 800; ++i) EXPECT_TRUE(writer.write(std::string(1000, 'x')));
    writer.finish();
  });
  TestServer server(threads.handler());
  RawClient client(server.port(), 4096);
  client.send(get("/"));
  const RawResponse response = client.read_response();
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.body.size(), 800'000u);
}

TEST(ServerStream, AcceptsOneLargePieceFromAClientThatKeepsUp) {
  ServerOptions options;
  options.stream_backlog_bytes_max = 1000;
  TestServer server(
      [](const Request&, const std::shared_ptr<ResponseWriter>& writer) {
        writer->start_stream(event_stream());
        EXPECT_TRUE(writer->write(std::string(5'000'000, 'x')));
        writer->finish();
      },
      options);
  RawClient client(server.port());
  const RawResponse response = client.request(get("/"));
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.body.size(), 5'000'000u);
}

TEST(ServerStream, EndsAWriteThatMakesNoProgress) {
  ServerOptions options;
  options.write_timeout = 1s;
  TestServer server(
      [](const Request&, const std::shared_ptr<ResponseWriter>& writer) {
        Response response;
        response.body = std::string(30'000'000, 'x');
        writer->send(std::move(response));
      },
      options);
  RawClient client(server.port(), 4096);
  client.send(get("/"));
  EXPECT_TRUE(eventually([&] { return server.server().open_connections() == 1; }));
  EXPECT_TRUE(server.becomes_idle());
}

// Starts a stream for one client, lets `leave` act on it, and says whether the client was too slow.
bool ends_as_too_slow(ServerOptions options, const std::function<void(RawClient&)>& leave) {
  std::atomic<int> ends{0};
  std::atomic<bool> slow{false};
  std::vector<std::shared_ptr<ResponseWriter>> kept;  // I/O thread
  TestServer server(
      [&](const Request&, const std::shared_ptr<ResponseWriter>& writer) {
        kept.push_back(writer);
        writer->on_abort([&] {
          slow = kept.back()->too_slow();
          ++ends;
        });
        writer->start_stream(event_stream());
        EXPECT_TRUE(writer->write(std::string(30'000'000, 'x')));
      },
      options);
  RawClient client(server.port(), 4096);
  client.send(get("/"));
  leave(client);
  EXPECT_TRUE(eventually([&] { return ends == 1; }));
  return slow;
}

TEST(ServerStream, TellsAStalledReaderFromOneThatLeft) {
  ServerOptions impatient;
  impatient.write_timeout = 1s;
  EXPECT_TRUE(ends_as_too_slow(impatient, [](RawClient&) {}));
  EXPECT_FALSE(ends_as_too_slow({}, [](RawClient& client) {
    EXPECT_TRUE(client.read_some());
    client.reset();
  }));
}

// C193
TEST(ServerStream, LeavesOtherStreamsAloneWhenSomeReadersStall) {
  ServerOptions options;
  options.stream_backlog_bytes_max = 200'000;
  std::atomic<int> cut{0};
  Threads threads([&](const Request& request, ResponseWriter& writer) {
    writer.start_stream(event_stream());
    if (request.path == "/stalled") {
      while (writer.write(std::string(5000, 'x'))) {
      }
      ++cut;
      return;
    }
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(writer.write(sse_event("ok")));
    writer.finish();
  });
  TestServer server(threads.handler(), options);
  std::vector<RawClient> stalled;
  for (int i = 0; i < 20; ++i) {
    stalled.emplace_back(server.port(), 4096);
    stalled.back().send(get("/stalled"));
  }
  RawClient honest(server.port());
  EXPECT_TRUE(honest.request(get("/")).complete);
  EXPECT_TRUE(eventually([&] { return cut == 20; }));
}

TEST(ServerStream, SurvivesAStormOfClientsThatLeaveAtAnyMoment) {
  Threads threads([](const Request&, ResponseWriter& writer) {
    writer.on_abort([] {});
    writer.start_stream(event_stream());
    for (int i = 0; i < 20 && writer.write(sse_event("storm")); ++i) std::this_thread::yield();
    writer.finish();
  });
  TestServer server(threads.handler());
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    RawClient client(server.port());
    const std::string request = get("/") + get("/");
    const size_t sent = random() % (request.size() + 1);
    client.send(std::string_view(request).substr(0, sent));
    const auto reads = sent < request.size() / 2 ? 0 : random() % 4;
    for (unsigned i = 0; i < reads; ++i) EXPECT_TRUE(client.read_some(random() % 50 + 1));
    if (random() % 2 == 0) client.reset();
    if (round % 50 == 0) threads.join();
  }
  EXPECT_TRUE(server.becomes_idle());
  RawClient client(server.port());
  EXPECT_TRUE(client.request(get("/")).complete);
}

}  // namespace
}  // namespace bulkhead::http
