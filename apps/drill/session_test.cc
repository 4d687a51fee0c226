#include "apps/drill/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "http/test_server.h"

namespace bulkhead::apps {
namespace {

using ::testing::HasSubstr;

// A server that answers as it is told, and counts generations.
class FakeServer {
 public:
  FakeServer()
      : server_([this](const http::Request& request, auto writer) { answer(request, *writer); }) {}

  Target target() const {
    Target target;
    target.host = "127.0.0.1";
    target.port = server_.port();
    return target;
  }
  int generations() const { return generations_; }

  int status = 200;
  bool injects = true;
  int running = 0;

 private:
  void answer(const http::Request& request, http::ResponseWriter& writer) {
    http::Response response;
    response.status = status;
    if (status != 200) {
      response.body = R"({"error":{"message":"this needs the admin key"}})";
    } else if (request.path == "/v1/integrity") {
      response.body = R"({"mode":"abort","pools":[{"name":"shared"}],"faults":{"enabled":)" +
                      std::string(injects ? "true" : "false") + R"(,"waiting":0,"done":[]}})";
    } else if (request.path == "/metrics") {
      response.body = "vllm:num_requests_running " + std::to_string(running) +
                      "\nvllm:num_requests_waiting 0\nvllm:cache_config_info{block_size=\"16\"} 1\n"
                      "bulkhead_kv_pages{state=\"free\"} 5\n"
                      "bulkhead_kv_integrity_quarantined_pages 0\n";
    } else if (request.path == "/v1/models") {
      response.body = R"({"data":[{"id":"tiny","meta":{"n_vocab":768}}]})";
    } else {
      ++generations_;
      response.content_type = "text/event-stream";
      response.body =
          "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n";
    }
    writer.send(std::move(response));
  }

  std::atomic<int> generations_{0};
  http::testing_support::TestServer server_;
};

TEST(Session, TakesTheAnswersOfEachRequestAlone) {
  FakeServer fake;
  const auto session = Session::begin(fake.target(), "it");
  ASSERT_TRUE(session.ok()) << session.error().message;
  EXPECT_EQ((*session)->mode(), "abort");
  EXPECT_EQ((*session)->pools(), std::vector<std::string>{"shared"});
  EXPECT_EQ(fake.generations(), 8);
  std::string trouble;
  const auto tally = (*session)->wave(nullptr, trouble);
  ASSERT_TRUE(tally.ok());
  EXPECT_EQ(tally->same, 8);
  EXPECT_EQ(trouble, "");
}

TEST(Session, LeavesAServerAloneThatWasNotStartedForIt) {
  FakeServer fake;
  fake.injects = false;
  const auto session = Session::begin(fake.target(), "http://there");
  ASSERT_FALSE(session.ok());
  EXPECT_THAT(session.error().message,
              HasSubstr("http://there was not started with --inject-faults"));
  EXPECT_EQ(fake.generations(), 0);
}

TEST(Session, LeavesAServerAloneThatOthersUse) {
  FakeServer fake;
  fake.running = 2;
  const auto session = Session::begin(fake.target(), "it");
  ASSERT_FALSE(session.ok());
  EXPECT_THAT(session.error().message, HasSubstr("2 requests of others"));
  EXPECT_EQ(fake.generations(), 0);
}

TEST(Session, SaysWhatTheServerSaidOfTheKey) {
  FakeServer fake;
  fake.status = 403;
  const auto session = Session::begin(fake.target(), "it");
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_THAT(session.error().message, HasSubstr("403: this needs the admin key"));
}

TEST(Asks, AreOfTwoTenantsAndHalfOfEachBeginAlike) {
  Target target;
  target.api_keys = {"one", "two"};
  const std::vector<Ask> asks = make_asks(target, {"tiny", 768}, 16);
  ASSERT_EQ(asks.size(), 8u);
  const auto head = [](const Ask& ask) { return ask.body.substr(0, 70); };
  EXPECT_EQ(asks[0].key, "one");
  EXPECT_EQ(asks[1].key, "two");
  EXPECT_EQ(head(asks[0]), head(asks[2]));
  EXPECT_EQ(head(asks[1]), head(asks[3]));
  EXPECT_NE(head(asks[0]), head(asks[1]));
  EXPECT_NE(head(asks[0]), head(asks[4]));
  EXPECT_NE(asks[0].body, asks[2].body);
}

}  // namespace
}  // namespace bulkhead::apps
