#include "apps/bench/load_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "http/sse.h"
#include "http/test_server.h"

namespace bulkhead::apps {
namespace {

using http::Request;
using http::ResponseWriter;
using http::testing_support::TestServer;

// Answers every request with two tokens; the body "429" is refused, "cut" is left half done. A
// request is held back until `gather` of them are open.
class FakeEngine {
 public:
  explicit FakeEngine(size_t gather) : gather_(gather) {}

  void operator()(Request request, std::shared_ptr<ResponseWriter> writer) {
    seen_keys_ += request.header("authorization") == "Bearer k" ? 1 : 0;
    if (request.body == "429") {
      http::Response refusal;
      refusal.status = 429;
      refusal.body = "{\"error\":{\"message\":\"full\"}}";
      return writer->send(std::move(refusal));
    }
    held_.push_back({request.body == "cut", std::move(writer)});
    open_max_ = std::max(open_max_, held_.size());
    if (held_.size() < gather_) return;
    for (Held& held : held_) answer(held);
    held_.clear();
  }
  size_t open_max() const { return open_max_; }
  int seen_keys() const { return seen_keys_; }

 private:
  struct Held {
    bool cut;
    std::shared_ptr<ResponseWriter> writer;
  };

  static void answer(Held& held) {
    http::Response head;
    head.content_type = "text/event-stream";
    held.writer->start_stream(std::move(head));
    held.writer->write(http::sse_event("{\"choices\":[{\"text\":\"a\"}]}"));
    if (held.cut) return;
    held.writer->write(http::sse_event("{\"choices\":[{\"text\":\"b\"}]}"));
    held.writer->write(http::sse_event("[DONE]"));
    held.writer->finish();
  }

  const size_t gather_;
  size_t open_max_ = 0;
  int seen_keys_ = 0;
  std::vector<Held> held_;
};

class Bench {
 public:
  explicit Bench(size_t gather)
      : engine_(std::make_shared<FakeEngine>(gather)),
        server_([engine = engine_](Request request, std::shared_ptr<ResponseWriter> writer) {
          (*engine)(std::move(request), std::move(writer));
        }),
        client_(std::move(http::AsyncClient::create("127.0.0.1", server_.port())).value()) {
    plan_.headers = {{"Authorization", "Bearer k"}};
  }

  LoadResult run(const std::vector<std::string>& bodies) {
    std::vector<BenchRequest> requests;
    for (const std::string& body : bodies) requests.push_back({"/v1/completions", body, 3, 2});
    LoadResult result = run_load(*client_, requests, plan_,
                                 [this](const LoadProgress& progress) { last_ = progress; });
    server_.stop(std::chrono::milliseconds(0));
    return result;
  }

  std::shared_ptr<FakeEngine> engine_;
  TestServer server_;
  std::unique_ptr<http::AsyncClient> client_;
  LoadPlan plan_;
  LoadProgress last_;
};

TEST(LoadRun, AClosedLoopKeepsItsConcurrencyAndNoMore) {
  // Groups of four are answered together: with fewer than four open nothing would ever come back.
  Bench bench(4);
  bench.plan_.concurrency = 4;
  const LoadResult result = bench.run(std::vector<std::string>(12, "{}"));
  EXPECT_EQ(bench.engine_->open_max(), 4u);
  EXPECT_EQ(result.open_max, 4u);
  EXPECT_EQ(bench.engine_->seen_keys(), 12);
  ASSERT_EQ(result.records.size(), 12u);
  for (size_t i = 0; i < result.records.size(); ++i) {
    const RequestRecord& record = result.records[i];
    EXPECT_EQ(record.index, i);
    EXPECT_EQ(record.failure, "") << record.failure_text;
    EXPECT_EQ(record.output_tokens, 2);
    EXPECT_EQ(record.input_tokens, 3);
    EXPECT_EQ(record.asked_tokens, 2);
    EXPECT_LE(record.start_s + record.e2e_s, result.duration_s);
  }
  EXPECT_EQ(bench.last_.done, 12u);
  EXPECT_EQ(bench.last_.failed, 0u);
  EXPECT_EQ(bench.last_.open, 0u);
}

TEST(LoadRun, AnOpenLoopSendsWhatArrivesWhetherOrNotAnswersCome) {
  Bench bench(5);  // nothing is answered before the fifth is there
  bench.plan_.arrivals_s = {0.0, 0.001, 0.002, 0.003, 0.004};
  const LoadResult result = bench.run(std::vector<std::string>(5, "{}"));
  EXPECT_EQ(result.open_max, 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(result.records[i].failure, "");
    EXPECT_DOUBLE_EQ(result.records[i].start_s, bench.plan_.arrivals_s[i]);
  }
}

TEST(LoadRun, AnOpenLoopWithALimitCountsTheWaitFromTheArrival) {
  Bench bench(1);
  bench.plan_.arrivals_s = {0.0, 0.0, 0.0};
  bench.plan_.concurrency = 1;
  const LoadResult result = bench.run(std::vector<std::string>(3, "{}"));
  EXPECT_EQ(result.open_max, 1u);
  EXPECT_LE(result.records[0].e2e_s, result.records[1].ttft_s);
  EXPECT_LE(result.records[1].e2e_s, result.records[2].ttft_s);
}

TEST(LoadRun, FailuresAreRecordedAndDoNotStopTheOthers) {
  Bench bench(1);
  bench.plan_.concurrency = 2;
  const LoadResult result = bench.run({"{}", "429", "cut", "{}"});
  ASSERT_EQ(result.records.size(), 4u);
  EXPECT_EQ(result.records[0].failure, "");
  EXPECT_EQ(result.records[1].failure, "http_429");
  EXPECT_EQ(result.records[1].failure_text, "full");
  EXPECT_EQ(result.records[2].failure, "broken_stream");
  EXPECT_EQ(result.records[3].failure, "");
  EXPECT_EQ(bench.last_.failed, 2u);
}

}  // namespace
}  // namespace bulkhead::apps
