#include "apps/bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace bulkhead::apps {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;
using ::testing::Not;

RequestRecord success(double ttft_s, double tpot_s, double e2e_s) {
  RequestRecord record;
  record.ttft_s = ttft_s;
  record.tpot_s = tpot_s;
  record.e2e_s = e2e_s;
  record.itl_s = {tpot_s, tpot_s};
  record.input_tokens = 10;
  record.output_tokens = record.asked_tokens = 3;
  record.cached_tokens = 8;
  record.usage = true;
  record.finish_reason = "length";
  return record;
}

RequestRecord failure(const std::string& kind) {
  RequestRecord record = success(100, 100, 100);
  record.failure = kind;
  record.failure_text = "why";
  return record;
}

BenchReport report_of(const std::vector<RequestRecord>& records, std::string_view goodput = "") {
  LoadResult result;
  result.records = records;
  result.duration_s = 2.0;
  result.client_cpu_s = 0.5;
  return make_report({}, "m", parse_goodput(goodput).value(), result);
}

TEST(Goodput, BoundsAreReadInAnyOrderAndNumber) {
  EXPECT_FALSE(parse_goodput("").value().any());
  const GoodputBounds bounds = parse_goodput("e2e:5000,ttft:12.5").value();
  EXPECT_EQ(bounds.ttft_ms, 12.5);
  EXPECT_EQ(bounds.e2e_ms, 5000.0);
  EXPECT_FALSE(bounds.tpot_ms.has_value());
  EXPECT_FALSE(bounds.itl_ms.has_value());
  EXPECT_EQ(parse_goodput("itl:7").value().itl_ms, 7.0);
  EXPECT_EQ(parse_goodput("e2el:9").value().e2e_ms, 9.0) << "as vLLM's bench calls it";
}

TEST(Goodput, NonsenseIsRefused) {
  for (const char* text :
       {"ttft", "ttft:", "ttft:x", "ttft:0", "ttft:-1", "ttft:nan", "gap:5", "ttft:1,", ",",
        "ttft:1,ttft:2", "e2e:1,e2el:2", "ttft:1 ", "ttft:1;e2e:2"}) {
    EXPECT_FALSE(parse_goodput(text).ok()) << text;
  }
}

TEST(Goodput, AnAnswerIsGoodWhenEveryBoundHoldsAndItIsComplete) {
  const GoodputBounds bounds = parse_goodput("ttft:200,tpot:50,e2e:1000").value();
  EXPECT_TRUE(is_good(success(0.2, 0.05, 1.0), bounds));
  EXPECT_FALSE(is_good(success(0.2001, 0.05, 1.0), bounds));
  EXPECT_FALSE(is_good(success(0.2, 0.0501, 1.0), bounds));
  EXPECT_FALSE(is_good(success(0.2, 0.05, 1.0001), bounds));
  RequestRecord failed = success(0.1, 0.01, 0.5);
  failed.failure = "http_500";
  EXPECT_FALSE(is_good(failed, bounds));
}

TEST(Goodput, OneGapBeyondTheBoundSpoilsAnAnswer) {
  const GoodputBounds bounds = parse_goodput("itl:50").value();
  RequestRecord record = success(0.2, 0.05, 1.0);
  EXPECT_TRUE(is_good(record, bounds));
  record.itl_s = {0.01, 0.051, 0.01};
  EXPECT_FALSE(is_good(record, bounds));
  record.itl_s.clear();
  EXPECT_TRUE(is_good(record, bounds)) << "one token has no gap";
}

TEST(Report, FailuresCountNowhereElse) {
  const BenchReport report =
      report_of({success(0.1, 0.01, 0.5), failure("http_429"), failure("http_429"),
                 failure("timeout"), success(0.3, 0.03, 0.7)},
                "ttft:200");
  EXPECT_EQ(report.completed, 2u);
  EXPECT_EQ(report.failed(), 3u);
  EXPECT_EQ(report.failures.at("http_429"), 2u);
  EXPECT_EQ(report.failures.at("timeout"), 1u);
  EXPECT_EQ(report.input_tokens, 20);
  EXPECT_EQ(report.output_tokens, 6);
  EXPECT_EQ(report.cached_tokens, 16);
  EXPECT_DOUBLE_EQ(report.requests_per_s, 1.0);
  EXPECT_DOUBLE_EQ(report.output_per_s, 3.0);
  EXPECT_EQ(report.ttft_ms.count, 2u);
  EXPECT_DOUBLE_EQ(report.ttft_ms.max, 300.0);
  EXPECT_EQ(report.itl_ms.count, 4u);
  EXPECT_EQ(report.good, 1u);
  EXPECT_DOUBLE_EQ(report.good_per_s, 0.5);
}

TEST(Report, AnswersOfAnotherLengthAreNoted) {
  RequestRecord cut = success(0.1, 0.01, 0.5);
  cut.asked_tokens = 64;
  EXPECT_EQ(report_of({cut, success(0.1, 0.01, 0.5)}).short_answers, 1u);
}

TEST(Report, ASingleTokenHasNoTimePerOutputToken) {
  RequestRecord record = success(0.1, 0.0, 0.1);
  record.output_tokens = 1;
  record.itl_s.clear();
  const BenchReport report = report_of({record});
  EXPECT_EQ(report.tpot_ms.count, 0u);
  EXPECT_EQ(report.ttft_ms.count, 1u);
}

TEST(Report, TheTableHasTheLinesThatScriptsLookFor) {
  const BenchReport report = report_of({success(0.1, 0.01, 0.5), failure("timeout")}, "e2e:600");
  const std::string text = report_text({}, report);
  for (const char* expected :
       {"Successful requests:                        1\n",
        "Failed requests:                            1\n",
        "Benchmark duration (s):                     2.00\n",
        "Output token throughput (tok/s):", "Mean TTFT (ms):                             100.00\n",
        "Median TPOT (ms):", "P99 ITL (ms):", "Max E2EL (ms):",
        "goodput: 1 of 2 requests within e2e <= 600 ms", "failed: 1 x timeout: why"}) {
    EXPECT_THAT(text, HasSubstr(expected));
  }
  EXPECT_THAT(text, Not(HasSubstr("note:")));
}

TEST(Report, TheJsonHoldsEverything) {
  LoadResult result;
  result.records = {success(0.1, 0.01, 0.5), failure("timeout")};
  result.duration_s = 2.0;
  BenchServeOptions options;
  options.rate = 2.5;
  const BenchReport report =
      make_report(options, "the \"model\"", parse_goodput("ttft:200").value(), result);
  const json::value value = json::parse(report_json(options, report, result));
  EXPECT_EQ(value.at("model").as_string(), "the \"model\"");
  EXPECT_EQ(value.at("options").at("rate").as_double(), 2.5);
  EXPECT_EQ(value.at("completed").as_int64(), 1);
  EXPECT_EQ(value.at("failed").as_int64(), 1);
  EXPECT_EQ(value.at("failures").at("timeout").as_int64(), 1);
  for (const char* name : {"ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"}) {
    for (const char* figure : {"count", "mean", "p50", "p90", "p95", "p99", "max"}) {
      EXPECT_TRUE(value.at(name).as_object().contains(figure)) << name << figure;
    }
  }
  EXPECT_EQ(value.at("bench").as_string(), "serve");
  EXPECT_FALSE(value.as_object().contains("replay"));
  EXPECT_EQ(value.at("goodput").at("good").as_int64(), 1);
  EXPECT_EQ(value.at("goodput").at("share").as_double(), 0.5);
  const json::array& requests = value.at("requests").as_array();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_TRUE(requests[0].at("failure").is_null());
  EXPECT_EQ(requests[0].at("itl_s").as_array().size(), 2u);
  EXPECT_EQ(requests[1].at("failure").as_string(), "timeout");
}

LoadResult three_requests() {
  LoadResult result;
  result.records = {success(0.1, 0.01, 0.5), failure("timeout"), success(0.1, 0.01, 0.5)};
  result.duration_s = 2.0;
  result.open_max = 1;
  return result;
}

ReplayFacts facts_of_three() {
  ReplayFacts facts;
  facts.trace = "t.jsonl";
  facts.kind = "mooncake";
  facts.cache = CacheShape{.pages = 20, .page_tokens = 16};
  facts.simulated = {0, 16, 16};
  return facts;
}

TEST(Report, AReplayHoldsWhatWasFoundAgainstWhatWasToBeFound) {
  const LoadResult result = three_requests();
  BenchReport report = make_report({}, "m", {}, result);
  add_replay(facts_of_three(), result, report);
  EXPECT_EQ(report.cached_tokens, 16);
  EXPECT_EQ(report.simulated_cached_tokens, 16) << "of a request that failed nothing counts";
  EXPECT_DOUBLE_EQ(report.cached_share(), 0.8);
  EXPECT_DOUBLE_EQ(report.simulated_share(), 0.8);
  const std::string text = report_text({}, report);
  EXPECT_THAT(text, HasSubstr("prefix hits: 80.00 % of the prompt tokens (16 of 20)"));
  EXPECT_THAT(text, HasSubstr("simulated:   80.00 % (16), 20 pages of 16 tokens"));
  EXPECT_THAT(text, HasSubstr("longest unused first: equal\n"));
  EXPECT_THAT(text, Not(HasSubstr("beside each other")));
  const json::value value = json::parse(report_json({}, report, result));
  EXPECT_EQ(value.at("bench").as_string(), "replay");
  const json::value& simulated = value.at("replay").at("simulated");
  EXPECT_EQ(simulated.at("cached_tokens").as_int64(), 16);
  EXPECT_EQ(simulated.at("cached_tokens_of_requests").as_array().size(), 3u);
  EXPECT_TRUE(value.at("replay").at("one_at_a_time").as_bool());
}

TEST(Report, AReplayThatOverlappedSaysWhatTheSimulationIsOf) {
  LoadResult result = three_requests();
  result.open_max = 2;
  BenchReport report = make_report({}, "m", {}, result);
  ReplayFacts facts = facts_of_three();
  facts.simulated = {0, 0, 0};
  facts.flushed = true;
  add_replay(facts, result, report);
  const std::string text = report_text({}, report);
  EXPECT_THAT(text, HasSubstr("longest unused first: not equal\n"));
  EXPECT_THAT(text, HasSubstr("requests ran beside each other"));
  EXPECT_THAT(text, Not(HasSubstr("--flush-cache")));
}

TEST(Report, AReplayWithoutASimulationSaysWhy) {
  const LoadResult result = three_requests();
  BenchReport report = make_report({}, "m", {}, result);
  ReplayFacts facts = facts_of_three();
  facts.cache.reset();
  facts.simulated.clear();
  facts.not_simulated = "the server does not say";
  add_replay(facts, result, report);
  EXPECT_THAT(report_text({}, report), HasSubstr("no simulated figure: the server does not say"));
  const json::value value = json::parse(report_json({}, report, result));
  EXPECT_TRUE(value.at("replay").at("simulated").is_null());
  EXPECT_EQ(value.at("replay").at("not_simulated").as_string(), "the server does not say");
}

TEST(Report, ARunWithoutAnySuccessIsStillAReport) {
  const BenchReport report = report_of({failure("connect")});
  EXPECT_EQ(report.completed, 0u);
  EXPECT_THAT(report_text({}, report), HasSubstr("Failed requests:                            1"));
}

}  // namespace
}  // namespace bulkhead::apps
