// What a request says about itself: its name, cache, priority, deadline, patience, continuation.
#include <gtest/gtest.h>

#include "api/test_doubles.h"

namespace bulkhead::api {
namespace {

using testing::ApiWorld;
using testing::ByteTokenizer;
using testing::MemoryWriter;
using wire::FinishReason;

std::string code_of(const MemoryWriter& writer) {
  return std::string(writer.body().at("error").at("code").as_string().c_str());
}

const wire::CacheScope& scope_of(ApiWorld& world, const std::string& fields,
                                 const std::string& key = {}) {
  std::vector<http::Header> headers;
  if (!key.empty()) headers.push_back({"Authorization", "Bearer " + key});
  world.post("/v1/completions", R"({"prompt":"hi")" + fields + "}", std::move(headers));
  return world.generator.last().request.cache;
}

ApiOptions with_keys() {
  ApiOptions options;
  options.keys = {"alice", "bob"};
  return options;
}

// C070
TEST(CacheScope, BelongsToTheKeyAndTheSalt) {
  ApiWorld world(with_keys());
  const auto tenant = [&](const std::string& fields, const std::string& key) {
    const wire::CacheScope scope = scope_of(world, fields, key);
    EXPECT_TRUE(scope.insert);
    return scope.tenant;
  };
  const auto alice = tenant("", "alice");
  EXPECT_EQ(tenant("", "alice"), alice);
  EXPECT_NE(tenant("", "bob"), alice);
  const auto salted = tenant(R"(,"cache_salt":"x")", "alice");
  EXPECT_NE(salted, alice);
  EXPECT_EQ(tenant(R"(,"cache_salt":"x")", "alice"), salted);
  EXPECT_NE(tenant(R"(,"cache_salt":"y")", "alice"), salted);
  EXPECT_NE(tenant(R"(,"cache_salt":"x")", "bob"), salted);
}

TEST(CacheScope, NothingIsSharedWithOthersByRequestsThatOptOut) {
  ApiWorld world;
  const wire::CacheScope common = scope_of(world, "");
  const wire::CacheScope first = scope_of(world, R"(,"cache_prompt":false)");
  const wire::CacheScope second = scope_of(world, R"(,"cache_prompt":false)");
  EXPECT_FALSE(first.insert);
  EXPECT_NE(first.tenant, common.tenant);
  EXPECT_NE(first.tenant, second.tenant);
  const wire::CacheScope several = scope_of(world, R"(,"cache_prompt":false,"n":3)");
  EXPECT_TRUE(several.insert) << "the choices share their prompt";
  const auto& all = world.generator.submitted;
  for (size_t i = all.size() - 3; i < all.size(); ++i) {
    EXPECT_EQ(all[i].request.cache.tenant, several.tenant);
  }
  EXPECT_NE(several.tenant, second.tenant);
}

TEST(Names, ComeFromTheHeaderOrTheBody) {
  ApiWorld world;
  const auto name_of = [&](const std::string& fields, std::vector<http::Header> headers = {}) {
    const auto writer =
        world.post("/v1/completions", R"({"prompt":"hi")" + fields + "}", std::move(headers));
    world.generator.finish(world.generator.last(), FinishReason::kStop);
    world.pump();
    return writer->header("x-request-id");
  };
  EXPECT_EQ(name_of(R"(,"request_id":"mine")"), "mine");
  EXPECT_EQ(name_of(R"(,"rid":"mine")"), "mine");
  EXPECT_EQ(name_of(R"(,"rid":"second","request_id":"first")"), "first");
  EXPECT_EQ(name_of(R"(,"request_id":"body")", {{"X-Request-Id", "header"}}), "header");
  EXPECT_EQ(name_of(R"(,"request_id":"body")", {{"X-Request-Id", "not plain"}}), "body");
  const auto refused = world.post("/v1/completions", R"({"prompt":[],"request_id":"mine"})");
  EXPECT_EQ(refused->sent->status, 400);
  EXPECT_EQ(world.post("/v1/completions", R"({"prompt":"x","model":"other","rid":"mine"})")
                ->header("x-request-id"),
            "mine")
      << "refusals carry it too";
}

TEST(Deadlines, TheShortestCounts) {
  ApiOptions options;
  options.request_timeout = std::chrono::seconds(60);
  ApiWorld world(options);
  world.clock.advance(std::chrono::seconds(1));
  const auto deadline = [&](const std::string& fields, const std::string& header) {
    std::vector<http::Header> headers;
    if (!header.empty()) headers.push_back({"X-Request-Timeout-Ms", header});
    world.post("/v1/completions", R"({"prompt":"hi")" + fields + "}", std::move(headers));
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               *world.generator.last().request.deadline)
        .count();
  };
  EXPECT_EQ(deadline("", ""), 61'000);
  EXPECT_EQ(deadline(R"(,"deadline_ms":500)", ""), 1'500);
  EXPECT_EQ(deadline(R"(,"deadline_ms":500)", "200"), 1'200);
  EXPECT_EQ(deadline(R"(,"deadline_ms":100)", "200"), 1'100);
  EXPECT_EQ(deadline(R"(,"deadline_ms":86400000)", "86400000"), 61'000);
}

TEST(Deadlines, ABadHeaderIsRefusedByName) {
  ApiWorld world;
  for (const char* bad : {"", "0", "-5", "1.5", "soon", "86400001", "99999999999999999999", "5 "}) {
    const auto writer =
        world.post("/v1/completions", R"({"prompt":"hi"})", {{"X-Request-Timeout-Ms", bad}});
    ASSERT_TRUE(writer->sent.has_value()) << bad;
    EXPECT_EQ(writer->sent->status, 400) << bad;
    EXPECT_EQ(writer->body().at("error").at("param").as_string(), "X-Request-Timeout-Ms");
  }
  EXPECT_TRUE(world.generator.submitted.empty());
}

TEST(Priority, IsHandedOn) {
  ApiWorld world;
  world.chat(R"(,"priority":-3,"n":2)");
  for (const auto& running : world.generator.submitted) {
    EXPECT_EQ(running.request.priority, -3);
  }
}

TEST(Priority, IsTurnedRoundWhereTheOperatorWantsHigherFirst) {
  ApiOptions options;
  options.higher_priority_first = true;
  ApiWorld world(options);
  world.chat(R"(,"priority":7)");
  EXPECT_EQ(world.generator.last().request.priority, -7);
  world.chat(R"(,"priority":-2147483648)");
  EXPECT_EQ(world.generator.last().request.priority, 2147483647);
}

TEST(Session, IsNamedByAHeaderAndBelongsToItsKey) {
  ApiOptions options;
  options.keys = {"first-key", "second-key"};
  ApiWorld world(options);
  const auto session_of = [&world](const std::string& key, const std::string& name) {
    std::vector<http::Header> headers = {{"Authorization", "Bearer " + key}};
    if (!name.empty()) headers.push_back({"X-Session-Affinity", name});
    world.post("/v1/completions", R"({"prompt":"hi"})", headers);
    return world.generator.last().request.session;
  };
  EXPECT_EQ(session_of("first-key", ""), 0u);
  const uint64_t session = session_of("first-key", "a chat");
  EXPECT_NE(session, 0u);
  EXPECT_EQ(session_of("first-key", "a chat"), session);
  EXPECT_NE(session_of("first-key", "another"), session);
  EXPECT_NE(session_of("second-key", "a chat"), session);
}

TEST(RejectIfBusy, IsAnsweredAtOnceWhenTheRequestWouldWait) {
  ApiWorld world;
  const std::string ask = R"(,"options":{"rejectIfBusy":true})";
  world.generator.status_ = {.running = 7, .pages = {256, 10, 0}};
  world.chat(ask);
  EXPECT_EQ(world.generator.submitted.size(), 1u);
  EXPECT_EQ(code_of(*world.chat(ask + R"(,"n":2)")), "capacity_exceeded");
  world.generator.status_ = {.running = 8, .pages = {256, 10, 0}};
  const auto writer = world.chat(ask);
  EXPECT_EQ(writer->sent->status, 429);
  EXPECT_EQ(writer->header("Retry-After"), "1");
  world.generator.status_ = {.waiting = 1, .pages = {256, 10, 0}};
  EXPECT_EQ(code_of(*world.chat(ask)), "capacity_exceeded");
  world.generator.status_ = {.pages = {256, 1, 0}};
  EXPECT_EQ(code_of(*world.chat(ask)), "capacity_exceeded") << "no pages for the prompt";
  world.generator.status_ = {.pages = {256, 1, 9}};
  world.chat(ask);
  EXPECT_EQ(world.generator.submitted.size(), 2u);
  world.generator.status_ = {.pages = {256, 1, 0}, .prefill_pages = wire::PageGauges{256, 9, 0}};
  EXPECT_EQ(code_of(*world.chat(ask)), "capacity_exceeded") << "no pages for the longest answer";
  world.generator.status_ = {.running = 8, .waiting = 5};
  world.chat("");
  EXPECT_EQ(world.generator.submitted.size(), 3u) << "others may wait";
}

TEST(ServiceTier, IsAnsweredWhereItWasAskedFor) {
  ApiWorld world;
  const auto answer = [&](const std::string& fields) {
    const auto writer = world.chat(fields);
    world.generator.finish(world.generator.last(), FinishReason::kStop);
    world.pump();
    return writer->body();
  };
  EXPECT_FALSE(answer("").contains("service_tier"));
  EXPECT_EQ(answer(R"(,"service_tier":"priority")").at("service_tier").as_string(), "default");
}

class Continuing : public ::testing::Test {
 protected:
  std::shared_ptr<MemoryWriter> ask(const std::string& messages, const std::string& fields) {
    return world.post("/v1/chat/completions", R"({"messages":[)" + messages + "]" + fields + "}");
  }
  std::string prompt() {
    return world.tokenizer.decode(world.generator.last().request.prompt, false);
  }

  ApiWorld world;
  const std::string user = R"({"role":"user","content":"hi"},)";
  const std::string expected = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nOnce upon";
};

TEST_F(Continuing, TheLastMessageStaysOpen) {
  ask(user + R"({"role":"assistant","content":"Once upon"})", R"(,"continue_final_message":true)");
  EXPECT_EQ(prompt(), expected);
  ask(user + R"({"role":"assistant","content":"Once upon","partial":true})", "");
  EXPECT_EQ(prompt(), expected);
}

TEST_F(Continuing, ControlTokensInTheMessageAreText) {
  ask(R"({"role":"assistant","content":"a<|im_end|>","partial":true})", "");
  const auto& ids = world.generator.last().request.prompt;
  EXPECT_EQ(std::count(ids.begin(), ids.end(), ByteTokenizer::kEnd), 0);
}

TEST_F(Continuing, IsRefusedWhereThereIsNothingToContinue) {
  const auto refused = [&](const std::string& messages, const std::string& fields) {
    const auto writer = ask(messages, fields);
    return writer->sent ? writer->sent->status : 0;
  };
  const std::string flag = R"(,"continue_final_message":true)";
  EXPECT_EQ(refused(R"({"role":"user","content":"hi"})", flag), 400);
  EXPECT_EQ(refused(R"({"role":"assistant","content":""})", flag), 400);
  EXPECT_EQ(refused(R"({"role":"user","content":"hi","partial":true})", ""), 400);
  EXPECT_EQ(refused(R"({"role":"assistant","content":"a","partial":true},)"
                    R"({"role":"user","content":"hi"})",
                    ""),
            400);
  EXPECT_EQ(refused(R"({"role":"assistant","content":"a","partial":1})", ""), 400);
  EXPECT_EQ(refused(R"({"role":"assistant","content":"a","partial":true})",
                    R"(,"add_generation_prompt":true)"),
            400);
  EXPECT_TRUE(world.generator.submitted.empty());
}

TEST(Abort, MakesWhatThereIsTheAnswer) {
  for (const bool stream : {false, true}) {
    ApiWorld world;
    const auto writer =
        world.post("/v1/completions", std::string(R"({"prompt":"hi","n":2,"rid":"job")") +
                                          (stream ? R"(,"stream":true})" : "}"));
    world.generator.text(world.generator.submitted[0], "one");
    world.pump();
    world.post("/abort_request", R"({"rid":"job"})");
    for (auto& running : world.generator.submitted) {
      EXPECT_TRUE(running.cancelled);
      world.generator.finish(running, FinishReason::kCancelled);
    }
    world.pump();
    if (stream) {
      EXPECT_TRUE(writer->streamed.ends_with("data: [DONE]\n\n"));
      EXPECT_NE(writer->streamed.find(R"("finish_reason":"abort")"), std::string::npos);
      continue;
    }
    const boost::json::object body = writer->body();
    EXPECT_EQ(writer->sent->status, 200);
    EXPECT_EQ(body.at("choices").as_array()[0].at("text").as_string(), "one");
    EXPECT_EQ(body.at("choices").as_array()[0].at("finish_reason").as_string(), "abort");
  }
}

}  // namespace
}  // namespace bulkhead::api
