#include "apps/bench/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

namespace bulkhead::apps {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

std::vector<int64_t> tokens_of(const BenchRequest& request) {
  std::vector<int64_t> tokens;
  const json::value body = json::parse(request.body);
  for (const json::value& token : body.at("prompt").as_array()) tokens.push_back(token.as_int64());
  return tokens;
}

Workload made(const BenchServeOptions& options, int64_t vocabulary = 49152) {
  return make_workload(options, "m", vocabulary).value();
}

// A file that is gone after the test.
class Dataset {
 public:
  explicit Dataset(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("bulkhead-workload-" + std::to_string(getpid()) + ".jsonl")) {
    std::ofstream(path_) << text;
  }
  ~Dataset() { std::filesystem::remove(path_); }
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(Workload, RandomPromptsHaveTheAskedLengthsAndFields) {
  BenchServeOptions options;
  options.requests = 3;
  options.input_tokens = 17;
  options.output_tokens = 5;
  const Workload workload = made(options);
  ASSERT_EQ(workload.requests.size(), 3u);
  ASSERT_EQ(workload.warmup.size(), 1u);
  for (const BenchRequest& request : workload.requests) {
    EXPECT_EQ(request.target, "/v1/completions");
    EXPECT_EQ(request.input_tokens, 17);
    EXPECT_EQ(request.output_tokens, 5);
    EXPECT_EQ(tokens_of(request).size(), 17u);
    const json::value body = json::parse(request.body);
    EXPECT_EQ(body.at("model").as_string(), "m");
    EXPECT_EQ(body.at("max_tokens").as_int64(), 5);
    EXPECT_TRUE(body.at("stream").as_bool());
    EXPECT_TRUE(body.at("ignore_eos").as_bool());
    EXPECT_TRUE(body.at("stream_options").at("include_usage").as_bool());
  }
}

TEST(Workload, TheSeedDecidesAndPromptsDiffer) {
  BenchServeOptions options;
  options.requests = 4;
  const Workload first = made(options);
  EXPECT_EQ(first.requests[2].body, made(options).requests[2].body);
  EXPECT_NE(first.requests[0].body, first.requests[1].body);
  EXPECT_NE(first.warmup[0].body, first.requests[0].body);
  options.seed = 2;
  EXPECT_NE(first.requests[2].body, made(options).requests[2].body);
}

TEST(Workload, TokensStayInsideTheVocabulary) {
  BenchServeOptions options;
  options.requests = 20;
  for (const int64_t vocabulary : {1, 8, 1000}) {
    for (const BenchRequest& request : made(options, vocabulary).requests) {
      for (const int64_t token : tokens_of(request)) {
        EXPECT_GE(token, 0);
        EXPECT_LT(token, vocabulary);
      }
    }
  }
}

TEST(Workload, LengthsSpreadByTheRatioAroundTheirMean) {
  BenchServeOptions options;
  options.requests = 400;
  options.input_tokens = 100;
  options.output_tokens = 40;
  options.range_ratio = 0.5;
  int64_t least = 1000, most = 0, total = 0;
  for (const BenchRequest& request : made(options).requests) {
    least = std::min(least, request.input_tokens);
    most = std::max(most, request.input_tokens);
    total += request.input_tokens;
    EXPECT_GE(request.output_tokens, 20);
    EXPECT_LE(request.output_tokens, 60);
  }
  EXPECT_GE(least, 50);
  EXPECT_LT(least, 60);
  EXPECT_LE(most, 150);
  EXPECT_GT(most, 140);
  EXPECT_NEAR(static_cast<double>(total) / 400.0, 100.0, 6.0);
}

TEST(Workload, RequestsOfOneGroupShareTheirPrefixAndNothingElse) {
  BenchServeOptions options;
  options.requests = 4;
  options.input_tokens = 8;
  options.prefix_tokens = 32;
  options.prefix_groups = 2;
  std::vector<std::vector<int64_t>> prompts;
  for (const BenchRequest& request : made(options).requests) {
    EXPECT_EQ(request.input_tokens, 40);
    prompts.push_back(tokens_of(request));
  }
  const auto shared = [&](size_t a, size_t b) {
    return std::mismatch(prompts[a].begin(), prompts[a].end(), prompts[b].begin()).first -
           prompts[a].begin();
  };
  EXPECT_EQ(shared(0, 2), 32);
  EXPECT_EQ(shared(1, 3), 32);
  EXPECT_LT(shared(0, 1), 4);
}

TEST(Workload, AFileGivesPromptsAndChatsInTurn) {
  const Dataset file(
      "{\"prompt\": \"Once \\u00e9\", \"max_tokens\": 7}\n\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n"
      "{\"prompt\": [1, 2, 3]}\n");
  BenchServeOptions options;
  options.dataset = file.path();
  options.requests = 4;
  options.output_tokens = 9;
  const std::vector<BenchRequest> requests = made(options).requests;
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(json::parse(requests[0].body).at("prompt").as_string(), "Once é");
  EXPECT_EQ(requests[0].output_tokens, 7);
  EXPECT_EQ(requests[1].target, "/v1/chat/completions");
  EXPECT_EQ(json::parse(requests[1].body).at("max_completion_tokens").as_int64(), 9);
  EXPECT_EQ(requests[2].input_tokens, 3);
  EXPECT_EQ(requests[3].body, requests[0].body);
}

TEST(Workload, TheChatEndpointWrapsAPrompt) {
  const Dataset file("{\"prompt\": \"hi\"}\n");
  BenchServeOptions options;
  options.dataset = file.path();
  options.endpoint = BenchEndpoint::kChat;
  const BenchRequest request = made(options).requests[0];
  EXPECT_EQ(request.target, "/v1/chat/completions");
  const json::value message = json::parse(request.body).at("messages").at(0);
  EXPECT_EQ(message.at("role").as_string(), "user");
  EXPECT_EQ(message.at("content").as_string(), "hi");
}

TEST(Workload, AWrongLineIsNamed) {
  for (const char* line :
       {"not json", "[1]", "{}", "{\"prompt\": 3}", "{\"prompt\": \"a\", \"messages\": []}",
        "{\"messages\": \"hi\"}", "{\"prompt\": \"a\", \"max_tokens\": 0}"}) {
    const Dataset file(std::string("{\"prompt\": \"fine\"}\n") + line + "\n");
    BenchServeOptions options;
    options.dataset = file.path();
    const auto workload = make_workload(options, "m", 1000);
    ASSERT_FALSE(workload.ok()) << line;
    EXPECT_THAT(workload.error().message, HasSubstr("line 2")) << line;
  }
}

TEST(Workload, OptionsThatContradictEachOtherAreRefused) {
  BenchServeOptions options;
  options.endpoint = BenchEndpoint::kChat;
  EXPECT_FALSE(make_workload(options, "m", 1000).ok());
  options.dataset = "/nowhere/at/all.jsonl";
  EXPECT_FALSE(make_workload(options, "m", 1000).ok());
}

}  // namespace
}  // namespace bulkhead::apps
