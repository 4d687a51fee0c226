// Routes, headers, keys, error bodies and facts: everything that needs no generation.
#include "api/api.h"

#include <gtest/gtest.h>

#include "api/test_doubles.h"

namespace bulkhead::api {
namespace {

using testing::ApiWorld;
using testing::MemoryWriter;

std::string text_at(const boost::json::object& body, std::string_view key) {
  const boost::json::value* value =
      body.if_contains(boost::json::string_view(key.data(), key.size()));
  if (value == nullptr || !value->is_string()) return {};
  return std::string(value->get_string().c_str());
}

// Every failure has the same shape whatever the route.
void expect_error(const MemoryWriter& writer, int status, std::string_view code,
                  std::string_view param = {}) {
  ASSERT_TRUE(writer.sent.has_value());
  EXPECT_EQ(writer.answers, 1);
  EXPECT_EQ(writer.sent->status, status) << writer.sent->body;
  EXPECT_EQ(writer.sent->content_type, "application/json");
  const boost::json::object body = writer.body();
  ASSERT_TRUE(body.contains("error")) << writer.sent->body;
  const boost::json::object& error = body.at("error").as_object();
  EXPECT_EQ(text_at(error, "code"), code);
  EXPECT_FALSE(text_at(error, "message").empty());
  EXPECT_FALSE(text_at(error, "type").empty());
  EXPECT_EQ(text_at(error, "param"), param);
  EXPECT_EQ(text_at(error, "request_id"), writer.header("x-request-id"));
  EXPECT_FALSE(writer.header("x-request-id").empty());
}

TEST(Api, UnknownPathsAndWrongMethodsAreTold) {
  ApiWorld world;
  expect_error(*world.get("/v1/nothing"), 404, "not_found");
  expect_error(*world.get("/v1/models/"), 404, "not_found");
  expect_error(*world.get("/v1/chat/completions"), 405, "method_not_allowed");
  EXPECT_EQ(world.get("/v1/chat/completions")->header("Allow"), "POST");
  expect_error(*world.post("/v1/models", "{}"), 405, "method_not_allowed");
  EXPECT_EQ(world.post("/health", "")->header("Allow"), "GET");
}

TEST(Api, BodiesMustSayThatTheyAreJson) {
  ApiWorld world;
  for (const char* type :
       {"", "text/plain", "application/jsonx", "application/x-www-form-urlencoded"}) {
    http::Request request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.headers = {{"Content-Type", type}};
    request.body = R"({"prompt":"hi"})";
    expect_error(*world.send(std::move(request)), 415, "unsupported_media_type");
  }
  EXPECT_TRUE(world.generator.submitted.empty());
  http::Request request;
  request.method = "POST";
  request.path = "/v1/completions";
  request.headers = {{"content-type", "Application/JSON; charset=utf-8"}};
  request.body = R"({"prompt":"hi"})";
  world.send(std::move(request));
  EXPECT_EQ(world.generator.submitted.size(), 1u);
}

TEST(Api, RequestIdsAreEchoedWhenTheyArePlainAndMadeOtherwise) {
  ApiWorld world;
  const auto id_for = [&](std::string id) {
    http::Request request;
    request.method = "GET";
    request.path = "/health";
    request.headers = {{"X-Request-Id", std::move(id)}};
    return world.send(std::move(request))->header("x-request-id");
  };
  EXPECT_EQ(id_for("client-1.a:b_C"), "client-1.a:b_C");
  EXPECT_TRUE(id_for("").starts_with("req-"));
  EXPECT_TRUE(id_for("with space").starts_with("req-"));
  EXPECT_TRUE(id_for("line\nbreak").starts_with("req-"));
  EXPECT_TRUE(id_for(std::string(129, 'x')).starts_with("req-"));
  EXPECT_NE(id_for(""), id_for(""));
}

TEST(Api, KeysGuardEveryRouteButHealthBeforeTheBodyIsRead) {
  ApiOptions options;
  options.keys = {"secret"};
  ApiWorld world(options);
  for (const char* path : {"/v1/models", "/v1/models/tiny", "/metrics", "/version", "/nowhere"}) {
    const auto refused = world.get(path);
    expect_error(*refused, 401, "invalid_api_key");
    EXPECT_EQ(refused->header("WWW-Authenticate"), "Bearer");
  }
  for (const char* path : {"/v1/chat/completions", "/v1/completions"}) {
    expect_error(*world.post(path, "{ not json"), 401, "invalid_api_key");
    expect_error(*world.post(path, "{}", {{"Authorization", "Bearer wrong"}}), 401,
                 "invalid_api_key");
    EXPECT_EQ(world.post(path, "{ not json", {{"Authorization", "Bearer secret"}})->sent->status,
              400);
  }
  for (const char* path : {"/health", "/livez", "/readyz"}) {
    EXPECT_EQ(world.get(path)->sent->status, 200) << path;
  }
}

TEST(Api, ModelsListsTheServedModelWithTheFieldsThatClientsRead) {
  ApiWorld world;
  const boost::json::object body = world.get("/v1/models")->body();
  EXPECT_EQ(text_at(body, "object"), "list");
  const boost::json::object& model = body.at("data").as_array().at(0).as_object();
  EXPECT_EQ(text_at(model, "id"), "tiny");
  EXPECT_EQ(text_at(model, "root"), "org/tiny");
  EXPECT_EQ(text_at(model, "object"), "model");
  EXPECT_EQ(text_at(model, "owned_by"), "bulkhead");
  EXPECT_EQ(model.at("created").as_int64(), 1700000000);
  EXPECT_EQ(model.at("max_model_len").as_int64(), 512);
  EXPECT_EQ(model.at("meta").as_object().at("n_params").as_int64(), 42);
  EXPECT_EQ(model.at("sampling_defaults").as_object().at("top_k").as_int64(), 40);
  EXPECT_EQ(text_at(world.get("/v1/models/tiny")->body(), "id"), "tiny");
  EXPECT_EQ(text_at(world.get("/v1/models/org/tiny")->body(), "id"), "tiny");
  expect_error(*world.get("/v1/models/other"), 404, "model_not_found");
}

TEST(Api, AnotherModelIsNotFoundAndTheServedNamesAreAccepted) {
  ApiWorld world;
  expect_error(*world.complete(R"(,"model":"gpt-4")"), 404, "model_not_found", "model");
  world.complete(R"(,"model":"tiny")");
  world.complete(R"(,"model":"org/tiny")");
  world.complete(R"(,"model":null)");
  EXPECT_EQ(world.generator.submitted.size(), 3u);
}

TEST(Api, FieldErrorsNameTheFieldAndTheLimit) {
  ApiWorld world;
  const auto refused = world.chat(R"(,"temperature":2.5)");
  expect_error(*refused, 400, "invalid_value", "temperature");
  const std::string message = text_at(refused->body().at("error").as_object(), "message");
  EXPECT_NE(message.find("2.5"), std::string::npos);
  EXPECT_NE(message.find("at most 2"), std::string::npos);
  expect_error(*world.post("/v1/chat/completions", R"({"messages":[{"role":"user"}]})"), 400,
               "missing_required_parameter", "messages[0].content");
  expect_error(*world.post("/v1/completions", "{"), 400, "invalid_json");
}

// C171
TEST(Api, TheNextRequestWorksAfterEveryKindOfRefusal) {
  ApiWorld world;
  for (const char* body : {"", "{", "[]", R"({"prompt":[-1]})", R"({"prompt":[2147483648]})",
                           R"({"prompt":"x","max_tokens":100000})", R"({"prompt":{"a":1}})"}) {
    EXPECT_EQ(world.post("/v1/completions", body)->sent->status, 400) << body;
  }
  EXPECT_TRUE(world.generator.submitted.empty());
  world.complete("");
  EXPECT_EQ(world.generator.submitted.size(), 1u);
}

TEST(Api, PromptsBeyondTheContextAreRefusedWithTheNumbers) {
  ApiWorld world;
  const std::string long_prompt(600, 'x');
  expect_error(*world.post("/v1/completions", R"({"prompt":")" + long_prompt + R"("})"), 400,
               "context_length_exceeded");
  // So long that the bytes alone prove it.
  const std::string huge(512 * 12 + 1, 'x');
  const auto refused = world.post("/v1/completions", R"({"prompt":")" + huge + R"("})");
  expect_error(*refused, 400, "context_length_exceeded");
  EXPECT_NE(refused->sent->body.find("bytes"), std::string::npos);
  EXPECT_EQ(world.chat(R"(,"max_tokens":1000)")->sent->status, 400);
}

TEST(Api, RefusalsOfTheGeneratorHaveTheirStatusAndSayWhenToRetry) {
  ApiWorld world;
  world.generator.refusal = base::Error{base::ErrorCode::kResourceExhausted, "8 requests wait", {}};
  const auto full = world.complete("");
  expect_error(*full, 429, "queue_full");
  EXPECT_EQ(full->header("Retry-After"), "1");
  EXPECT_EQ(full->header("x-should-retry"), "true");
  world.generator.refusal = base::Error{base::ErrorCode::kUnavailable, "draining", {}};
  const auto draining = world.chat("");
  expect_error(*draining, 503, "draining");
  EXPECT_EQ(draining->header("Retry-After"), "1");
  world.generator.refusal =
      base::Error{base::ErrorCode::kInvalidArgument, "needs 40 pages of 32", {}};
  expect_error(*world.complete(""), 400, "context_length_exceeded");
}

TEST(Api, TheChatTemplateMayRefuseAConversation) {
  ApiWorld world;
  expect_error(*world.post("/v1/chat/completions",
                           R"({"messages":[{"role":"tool","content":"x","tool_call_id":"1"}]})"),
               400, "invalid_value", "messages");
}

// C201
TEST(Api, HealthMeansProgress) {
  ApiWorld world;
  EXPECT_EQ(world.get("/health")->sent->status, 200);
  // Idle for an hour is healthy.
  world.clock.advance(std::chrono::hours(1));
  EXPECT_EQ(world.get("/health")->sent->status, 200);
  // Outstanding work without a step is not, though the process answers.
  world.generator.status_.running = 1;
  const auto stalled = world.get("/health");
  EXPECT_EQ(stalled->sent->status, 503);
  EXPECT_EQ(text_at(stalled->body(), "status"), "stalled");
  EXPECT_EQ(world.get("/readyz")->sent->status, 503);
  EXPECT_EQ(world.get("/livez")->sent->status, 200);
  world.generator.status_.last_progress = world.clock.now();
  EXPECT_EQ(world.get("/health")->sent->status, 200);
  world.generator.status_.draining = true;
  const auto draining = world.get("/health");
  EXPECT_EQ(draining->sent->status, 503);
  EXPECT_EQ(text_at(draining->body(), "status"), "draining");
}

TEST(Api, MetricsCarryBothSpellingsOfTheGaugesAndCountAnswers) {
  ApiWorld world;
  world.generator.status_.running = 3;
  world.generator.status_.waiting = 2;
  world.generator.status_.pages.total = 8;
  world.generator.status_.pages.free = 6;
  world.get("/nowhere");
  const auto writer = world.get("/metrics");
  EXPECT_TRUE(writer->sent->content_type.starts_with("text/plain; version=0.0.4"));
  const std::string& text = writer->sent->body;
  for (const char* line : {
           "vllm:num_requests_running{model_name=\"tiny\"} 3",
           "sglang:num_running_reqs{model_name=\"tiny\"} 3",
           "vllm:num_requests_waiting{model_name=\"tiny\"} 2",
           "sglang:num_queue_reqs{model_name=\"tiny\"} 2",
           "vllm:kv_cache_usage_perc{model_name=\"tiny\"} 0.25",
           "sglang:token_usage{model_name=\"tiny\"} 0.25",
           "bulkhead_http_responses_total{model_name=\"tiny\",endpoint=\"other\",status=\"404\"} 1",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST(Api, CachedPagesDoNotCountAsUse) {
  ApiWorld world;
  world.generator.status_.pages.total = 8;
  world.generator.status_.pages.free = 1;
  world.generator.status_.pages.cached = 5;
  const std::string text = world.get("/metrics")->sent->body;
  for (const char* line : {
           "vllm:kv_cache_usage_perc{model_name=\"tiny\"} 0.25",
           "sglang:num_used_tokens{model_name=\"tiny\"} 1024",
           "sglang:max_total_num_tokens{model_name=\"tiny\"} 4096",
           "bulkhead_kv_pages{model_name=\"tiny\",state=\"free\"} 1",
           "bulkhead_kv_pages{model_name=\"tiny\",state=\"cached\"} 5",
           "bulkhead_kv_pages{model_name=\"tiny\",state=\"used\"} 2",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST(Api, AnEndedRequestIsCountedUnderBothNamesAndLoggedOnce) {
  ApiWorld world;
  world.post("/v1/completions", R"({"prompt":"secret words"})", {{"X-Request-Id", "job-7"}});
  auto& running = world.generator.last();
  world.clock.advance(std::chrono::milliseconds(700));
  world.generator.text(running, "answer");
  world.generator.finish(running, wire::FinishReason::kStop);
  world.pump();
  const std::string text = world.get("/metrics")->sent->body;
  for (const char* line : {
           "vllm:request_success_total{model_name=\"tiny\",finished_reason=\"stop\"} 1",
           "sglang:num_requests_total{model_name=\"tiny\"} 1",
           "sglang:num_aborted_requests_total{model_name=\"tiny\"} 0",
           "vllm:prompt_tokens_total{model_name=\"tiny\"} 10",
           "sglang:prompt_tokens_total{model_name=\"tiny\"} 10",
           "vllm:prefix_cache_queries_total{model_name=\"tiny\"} 10",
           "vllm:prefix_cache_hits_total{model_name=\"tiny\"} 1",
           "sglang:cached_tokens_total{model_name=\"tiny\",source=\"device\"} 1",
           "sglang:generation_tokens_total{model_name=\"tiny\"} 6",
           "vllm:time_to_first_token_seconds_count{model_name=\"tiny\"} 1",
           "sglang:time_to_first_token_seconds_bucket{model_name=\"tiny\",le=\"0.75\"} 1",
           "sglang:inter_token_latency_seconds_count{model_name=\"tiny\"} 5",
           "sglang:e2e_request_latency_seconds_bucket{model_name=\"tiny\",le=\"0.5\"} 0",
           "vllm:request_inference_time_seconds_count{model_name=\"tiny\"} 1",
           "sglang:queue_time_seconds_count{model_name=\"tiny\"} 1",
           "sglang:per_stage_req_latency_seconds_count{model_name=\"tiny\",stage=\"decode\"} 1",
           "vllm:request_params_n_sum{model_name=\"tiny\"} 1",
           "sglang:prompt_tokens_histogram_sum{model_name=\"tiny\"} 10",
           "vllm:request_generation_tokens_bucket{model_name=\"tiny\",le=\"500\"} 1",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
  EXPECT_EQ(text.find("le=\"1000\""), std::string::npos) << "no request has more than 512 tokens";
  const std::string log = world.log.str();
  const size_t at = log.find(
      "request ended request_id=job-7 route=/v1/completions status=200 "
      "reason=stop prompt_tokens=10 cached_tokens=1 completion_tokens=6");
  EXPECT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find("job-7", at + 40), std::string::npos) << "one line";
  EXPECT_EQ(log.find("secret"), std::string::npos);
  EXPECT_EQ(log.find("answer"), std::string::npos);
}

TEST(Api, RefusalsOfTextAreLoggedWithTheirStatusAndOtherAnswersAreNot) {
  ApiWorld world;
  world.post("/v1/completions", R"({"prompt":"secret","temperature":9})",
             {{"X-Request-Id", "job-8"}});
  world.get("/version");
  const std::string log = world.log.str();
  EXPECT_NE(log.find("request refused request_id=job-8 route=/v1/completions status=400"),
            std::string::npos)
      << log;
  EXPECT_EQ(log.find("secret"), std::string::npos);
  EXPECT_EQ(log.find("/server_info"), std::string::npos);
}

TEST(Api, TheVersionIsTold) {
  ApiWorld world;
  EXPECT_EQ(text_at(world.get("/version")->body(), "version"), "0.1.0");
}

}  // namespace
}  // namespace bulkhead::api
