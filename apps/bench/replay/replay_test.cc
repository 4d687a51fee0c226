#include "apps/bench/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <sstream>

namespace bulkhead::apps {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr CacheShape kCache = {.pages = 64, .page_tokens = 16};

// Three requests, of which the last goes on where the first ended.
Trace conversation() {
  std::istringstream in(
      R"({"timestamp": 0, "input_length": 1000, "output_length": 64, "hash_ids": [0, 1]})"
      "\n"
      R"({"timestamp": 500, "input_length": 600, "output_length": 64, "hash_ids": [2, 3]})"
      "\n"
      R"({"timestamp": 3000, "input_length": 1500, "output_length": 64, "hash_ids": [0, 5, 6]})");
  return read_trace(in, "t", 0, 100).value();
}

BenchReplayOptions options_of(double length_scale = 8.0) {
  BenchReplayOptions options;
  options.trace = "t";
  options.length_scale = length_scale;
  return options;
}

Target target_of(int64_t context_tokens = 0) {
  Target target;
  target.model = "m";
  target.context_tokens = context_tokens;
  return target;
}

int64_t tokens_in(const BenchRequest& request) {
  const json::value body = json::parse(request.body);
  EXPECT_EQ(body.at("model").as_string(), "m");
  EXPECT_TRUE(body.at("stream").as_bool());
  EXPECT_TRUE(body.at("ignore_eos").as_bool());
  EXPECT_EQ(body.at("max_tokens").as_int64(), request.output_tokens);
  return static_cast<int64_t>(body.at("prompt").as_array().size());
}

TEST(Replay, RowsBecomeRequestsAtTheirTimes) {
  BenchReplayOptions options = options_of();
  options.time_scale = 2.0;
  const Replay replay = make_replay(options, conversation(), target_of(), kCache).value();
  ASSERT_EQ(replay.workload.requests.size(), 3u);
  EXPECT_THAT(replay.arrivals_s, ElementsAre(0.0, 0.25, 1.5));
  EXPECT_EQ(tokens_in(replay.workload.requests[0]), 125);
  EXPECT_EQ(tokens_in(replay.workload.requests[2]), 188);
  EXPECT_EQ(replay.workload.requests[0].input_tokens, 125);
  EXPECT_EQ(replay.workload.requests[0].output_tokens, 8);
  EXPECT_EQ(replay.workload.warmup.size(), 1u);
  EXPECT_EQ(replay.facts.block_tokens, 64);
  EXPECT_EQ(replay.facts.kind, "mooncake");
  EXPECT_THAT(replay.facts.simulated, ElementsAre(0, 0, 64));
}

TEST(Replay, AClosedLoopHasNoTimes) {
  BenchReplayOptions options = options_of();
  options.closed_loop = true;
  const Replay replay = make_replay(options, conversation(), target_of(), kCache).value();
  EXPECT_THAT(replay.arrivals_s, IsEmpty());
  EXPECT_TRUE(replay.facts.closed_loop);
}

TEST(Replay, ARowBeyondTheContextSaysWhichScaleWouldDo) {
  EXPECT_TRUE(make_replay(options_of(), conversation(), target_of(196), kCache).ok());
  const auto refused = make_replay(options_of(), conversation(), target_of(195), kCache);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message,
              HasSubstr("t line 3: 196 tokens do not fit the server's context of 195: try "
                        "--length-scale 9"));
}

TEST(Replay, MorePromptTokensThanAreMadeAreRefusedBeforeAnyIs) {
  Trace trace;
  TraceRow row;
  row.line = 7;
  row.input_tokens = kTraceTokensMax;
  trace.rows.assign(5, row);
  const auto refused = make_replay(options_of(1.0), trace, target_of(), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("t line 7: more than 67108864 prompt tokens"));
}

TEST(Replay, WithoutACacheNothingIsSimulated) {
  const Replay replay = make_replay(options_of(), conversation(), target_of(), {}).value();
  EXPECT_THAT(replay.facts.simulated, IsEmpty());
  EXPECT_FALSE(replay.facts.cache.has_value());
  EXPECT_THAT(replay.facts.not_simulated, HasSubstr("--cache-pages"));
  const CacheShape pages_of_one = {.pages = 5000, .page_tokens = 1};
  const Replay other = make_replay(options_of(), conversation(), target_of(), pages_of_one).value();
  EXPECT_THAT(other.facts.not_simulated, HasSubstr("is not simulated"));
}

TEST(Replay, TheOptionsCacheGoesBeforeTheServers) {
  ServerFacts server;
  EXPECT_FALSE(cache_shape({}, server).has_value());
  server.cache = CacheShape{.pages = 9, .page_tokens = 64, .keeps_answers = false};
  EXPECT_EQ(cache_shape({}, server), server.cache);
  BenchReplayOptions options;
  options.cache_pages = 5;
  options.page_tokens = 32;
  EXPECT_EQ(cache_shape(options, server),
            (CacheShape{.pages = 5, .page_tokens = 32, .keeps_answers = false}));
  EXPECT_TRUE(cache_shape(options, {})->keeps_answers);
}

TEST(Replay, WarmUpRequestsShareNothingAndNeitherTheyNorAFlushChangeWhatIsFound) {
  BenchReplayOptions options = options_of();
  options.load.warmup = 3;
  const CacheShape small = {.pages = 24, .page_tokens = 16};
  const Replay kept = make_replay(options, conversation(), target_of(), small).value();
  ASSERT_EQ(kept.workload.warmup.size(), 3u);
  EXPECT_NE(kept.workload.warmup[0].body, kept.workload.warmup[1].body);
  EXPECT_THAT(kept.facts.simulated, ElementsAre(0, 0, 64));
  options.flush_cache = true;
  const Replay flushed = make_replay(options, conversation(), target_of(), small).value();
  EXPECT_THAT(flushed.facts.simulated, ElementsAre(0, 0, 64));
  EXPECT_TRUE(flushed.facts.flushed);
  EXPECT_FALSE(kept.facts.flushed);
}

}  // namespace
}  // namespace bulkhead::apps
