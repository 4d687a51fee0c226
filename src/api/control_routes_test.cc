// What administers and what tells about the server: flush, abort, probes, facts, loads.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "api/route_table.h"
#include "api/test_doubles.h"

namespace bulkhead::api {
namespace {

using testing::ApiWorld;
using testing::MemoryWriter;

std::string code_of(const MemoryWriter& writer) {
  const boost::json::object body = writer.body();
  return body.contains("error")
             ? std::string(body.at("error").as_object().at("code").as_string().c_str())
             : std::string();
}

http::Header bearer(const std::string& key) { return {"Authorization", "Bearer " + key}; }

ApiOptions with_keys() {
  ApiOptions options;
  options.keys = {"alice", "bob"};
  options.admin_key = "root";
  options.loopback_only = true;
  return options;
}

std::shared_ptr<MemoryWriter> call(ApiWorld& world, std::string method, std::string path,
                                   const std::string& key = {}, std::string body = {}) {
  http::Request request;
  request.method = std::move(method);
  request.path = std::move(path);
  if (!key.empty()) request.headers.push_back(bearer(key));
  if (!body.empty()) request.headers.push_back({"Content-Type", "application/json"});
  request.body = std::move(body);
  return world.send(std::move(request));
}

// An aborted request's terminal event, as the generator gives it.
void let_cancelled_end(ApiWorld& world) {
  for (auto& one : world.generator.submitted) {
    if (one.cancelled && one.sink) world.generator.finish(one, wire::FinishReason::kCancelled);
  }
  world.pump();
}

size_t cancelled(const ApiWorld& world) {
  size_t count = 0;
  for (const auto& one : world.generator.submitted) count += one.cancelled ? 1 : 0;
  return count;
}

TEST(FlushCache, TakesTheAdminKeyAndEitherMethod) {
  ApiWorld world(with_keys());
  EXPECT_EQ(call(world, "POST", "/flush_cache")->sent->status, 401);
  const auto refused = call(world, "POST", "/flush_cache", "alice");
  EXPECT_EQ(refused->sent->status, 403);
  EXPECT_EQ(code_of(*refused), "insufficient_scope");
  EXPECT_EQ(world.generator.flushes, 0);
  EXPECT_EQ(call(world, "POST", "/flush_cache", "root")->sent->status, 200);
  EXPECT_EQ(call(world, "GET", "/flush_cache", "root")->sent->status, 200);
  EXPECT_EQ(world.generator.flushes, 2);
}

TEST(FlushCache, NeedsNoKeyOnlyWhereNobodyElseCanReachTheServer) {
  ApiOptions options;
  options.loopback_only = true;
  ApiWorld alone(options);
  EXPECT_EQ(call(alone, "POST", "/flush_cache")->sent->status, 200);
  ApiWorld open;
  EXPECT_EQ(code_of(*call(open, "POST", "/flush_cache")), "insufficient_scope");
  options.keys = {"alice"};
  ApiWorld keyed(options);
  const auto refused = call(keyed, "POST", "/flush_cache", "alice");
  EXPECT_EQ(code_of(*refused), "insufficient_scope");
  EXPECT_NE(refused->sent->body.find("--admin-key"), std::string::npos);
}

TEST(Abort, EndsRequestsOfTheOwnKeyOnly) {
  ApiWorld world(with_keys());
  const auto ask = [&](const char* key, const char* id) {
    return world.post("/v1/completions", R"({"prompt":"hi"})", {bearer(key), {"X-Request-Id", id}});
  };
  ask("alice", "job-1");
  ask("bob", "job-2");
  ask("bob", "job-1");
  const auto aborted = [&](const char* key, const char* body) {
    const auto writer = call(world, "POST", "/abort_request", key, body);
    EXPECT_EQ(writer->sent->status, 200) << writer->sent->body;
    return writer->body().at("aborted").as_int64();
  };
  EXPECT_EQ(aborted("alice", R"({"rid":"job-2"})"), 0);
  EXPECT_EQ(aborted("alice", R"({"rid":"nothing"})"), 0);
  EXPECT_EQ(cancelled(world), 0u);
  EXPECT_EQ(aborted("alice", R"({"rid":"job-1"})"), 1);
  EXPECT_EQ(cancelled(world), 1u);
  EXPECT_TRUE(world.generator.submitted[0].cancelled);
  let_cancelled_end(world);
  EXPECT_EQ(aborted("alice", R"({"rid":"job-1"})"), 0) << "it has ended";
  EXPECT_EQ(aborted("root", R"({"request_id":"job-2"})"), 1);
  EXPECT_TRUE(world.generator.submitted[1].cancelled);
}

TEST(Abort, AllNeedsTheAdminKey) {
  ApiWorld world(with_keys());
  for (const char* key : {"alice", "bob"}) {
    world.post("/v1/completions", R"({"prompt":"hi"})", {bearer(key)});
  }
  const auto refused = call(world, "POST", "/abort_request", "bob", R"({"abort_all":true})");
  EXPECT_EQ(refused->sent->status, 403);
  EXPECT_EQ(cancelled(world), 0u);
  const auto done = call(world, "POST", "/abort_request", "root", R"({"rid":"","abort_all":true})");
  EXPECT_EQ(done->body().at("aborted").as_int64(), 2);
  EXPECT_EQ(cancelled(world), 2u);
}

TEST(Abort, BodiesAreCheckedAndDeleteNamesTheRequestInItsPath) {
  ApiWorld world;
  EXPECT_EQ(code_of(*world.post("/abort_request", "{}")), "missing_required_parameter");
  EXPECT_EQ(code_of(*world.post("/abort_request", R"({"rid":5})")), "invalid_type");
  EXPECT_EQ(code_of(*world.post("/abort_request", R"({"abort_all":1})")), "invalid_type");
  EXPECT_EQ(code_of(*world.post("/abort_request", R"({"abort_all":false})")),
            "missing_required_parameter");
  EXPECT_EQ(code_of(*call(world, "DELETE", "/v1/requests/job")), "request_not_found");
  EXPECT_EQ(code_of(*call(world, "DELETE", "/v1/requests/")), "not_found");
  const auto writer =
      world.post("/v1/completions", R"({"prompt":"hi"})", {{"X-Request-Id", "job"}});
  EXPECT_EQ(call(world, "DELETE", "/v1/requests/job")->sent->status, 200);
  EXPECT_EQ(cancelled(world), 1u);
  let_cancelled_end(world);
  EXPECT_EQ(writer->answers, 1);
  EXPECT_EQ(code_of(*call(world, "DELETE", "/v1/requests/job")), "request_not_found");
  EXPECT_NE(world.registry.expose().find(
                "bulkhead_requests_cancelled_total{model_name=\"tiny\",cause=\"abort_request\"} 1"),
            std::string::npos);
}

TEST(Keys, AReloadOpensForNewKeysAndShutsOutOldOnes) {
  ApiWorld world(with_keys());
  EXPECT_EQ(call(world, "GET", "/version", "alice")->sent->status, 200);
  world.api->replace_keys({"carol", "bob"});
  EXPECT_EQ(call(world, "GET", "/version", "alice")->sent->status, 200) << "until the task runs";
  world.pump();
  EXPECT_EQ(call(world, "GET", "/version", "alice")->sent->status, 401);
  EXPECT_EQ(call(world, "GET", "/version", "carol")->sent->status, 200);
  EXPECT_EQ(call(world, "POST", "/flush_cache", "root")->sent->status, 200);
}

TEST(Keys, RequestsCarryTheTenantOfTheirKey) {
  ApiWorld world(with_keys());
  const auto tenant = [&](const char* key) {
    world.post("/v1/completions", R"({"prompt":"hi"})", {bearer(key)});
    return world.generator.last().request.cache.tenant;
  };
  const auto alice = tenant("alice");
  EXPECT_NE(alice, tenant("bob"));
  EXPECT_EQ(alice, tenant("alice"));
  ApiWorld open;
  open.complete("");
  const auto nobody = open.generator.last().request.cache.tenant;
  open.complete("");
  EXPECT_EQ(open.generator.last().request.cache.tenant, nobody);
}

TEST(HealthGenerate, AnswersWhenItsTokenHasComeAndSharesOneProbe) {
  ApiWorld world;
  const auto first = world.get("/health_generate");
  const auto second = world.get("/health_generate");
  ASSERT_EQ(world.generator.submitted.size(), 1u);
  auto& probe = world.generator.last();
  EXPECT_EQ(probe.request.max_tokens, 1);
  EXPECT_FALSE(probe.request.cache.insert);
  EXPECT_TRUE(probe.request.deadline.has_value());
  EXPECT_FALSE(first->sent.has_value());
  world.generator.token(probe, 'x');
  world.generator.finish(probe, wire::FinishReason::kLength);
  world.pump();
  EXPECT_EQ(first->sent->status, 200);
  EXPECT_EQ(second->sent->status, 200);
  const auto late = world.get("/health_generate");
  world.generator.finish(world.generator.last(), wire::FinishReason::kDeadline);
  world.pump();
  EXPECT_EQ(late->sent->status, 503);
  EXPECT_EQ(late->answers, 1);
}

TEST(HealthGenerate, AFullQueueIsJudgedByItsProgress) {
  ApiWorld world;
  world.generator.refusal = base::Error{base::ErrorCode::kResourceExhausted, "full", {}};
  world.generator.status_.waiting = 8;
  EXPECT_EQ(world.get("/health_generate")->sent->status, 200);
  world.clock.advance(std::chrono::hours(1));
  EXPECT_EQ(world.get("/health_generate")->sent->status, 503);
  world.generator.refusal = base::Error{base::ErrorCode::kUnavailable, "draining", {}};
  EXPECT_NE(world.get("/health_generate")->sent->body.find("draining"), std::string::npos);
}

TEST(Facts, ServerInfoHoldsWhatBenchmarksReadAndNoPath) {
  ApiOptions options;
  options.engine = {.page_tokens = 64,
                    .prefill_chunk_tokens = 512,
                    .threads = 2,
                    .isa = "avx2",
                    .decode = {.weights = "bf16", .cache_dtype = "bf16"}};
  ApiWorld world(options);
  world.clock.advance(std::chrono::seconds(5));
  for (const char* path : {"/server_info", "/get_server_info"}) {
    const auto writer = world.get(path);
    const auto body = writer->body();
    EXPECT_EQ(body.at("model_path").as_string(), "org/tiny");
    EXPECT_EQ(body.at("max_total_num_tokens").as_int64(), 4096);
    EXPECT_EQ(body.at("max_running_requests").as_int64(), 8);
    EXPECT_EQ(body.at("page_size").as_int64(), 64);
    EXPECT_EQ(body.at("isa").as_string(), "avx2");
    EXPECT_EQ(body.at("version").as_string(), "0.1.0");
    EXPECT_EQ(body.at("kv_cache_dtype").as_string(), "bf16");
    EXPECT_EQ(body.at("placement").as_string(), "shared");
    EXPECT_FALSE(body.contains("pools"));
    EXPECT_EQ(body.at("uptime_seconds").as_double(), 5.0);
    const auto& state = body.at("internal_states").as_array().at(0).as_object();
    EXPECT_TRUE(state.at("avg_spec_accept_length").is_null());
  }
  for (const char* path : {"/model_info", "/get_model_info"}) {
    const auto body = world.get(path)->body();
    EXPECT_EQ(body.at("model_path").as_string(), "org/tiny");
    EXPECT_TRUE(body.at("is_generation").as_bool());
  }
}

TEST(Facts, ServerInfoOfAGatewaySaysThatThePoolsAreElsewhere) {
  ApiOptions options;
  options.engine.isa = "none";
  options.engine.remote = true;
  ApiWorld world(options);
  const auto body = world.get("/server_info")->body();
  EXPECT_EQ(body.at("placement").as_string(), "remote");
  EXPECT_FALSE(body.contains("pools"));
}

TEST(Facts, ServerInfoTellsOfBothPoolsWhereThereAreTwo) {
  ApiOptions options;
  options.engine.page_tokens = 64;
  options.engine.decode = {.weights = "int4", .cache_dtype = "fp8_e4m3"};
  options.engine.prefill = PoolFacts{.weights = "fp8", .cache_dtype = "bf16"};
  ApiWorld world(options);
  world.generator.status_.pages = {.total = 8, .free = 2, .cached = 0};
  world.generator.status_.prefill_pages = wire::PageGauges{.total = 4, .free = 1, .cached = 2};
  const auto body = world.get("/server_info")->body();
  EXPECT_EQ(body.at("placement").as_string(), "split");
  const auto& prefill = body.at("pools").at("prefill").as_object();
  EXPECT_EQ(prefill.at("weights").as_string(), "fp8");
  EXPECT_EQ(prefill.at("num_used_tokens").as_int64(), 64);
  EXPECT_EQ(prefill.at("pages_cached").as_int64(), 2);
  const auto& decode = body.at("pools").at("decode").as_object();
  EXPECT_EQ(decode.at("kv_cache_dtype").as_string(), "fp8_e4m3");
  EXPECT_EQ(decode.at("token_usage").as_double(), 0.75);
}

TEST(Facts, LoadsCountPagesThatRequestsHold) {
  ApiOptions options;
  options.engine.page_tokens = 64;
  ApiWorld world(options);
  world.generator.status_.running = 3;
  world.generator.status_.waiting = 2;
  world.generator.status_.pages.total = 10;
  world.generator.status_.pages.free = 4;
  world.generator.status_.pages.cached = 1;
  EXPECT_EQ(world.get("/load")->body().at("server_load").as_int64(), 5);
  const auto loads = world.get("/v1/loads")->body();
  const auto& load = loads.at("loads").as_array().at(0).as_object();
  EXPECT_EQ(load.at("num_running_reqs").as_int64(), 3);
  EXPECT_EQ(load.at("num_waiting_reqs").as_int64(), 2);
  EXPECT_EQ(load.at("num_used_tokens").as_int64(), 5 * 64);
  EXPECT_EQ(load.at("token_usage").as_double(), 0.5);
}

TEST(Facts, TheStartHasEnded) {
  ApiWorld world;
  const auto writer = world.get("/startupz");
  EXPECT_EQ(writer->sent->status, 200);
  EXPECT_EQ(writer->body().at("phase").as_string(), "ready");
  for (const char* path : {"/ping", "/v1/health"}) {
    EXPECT_EQ(world.get(path)->sent->status, 200) << path;
  }
  EXPECT_EQ(world.post("/ping", "")->sent->status, 200);
}

TEST(Routes, WhatIsNotServedSaysSo) {
  ApiWorld world;
  for (const char* path : {"/v1/embeddings", "/v1/responses", "/v1/messages"}) {
    const auto writer = world.post(path, "{}");
    EXPECT_EQ(writer->sent->status, 501) << path;
    EXPECT_EQ(code_of(*writer), "not_implemented");
    EXPECT_NE(writer->sent->body.find(path), std::string::npos);
  }
}

TEST(Routes, EveryPathIsDocumentedOnce) {
  const char* root = std::getenv("BULKHEAD_SOURCE_DIR");
  ASSERT_NE(root, nullptr);
  std::ifstream file(std::string(root) + "/docs/api.md");
  ASSERT_TRUE(file.good());
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::set<std::string_view> seen;
  for (const RouteSpec& route : route_table()) {
    EXPECT_TRUE(seen.insert(route.path).second) << route.path;
    std::string path(route.path);
    if (path.ends_with("/*")) path.replace(path.size() - 1, 1, "{id}");
    const bool found = text.find(" " + path + "`") != std::string::npos;
    EXPECT_TRUE(found) << "docs/api.md lacks `METHOD " << path << "`";
  }
}

TEST(Headers, AnswersSayHowLongTheyTook) {
  ApiWorld world;
  EXPECT_EQ(world.get("/version")->header("openai-processing-ms"), "0");
  const auto writer = world.complete("");
  world.clock.advance(std::chrono::milliseconds(1500));
  world.generator.finish(world.generator.last(), wire::FinishReason::kStop);
  world.pump();
  EXPECT_EQ(writer->header("openai-processing-ms"), "1500");
  EXPECT_EQ(writer->header("server-timing"),
            "queue;dur=0.000, prefill;dur=1.500, decode;dur=2.500");
}

}  // namespace
}  // namespace bulkhead::api
