// The API over real sockets with a step thread of its own: answers belong to their requests, and
// clients that leave free their places. The thread sanitizer's view of every hand-over.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "api/api.h"
#include "api/test_doubles.h"
#include "http/client.h"
#include "http/server.h"
#include "http/test_server.h"

namespace bulkhead::api {
namespace {

using testing::ByteTokenizer;

// Answers every prompt with its own bytes, one token a step, on its own thread.
class EchoGenerator final : public wire::Generator {
 public:
  EchoGenerator() {
    limits_.context_tokens = 1 << 20;
    limits_.running_max = 64;
    limits_.queued_max = 64;
    limits_.vocabulary_size = ByteTokenizer::kSize;
    thread_ = std::thread([this] { run(); });
  }
  ~EchoGenerator() override {
    stop_.store(true);
    thread_.join();
  }

  const wire::GenerateLimits& limits() const override { return limits_; }
  wire::GeneratorStatus status() const override {
    wire::GeneratorStatus status;
    std::lock_guard lock(mutex_);
    status.running = static_cast<uint32_t>(running_.size());
    return status;
  }
  wire::RequestId next_id() override { return ++last_id_; }
  base::Status submit_all(std::vector<wire::Submission> batch) override {
    std::lock_guard lock(mutex_);
    for (wire::Submission& one : batch) {
      running_.push_back({std::move(one.request), std::move(one.sink)});
    }
    return {};
  }
  void flush_cache() override {}
  // From now on prompts come back over and over, a little slower, until max_tokens.
  void repeat() { repeats_.store(true); }
  void cancel(wire::RequestId id) override {
    std::lock_guard lock(mutex_);
    for (Sequence& one : running_) one.cancelled = one.cancelled || one.request.id == id;
  }

 private:
  struct Sequence {
    wire::GenerateRequest request;
    std::shared_ptr<wire::EventSink> sink;
    size_t emitted = 0;
    bool cancelled = false;
  };

  void run() {
    while (!stop_.load()) {
      {
        std::lock_guard lock(mutex_);
        std::erase_if(running_, [this](Sequence& one) { return step(one); });
      }
      if (repeats_.load()) std::this_thread::sleep_for(std::chrono::microseconds(200));
      std::this_thread::yield();
    }
  }

  // True when the sequence has ended.
  bool step(Sequence& one) {
    const auto& prompt = one.request.prompt;
    const bool whole = !repeats_.load() && one.emitted == prompt.size();
    const bool ended = whole || one.emitted == static_cast<size_t>(one.request.max_tokens);
    if (!one.cancelled && !ended) {
      wire::TokenEvent event;
      event.id = one.request.id;
      event.token = prompt[one.emitted++ % prompt.size()];
      one.sink->on_token(std::move(event));
      return false;
    }
    wire::FinishEvent event;
    event.id = one.request.id;
    event.reason = one.cancelled ? wire::FinishReason::kCancelled : wire::FinishReason::kStop;
    event.stop_id = ByteTokenizer::kEnd;
    event.prompt_tokens = static_cast<int32_t>(prompt.size());
    event.completion_tokens = static_cast<int32_t>(one.emitted);
    one.sink->on_finish(std::move(event));
    return true;
  }

  wire::GenerateLimits limits_;
  std::atomic<wire::RequestId> last_id_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> repeats_{false};
  mutable std::mutex mutex_;
  std::vector<Sequence> running_;
  std::thread thread_;
};

class Loopback : public ::testing::Test {
 protected:
  explicit Loopback(uint64_t backlog_bytes = 1u << 20) {
    ModelCard card;
    card.id = "echo";
    card.defaults.eos_ids = {ByteTokenizer::kEnd};
    ApiDeps deps{generator_,
                 tokenizer_,
                 nullptr,
                 registry_,
                 logger_,
                 clock_,
                 [this](std::function<void()> task) { server_->post(std::move(task)); }};
    api_.emplace(std::move(deps), std::move(card), ApiOptions{});
    http::ServerOptions options;
    options.port = 0;
    options.stream_backlog_bytes_max = backlog_bytes;
    auto listening = http::Server::listen(options, api_->handler(), logger_);
    BH_CHECK(listening.ok(), "a loopback port is free");
    server_ = std::move(listening).value();
    io_ = std::thread([this] { server_->run(); });
  }
  ~Loopback() override {
    server_->stop(std::chrono::milliseconds(0));
    io_.join();
  }

  base::Result<http::ClientResponse> ask(
      const std::string& prompt, bool stream,
      const std::function<bool(std::string_view)>& on_piece = {}) {
    http::Client client("127.0.0.1", server_->port(), std::chrono::seconds(60));
    const std::string body = R"({"max_tokens":400,"prompt":")" + prompt + R"(","stream":)" +
                             (stream ? "true}" : "false}");
    return client.send("POST", "/v1/completions", {{"Content-Type", "application/json"}}, body,
                       on_piece);
  }

  std::string streamed_text(const std::string& prompt) {
    http::SseParser parser;
    std::string text;
    bool done = false;
    const auto response = ask(prompt, true, [&](std::string_view piece) {
      for (const std::string& event : parser.push(piece)) {
        if (event == "[DONE]") {
          done = true;
          continue;
        }
        const boost::json::value chunk = boost::json::parse(event);
        const boost::json::string& part =
            chunk.at("choices").as_array().at(0).at("text").as_string();
        text.append(part.data(), part.size());
      }
      return true;
    });
    EXPECT_TRUE(response.ok() && response->status == 200);
    EXPECT_TRUE(done);
    return text;
  }

  ByteTokenizer tokenizer_;
  telemetry::Registry registry_;
  std::ostringstream log_;
  base::Logger logger_{log_, base::LogFormat::kText, base::LogLevel::kError};
  base::SteadyClock clock_;
  std::unique_ptr<http::Server> server_;
  std::optional<Api> api_;
  EchoGenerator generator_;  // its last event comes before the API and the server go
  std::thread io_;
};

TEST_F(Loopback, EveryClientGetsItsOwnAnswerWhileOthersLeave) {
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int i = 0; i < 12; ++i) {
    clients.emplace_back([this, i, &right] {
      for (int j = 0; j < 6; ++j) {
        const std::string prompt =
            "client " + std::to_string(i) + " asks " + std::to_string(j) + std::string(60, 'x');
        if (j % 3 == 2) {
          (void)ask(prompt, true, [](std::string_view) { return false; });
          continue;
        }
        std::string text;
        if (j % 3 == 0) {
          text = streamed_text(prompt);
        } else {
          const auto response = ask(prompt, false);
          ASSERT_TRUE(response.ok()) << response.error().message;
          const boost::json::value body = boost::json::parse(response->body);
          const boost::json::string& part =
              body.at("choices").as_array().at(0).at("text").as_string();
          text.assign(part.data(), part.size());
        }
        if (text == prompt) ++right;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right.load(), 12 * 4);
  while (generator_.status().running > 0) std::this_thread::yield();
}

// So little that a client that does not read is felt soon.
class SmallBacklog : public Loopback {
 protected:
  SmallBacklog() : Loopback(16u << 10) {}
};

TEST_F(SmallBacklog, AClientTooSlowToReadIsCutOffAndItsGenerationCancelled) {
  using http::testing_support::eventually;
  generator_.repeat();
  const std::string body = R"({"stream":true,"max_tokens":1000000,"prompt":"over and over"})";
  http::testing_support::RawClient client(server_->port(), 4096);
  ASSERT_TRUE(
      client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  "Content-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body));
  ASSERT_TRUE(client.read_until("data: ")) << "it streams";
  const auto cancelled = [this](const std::string& cause, int times) {
    const std::string sample = "bulkhead_requests_cancelled_total{cause=\"" + cause + "\"} ";
    return registry_.expose().find(sample + std::to_string(times)) != std::string::npos;
  };
  EXPECT_TRUE(eventually([&] { return cancelled("slow_reader", 1); }));
  EXPECT_TRUE(cancelled("disconnect", 0));
  EXPECT_TRUE(eventually([&] { return generator_.status().running == 0; }));
  EXPECT_TRUE(eventually([&] { return server_->open_connections() == 0; }));
}

TEST_F(Loopback, ErrorsOfTheHttpLayerAndOfTheApiBothReachTheClient) {
  http::Client client("127.0.0.1", server_->port(), std::chrono::seconds(60));
  const auto missing = client.send("GET", "/v1/none", {}, "");
  ASSERT_TRUE(missing.ok());
  EXPECT_EQ(missing->status, 404);
  const auto wrong =
      client.send("POST", "/v1/completions", {{"Content-Type", "application/json"}}, "{");
  ASSERT_TRUE(wrong.ok());
  EXPECT_EQ(wrong->status, 400);
  EXPECT_NE(wrong->body.find("invalid_json"), std::string::npos);
}

}  // namespace
}  // namespace bulkhead::api
