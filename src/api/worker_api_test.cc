// What a worker process answers: the same paths, keys and forms as a server, and no text.
#include "api/worker_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/test_doubles.h"

namespace bulkhead::api {
namespace {

using ::testing::HasSubstr;
using testing::MemoryWriter;
using testing::ScriptedIntegrity;

KeyOptions on_loopback() {
  KeyOptions keys;
  keys.loopback_only = true;
  return keys;
}

KeyOptions with_keys() {
  KeyOptions keys;
  keys.api_keys = {"alice"};
  keys.admin_key = "root";
  return keys;
}

struct World {
  explicit World(const KeyOptions& keys = on_loopback())
      : api({registry, logger, clock, [this] { return status; }, integrity,
             [](const std::function<void()>& task) { task(); }},
            {.keys = keys, .version = "0.1.0", .weight_bytes = 7}) {}

  std::shared_ptr<MemoryWriter> ask(const std::string& path, const std::string& key = {},
                                    const std::string& method = "GET") {
    http::Request request;
    request.method = method;
    request.path = path;
    if (!key.empty()) request.headers.push_back({"Authorization", "Bearer " + key});
    auto writer = std::make_shared<MemoryWriter>();
    api.handler()(std::move(request), writer);
    return writer;
  }
  int status_of(const std::string& path, const std::string& key = {}) {
    return ask(path, key)->sent->status;
  }

  telemetry::Registry registry{{{"model_name", "tiny"}}};
  std::ostringstream log;
  base::Logger logger{log, base::LogFormat::kText, base::LogLevel::kInfo};
  base::ManualClock clock;
  wire::GeneratorStatus status;
  ScriptedIntegrity integrity;
  WorkerApi api;
};

TEST(WorkerApi, IsWellWhileStepsAreDoneOrNothingIsToDo) {
  World world;
  for (const char* path : {"/health", "/v1/health", "/readyz", "/livez", "/startupz"}) {
    EXPECT_EQ(world.status_of(path), 200) << path;
  }
  world.status.running = 1;
  world.clock.advance(std::chrono::seconds(31));
  EXPECT_EQ(world.status_of("/health"), 503);
  EXPECT_EQ(world.status_of("/livez"), 200);
  world.status.last_progress = world.clock.now();
  EXPECT_EQ(world.status_of("/health"), 200);
  world.status.draining = true;
  EXPECT_EQ(world.ask("/health")->body().at("status").as_string(), "draining");
}

TEST(WorkerApi, TellsItsRequestsAndPages) {
  World world;
  world.status.running = 3;
  world.status.pages = {.total = 10, .free = 4, .cached = 1};
  const std::string text = world.ask("/metrics")->sent->body;
  EXPECT_THAT(text, HasSubstr("vllm:num_requests_running{model_name=\"tiny\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("bulkhead_kv_pages{model_name=\"tiny\",state=\"used\"} 5\n"));
  EXPECT_THAT(
      world.ask("/metrics")->sent->body,
      HasSubstr("_responses_total{model_name=\"tiny\",endpoint=\"/metrics\",status=\"200\"} 1\n"));
}

TEST(WorkerApi, TellsHowItsPagesAreWatched) {
  World world;
  wire::IntegrityPool pool;
  pool.name = "decode";
  pool.checks = 9;
  world.integrity.pools = {pool};
  const auto writer = world.ask("/v1/integrity");
  const auto body = writer->body();
  EXPECT_EQ(body.at("mode").as_string(), "abort");
  EXPECT_EQ(body.at("pools").as_array().at(0).at("checks").as_int64(), 9);
  EXPECT_EQ(writer->header("x-kv-integrity"), "abort");
}

TEST(WorkerApi, HoldsKeysAgainstRoutesAsAServerDoes) {
  World world(with_keys());
  EXPECT_EQ(world.status_of("/health"), 200);
  EXPECT_EQ(world.status_of("/metrics"), 401);
  EXPECT_EQ(world.status_of("/metrics", "alice"), 200);
  EXPECT_EQ(world.status_of("/v1/integrity"), 401);
  EXPECT_EQ(world.status_of("/v1/integrity", "alice"), 403);
  EXPECT_EQ(world.status_of("/v1/integrity", "root"), 200);
  world.api.replace_keys({"bob"});
  EXPECT_EQ(world.status_of("/metrics", "alice"), 401);
  EXPECT_EQ(world.status_of("/metrics", "bob"), 200);
  EXPECT_EQ(world.status_of("/v1/integrity", "root"), 200);
}

TEST(WorkerApi, ServesNoTextAndSaysSo) {
  World world;
  for (const char* path : {"/v1/models", "/server_info", "/health_generate", "/load"}) {
    const auto writer = world.ask(path);
    EXPECT_EQ(writer->sent->status, 501) << path;
    EXPECT_THAT(writer->sent->body, HasSubstr("worker")) << path;
  }
  EXPECT_EQ(world.status_of("/nowhere"), 404);
  EXPECT_EQ(world.ask("/metrics", {}, "POST")->header("Allow"), "GET");
}

}  // namespace
}  // namespace bulkhead::api
