// What clients may require of the cache's pages, and what administrators see and do.
#include "api/integrity_route.h"

#include <gtest/gtest.h>

#include "api/test_doubles.h"

namespace bulkhead::api {
namespace {

using testing::ApiWorld;
using testing::MemoryWriter;
using testing::ScriptedIntegrity;
using wire::IntegrityMode;

struct World {
  explicit World(ApiOptions options = with_loopback()) : api(std::move(options), {}, &port) {}
  static ApiOptions with_loopback() {
    ApiOptions options;
    options.loopback_only = true;
    return options;
  }
  std::shared_ptr<MemoryWriter> complete(const std::string& required) {
    return api.post("/v1/completions", R"({"prompt":"hi","max_tokens":1})",
                    {{"X-Require-Integrity", required}});
  }

  ScriptedIntegrity port;
  ApiWorld api;
};

std::string code_of(const MemoryWriter& writer) {
  return writer.body().at("error").as_object().at("code").as_string().c_str();
}

TEST(RequiredIntegrity, IsHeldAgainstTheServersMode) {
  World world;
  const struct {
    IntegrityMode mode;
    const char* required;
    bool served;
  } cases[] = {
      {IntegrityMode::kOff, "off", true},        {IntegrityMode::kOff, "observe", false},
      {IntegrityMode::kOff, "abort", false},     {IntegrityMode::kObserve, "observe", true},
      {IntegrityMode::kObserve, "abort", false}, {IntegrityMode::kAbort, "observe", true},
      {IntegrityMode::kAbort, "abort", true},
  };
  for (const auto& one : cases) {
    world.port.now = one.mode;
    const size_t before = world.api.generator.submitted.size();
    const auto writer = world.complete(one.required);
    EXPECT_EQ(world.api.generator.submitted.size(), before + (one.served ? 1 : 0));
    if (one.served) continue;
    EXPECT_EQ(writer->sent->status, 412);
    EXPECT_EQ(code_of(*writer), "integrity_not_available");
    EXPECT_EQ(writer->header("x-kv-integrity"), to_string(one.mode));
  }
}

TEST(RequiredIntegrity, ModesThatAreNoneAreRefused) {
  World world;
  for (const char* value : {"", "Abort", "yes", "abort,observe"}) {
    const auto writer = world.complete(value);
    EXPECT_EQ(writer->sent->status, 400) << value;
    EXPECT_EQ(code_of(*writer), "invalid_value");
  }
  const auto twice =
      world.api.post("/v1/completions", R"({"prompt":"hi"})",
                     {{"X-Require-Integrity", "abort"}, {"X-Require-Integrity", "off"}});
  EXPECT_EQ(twice->sent->status, 400);
}

TEST(RequiredIntegrity, WhoDoesNotKnowPromisesNothing) {
  ApiWorld gateway;
  const auto refused =
      gateway.post("/v1/completions", R"({"prompt":"hi"})", {{"X-Require-Integrity", "abort"}});
  EXPECT_EQ(refused->sent->status, 412);
  EXPECT_EQ(refused->header("x-kv-integrity"), "");
  gateway.post("/v1/completions", R"({"prompt":"hi"})", {{"X-Require-Integrity", "off"}});
  EXPECT_EQ(gateway.generator.submitted.size(), 1u);
}

TEST(IntegrityHeader, IsOnEveryKindOfAnswer) {
  World world;
  EXPECT_EQ(world.api.get("/version")->header("x-kv-integrity"), "abort");
  EXPECT_EQ(world.api.complete(R"(,"temperature":9)")->header("x-kv-integrity"), "abort");
  for (const char* fields : {R"(,"max_tokens":1)", R"(,"max_tokens":1,"stream":true)"}) {
    const auto writer = world.api.complete(fields);
    auto& running = world.api.generator.submitted.back();
    world.api.generator.token(running, 'x');
    world.api.generator.finish(running, wire::FinishReason::kLength);
    world.api.pump();
    EXPECT_EQ(writer->header("x-kv-integrity"), "abort") << fields;
  }
}

TEST(IntegrityRoute, TellsPoolsCountersAndEvents) {
  World world;
  wire::IntegrityPool pool;
  pool.name = "decode";
  pool.mode = IntegrityMode::kAbort;
  pool.pages_checked = 12;
  pool.mismatches = {{"tag", 3}, {"label", 0}};
  pool.quarantined = {7, 9};
  wire::IntegrityEvent event;
  event.kind = "tag";
  event.phase = "before";
  event.request = 5;
  event.found_place = 3;
  event.expected_tag = 0x1234;
  event.history = {"allocated 0x1234"};
  pool.events = {event};
  world.port.pools = {pool};
  const auto body = world.api.get("/v1/integrity")->body();
  EXPECT_EQ(body.at("mode").as_string(), "abort");
  const auto& told = body.at("pools").as_array().at(0).as_object();
  EXPECT_EQ(told.at("pages_checked").as_int64(), 12);
  EXPECT_EQ(told.at("mismatches").at("tag").as_int64(), 3);
  EXPECT_EQ(told.at("quarantined_pages").as_array().size(), 2u);
  const auto& happened = told.at("events").as_array().at(0).as_object();
  EXPECT_EQ(happened.at("found").at("place").as_int64(), 3);
  EXPECT_EQ(happened.at("expected").at("tag").as_string(), "0x1234");
  EXPECT_EQ(happened.at("history").as_array().at(0).as_string(), "allocated 0x1234");
  EXPECT_FALSE(body.at("faults").at("enabled").as_bool());
}

TEST(IntegrityRoute, IsForAdministrators) {
  ApiOptions options;
  options.keys = {"alice"};
  options.admin_key = "root";
  World world(options);
  for (const char* path : {"/v1/integrity", "/v1/integrity/faults"}) {
    http::Request request;
    request.method = std::string_view(path).ends_with("faults") ? "POST" : "GET";
    request.path = path;
    request.headers = {{"Authorization", "Bearer alice"}, {"Content-Type", "application/json"}};
    request.body = R"({"fault":"tag_flip"})";
    EXPECT_EQ(world.api.send(request)->sent->status, 403) << path;
  }
  EXPECT_TRUE(world.port.ordered.empty());
}

TEST(IntegrityRoute, AGatewayHasNoPoolsAndSaysWhereTheyAreTold) {
  ApiOptions options;
  options.loopback_only = true;
  std::vector<wire::IntegrityWorker> workers;
  ApiWorld gateway(options, {}, nullptr, [&workers] { return workers; });
  EXPECT_TRUE(gateway.get("/v1/integrity")->body().at("workers").as_array().empty());
  workers = {{"prefill-0", true, "127.0.0.1:7101"}, {"decode-0", false, ""}};
  const auto body = gateway.get("/v1/integrity")->body();
  EXPECT_TRUE(body.at("mode").is_null());
  EXPECT_TRUE(body.at("pools").as_array().empty());
  const auto& told = body.at("workers").as_array();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told.at(0).at("name").as_string(), "prefill-0");
  EXPECT_TRUE(told.at(0).at("present").as_bool());
  EXPECT_EQ(told.at(0).at("http").as_string(), "127.0.0.1:7101");
  EXPECT_FALSE(told.at(1).at("present").as_bool());
  EXPECT_TRUE(told.at(1).at("http").is_null());
}

TEST(InjectedFaults, NeedAServerThatWasStartedForThem) {
  World world;
  const auto refused = world.api.post("/v1/integrity/faults", R"({"fault":"tag_flip"})");
  EXPECT_EQ(refused->sent->status, 501);
  world.port.faults.enabled = true;
  world.port.faults.done = {{"tag_flip", "decode", 3, 8}};
  const auto done =
      world.api.post("/v1/integrity/faults", R"({"fault":"tag_flip","pool":"decode"})");
  EXPECT_EQ(done->sent->status, 200);
  EXPECT_EQ(world.port.ordered, std::vector<std::string>{"decode"});
  const auto body_told = done->body();
  const auto& told = body_told.at("faults").at("done").as_array().at(0).as_object();
  EXPECT_EQ(told.at("request").as_int64(), 3);
  for (const char* body : {"{}", R"({"fault":1})", R"({"fault":"quake"})", "[]"}) {
    EXPECT_EQ(world.api.post("/v1/integrity/faults", body)->sent->status, 400) << body;
  }
}

}  // namespace
}  // namespace bulkhead::api
