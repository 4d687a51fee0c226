#include "apps/bench/load_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/test_server.h"

namespace bulkhead::apps {
namespace {

using http::Request;
using http::ResponseWriter;
using http::testing_support::TestServer;
using ::testing::HasSubstr;

// Says `page` at `path`, and 404 elsewhere.
class Told {
 public:
  Told(std::string path, std::string page)
      : path_(std::move(path)),
        page_(std::move(page)),
        server_([this](Request request, std::shared_ptr<ResponseWriter> writer) {
          http::Response response;
          response.status = request.path == path_ ? 200 : 404;
          response.body = request.path == path_ ? page_ : "{}";
          writer->send(std::move(response));
        }),
        client_("127.0.0.1", server_.port(), std::chrono::seconds(60)) {}

  http::Client& client() { return client_; }

 private:
  const std::string path_;
  const std::string page_;
  TestServer server_;
  http::Client client_;
};

TEST(LoadSession, TheFirstListedModelIsAskedUnlessOneIsNamed) {
  Told server("/v1/models",
              R"({"data":[{"id":"a","owned_by":"bulkhead","max_model_len":4096,
                             "meta":{"n_vocab":768}},{"id":"b"}]})");
  const Target first = ask_models(server.client(), {}).value();
  EXPECT_EQ(first.model, "a");
  EXPECT_EQ(first.owner, "bulkhead");
  EXPECT_EQ(first.vocabulary, 768);
  EXPECT_EQ(first.context_tokens, 4096);
  BenchServeOptions options;
  options.model = "b";
  const Target second = ask_models(server.client(), options).value();
  EXPECT_EQ(second.model, "b");
  EXPECT_EQ(second.vocabulary, 10'000) << "an assumption";
  EXPECT_EQ(second.context_tokens, 0);
  options.vocabulary = 77;
  EXPECT_EQ(ask_models(server.client(), options).value().vocabulary, 77);
}

TEST(LoadSession, AServerThatListsNothingIsToldApart) {
  for (const char* page : {R"({"data":[]})", R"({"data":[{"id":5}]})", "[]", "{", "{}"}) {
    Told server("/v1/models", page);
    EXPECT_FALSE(ask_models(server.client(), {}).ok()) << page;
  }
  Told silent("", "");
  const base::Result<Target> refused = ask_models(silent.client(), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("/v1/models answered 404"));
}

TEST(LoadSession, TheCacheIsTheOneThatPromptsAreFoundIn) {
  Told shared("/get_server_info",
              R"({"isa":"avx2","placement":"shared","page_size":16,"max_total_num_tokens":640})");
  const ServerFacts facts = ask_server(shared.client(), {});
  EXPECT_EQ(facts.isa, "avx2");
  EXPECT_EQ(facts.cache, (CacheShape{.pages = 40, .page_tokens = 16, .keeps_answers = true}));
  Told split("/get_server_info",
             R"({"placement":"split","page_size":64,"max_total_num_tokens":640,
                   "pools":{"prefill":{"max_total_num_tokens":128}}})");
  EXPECT_EQ(ask_server(split.client(), {}).cache,
            (CacheShape{.pages = 2, .page_tokens = 64, .keeps_answers = false}));
}

TEST(LoadSession, WhatAServerDoesNotSayIsNotKnown) {
  for (const char* page : {"{}", "[]", "{", R"({"page_size":16})", R"({"page_size":"16"})",
                           R"({"placement":"remote","page_size":16,"max_total_num_tokens":640})",
                           R"({"page_size":-16,"max_total_num_tokens":640})"}) {
    Told server("/get_server_info", page);
    EXPECT_FALSE(ask_server(server.client(), {}).cache.has_value()) << page;
  }
  Told silent("", "");
  EXPECT_FALSE(ask_server(silent.client(), {}).cache.has_value());
}

TEST(LoadSession, AServerThatKeepsItsCacheIsAnError) {
  Told server("/flush_cache", "{}");
  EXPECT_TRUE(flush_cache(server.client(), {}).ok());
  Told silent("", "");
  const base::Status refused = flush_cache(silent.client(), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, base::ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace bulkhead::apps
