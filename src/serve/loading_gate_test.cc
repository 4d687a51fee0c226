#include "serve/loading_gate.h"

#include <gtest/gtest.h>

#include <optional>

namespace bulkhead::serve {
namespace {

class Writer final : public http::ResponseWriter {
 public:
  void send(http::Response response) override { sent = std::move(response); }
  void start_stream(http::Response) override {}
  bool write(std::string) override { return false; }
  void finish() override {}
  void on_abort(std::function<void()>) override {}

  std::optional<http::Response> sent;
};

std::string header(const http::Response& response, std::string_view name) {
  for (const http::Header& one : response.headers) {
    if (one.name == name) return one.value;
  }
  return {};
}

http::Response get(LoadingGate& gate, std::string path, std::vector<http::Header> headers = {}) {
  http::Request request;
  request.method = "GET";
  request.path = std::move(path);
  request.headers = std::move(headers);
  const auto writer = std::make_shared<Writer>();
  gate.handle(std::move(request), writer);
  return writer->sent.value_or(http::Response{});
}

TEST(LoadingGate, SaysThatTheModelIsLoadingAndWhenToComeBack) {
  const base::ManualClock clock;
  LoadingGate gate(clock);
  for (const char* path : {"/health", "/readyz", "/v1/models", "/nowhere"}) {
    const http::Response response = get(gate, path);
    EXPECT_EQ(response.status, 503) << path;
    EXPECT_EQ(header(response, "Retry-After"), "1");
    EXPECT_TRUE(header(response, "x-request-id").starts_with("req-"));
    EXPECT_NE(response.body.find("\"model_loading\""), std::string::npos);
  }
  EXPECT_EQ(header(get(gate, "/health", {{"X-Request-Id", "mine"}}), "x-request-id"), "mine");
  EXPECT_EQ(get(gate, "/livez").status, 200);
}

TEST(LoadingGate, TellsHowFarTheLoadIsAndWhatItMayStillTake) {
  base::ManualClock clock;
  LoadingGate gate(clock);
  EXPECT_EQ(get(gate, "/startupz").body,
            R"({"phase":"loading","done_bytes":0,"total_bytes":0,"eta_s":0.0})");
  clock.advance(std::chrono::seconds(3));
  gate.progress(100, 400);
  const http::Response response = get(gate, "/startupz");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.body, R"({"phase":"loading","done_bytes":100,"total_bytes":400,"eta_s":9.0})");
}

TEST(LoadingGate, LetsEverythingThroughOnceItIsOpen) {
  const base::ManualClock clock;
  LoadingGate gate(clock);
  gate.open([](http::Request, std::shared_ptr<http::ResponseWriter> writer) {
    http::Response response;
    response.status = 418;
    writer->send(std::move(response));
  });
  EXPECT_EQ(get(gate, "/startupz").status, 418);
}

}  // namespace
}  // namespace bulkhead::serve
