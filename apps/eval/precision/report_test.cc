// Pairs, verdicts, and what is told of canned results.
#include "apps/eval/precision/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "apps/eval/precision/svg.h"

namespace bulkhead::apps::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

TEST(Pairs, AreTwoNamesEach) {
  const auto pairs = parse_pairs({"bf16/fp8kv", "fp8/int4", "bf16/int4", "fp8/int4"});
  ASSERT_TRUE(pairs.ok()) << pairs.error().message;
  ASSERT_THAT(*pairs, SizeIs(3));
  EXPECT_EQ((*pairs)[1].name(), "fp8/int4");
  EXPECT_TRUE((*pairs)[0].caches_alone());
  EXPECT_FALSE((*pairs)[1].caches_alone());
  std::vector<std::string> names;
  for (const Precision* one : needed(*pairs)) names.emplace_back(one->name);
  EXPECT_THAT(names, ElementsAre("bf16", "fp8kv", "fp8", "int4"));
}

TEST(Pairs, WhatIsNoneIsRefusedWithWhatThereIs) {
  for (const char* text : {"bf16", "bf16/", "bf16/fp4", "/", "bf16/bf16", "bf16/fp8/int4"}) {
    EXPECT_FALSE(parse_pairs({text}).ok()) << text;
  }
  EXPECT_FALSE(parse_pairs({}).ok());
  EXPECT_THAT(parse_pairs({"bf16/fp4"}).error().message,
              HasSubstr("'fp4'; there are bf16, fp8kv, fp8, int4, kimi, int4-int8"));
}

// All pairs of one comparison: right in both, before, after, neither.
Comparison comparison(uint64_t both, uint64_t lost, uint64_t gained, uint64_t neither) {
  Comparison out;
  out.task = "t";
  out.measure = "acc";
  out.pairs = {both, lost, gained, neither};
  out.interval = paired_difference(out.pairs);
  return out;
}

Standing standing(const Comparison& compared, Bound bound) {
  return judge(compared, bound).standing;
}

TEST(Verdict, OfACacheIsThatTheDifferenceIsNoise) {
  // 10,000 questions, 20 flips each way: 0 +- 0.1 points.
  EXPECT_EQ(standing(comparison(5000, 20, 20, 4960), Bound::kNoise), Standing::kHolds);
  // No flip in 100: the interval is wider than a point.
  const JudgedShare few = judge(comparison(50, 0, 0, 50), Bound::kNoise);
  EXPECT_EQ(few.standing, Standing::kUnresolved);
  EXPECT_EQ(few.text, "not resolved by 100 questions; what was seen is within the bound");
  // A point and more, that may be chance.
  EXPECT_EQ(judge(comparison(50, 2, 0, 48), Bound::kNoise).text,
            "not resolved by 100 questions; what was seen is beyond it");
  // Half a point, for certain: no noise, in either direction.
  EXPECT_EQ(standing(comparison(5000, 60, 10, 4930), Bound::kNoise), Standing::kMissed);
  EXPECT_EQ(standing(comparison(5000, 10, 60, 4930), Bound::kNoise), Standing::kMissed);
}

TEST(Verdict, OfWeightsIsThatLittleIsLost) {
  EXPECT_EQ(standing(comparison(5000, 60, 10, 4930), Bound::kFall), Standing::kHolds);
  EXPECT_EQ(standing(comparison(5000, 0, 300, 4700), Bound::kFall), Standing::kHolds);
  EXPECT_EQ(standing(comparison(5000, 300, 100, 4600), Bound::kFall), Standing::kMissed);
  // 0.7 points lost, and up to 1 by chance.
  EXPECT_EQ(standing(comparison(5000, 170, 100, 4730), Bound::kFall), Standing::kUnresolved);
  EXPECT_EQ(standing(comparison(40, 3, 1, 56), Bound::kFall), Standing::kUnresolved);
  EXPECT_EQ(standing(comparison(40, 30, 1, 29), Bound::kFall), Standing::kMissed);
}

TEST(Verdict, CallsAreNotLessValid) {
  EXPECT_EQ(judge(comparison(90, 0, 0, 10), Bound::kValidity).text, "holds");
  EXPECT_EQ(judge(comparison(90, 1, 2, 7), Bound::kValidity).text, "holds");
  EXPECT_EQ(judge(comparison(90, 2, 1, 7), Bound::kValidity).text,
            "within noise: lower, by no more than chance");
  EXPECT_EQ(judge(comparison(50, 40, 1, 9), Bound::kValidity).text, "missed");
}

TEST(Verdict, IsOfTheFirstMeasureAndOfCalls) {
  ComparedResults compared;
  for (const auto& [task, measure] :
       {std::pair("gsm8k", "exact_match_strict"), std::pair("gsm8k", "exact_match_flexible"),
        std::pair("bfcl", "acc"), std::pair("bfcl", "valid_calls")}) {
    compared.shares.push_back(comparison(5, 0, 0, 5));
    compared.shares.back().task = task;
    compared.shares.back().measure = measure;
  }
  const std::vector<JudgedShare> judged = judge(compared, false);
  ASSERT_THAT(judged, SizeIs(3));
  EXPECT_EQ(judged[0].compared.measure, "exact_match_strict");
  EXPECT_EQ(judged[1].bound, Bound::kFall);
  EXPECT_EQ(judged[2].bound, Bound::kValidity);
  EXPECT_EQ(judge(compared, true)[0].bound, Bound::kNoise);
}

// `lost` of 40 questions are wrong that others have right; calls as good as those.
PrecisionResult result_of(std::string_view name, size_t lost) {
  PrecisionResult out;
  for (const Precision& one : precisions()) {
    if (one.name == name) out.precision = &one;
  }
  TaskResult task;
  task.identity = {"conversations", "m", {{"weights", std::string(name)}}, "d"};
  for (size_t i = 0; i < 40; ++i) {
    Outcome outcome;
    outcome.id = fmt::format("conversations/set/{}", i);
    outcome.group = i % 2 == 0 ? "a<b" : "tools";
    const double right = i >= lost ? 1.0 : 0.0;
    outcome.verdict = {"", {{"acc", right}, {"valid_calls", right}}};
    task.outcomes.push_back(outcome);
  }
  out.tasks = {task};
  const Likely likely = {{1, -0.25 - 0.01 * static_cast<double>(lost)}, {2, -2.0}};
  out.likely = {"", {"weights   bf16"}, {std::vector<Likely>(kForcedTokens, likely)}};
  return out;
}

PrecisionReport report_of(size_t lost) {
  PrecisionReport report;
  report.model = "tiny";
  report.command = "bulkhead eval precision ...";
  report.drift_text = "a.txt";
  report.results = {result_of("bf16", 0), result_of("fp8kv", lost)};
  const auto pairs = parse_pairs({"bf16/fp8kv"});
  auto made = report_pair((*pairs)[0], report.results[0], report.results[1]);
  EXPECT_TRUE(made.ok());
  report.pairs.push_back(std::move(made).value());
  report.unmeasured = {"fp8/int4"};
  return report;
}

TEST(Report, TellsVerdictsFiguresDriftAndFlips) {
  const PrecisionReport report = report_of(30);
  EXPECT_TRUE(any_missed(report));
  EXPECT_FALSE(any_missed(report_of(0)));
  const std::string text = precision_text(report);
  EXPECT_THAT(text, HasSubstr("| bf16/fp8kv | conversations acc | 40 | 100.00 % | 25.00 % | "
                              "-75.00 |"));
  EXPECT_THAT(text, HasSubstr("| 30 / 0 |"));
  EXPECT_THAT(text, HasSubstr("| missed |"));
  EXPECT_THAT(text, HasSubstr("| conversations acc | 40 | 100.00 % (91.24 to 100.00) | 25.00 % ("));
  EXPECT_THAT(text, HasSubstr("| conversations/tools acc | 20 |"));
  EXPECT_THAT(text, HasSubstr("| 448 to 511 | 64 | "));
  EXPECT_THAT(text, HasSubstr("fp8/int4 is not measured yet"));
  EXPECT_THAT(text, HasSubstr("lower bound"));
}

TEST(Report, InJsonNamesTheFlips) {
  const boost::json::value value = boost::json::parse(precision_json(report_of(2)));
  const auto& pair = value.at("pairs").at(0);
  EXPECT_EQ(pair.at("drift").as_array().size(), kDriftBuckets);
  EXPECT_GT(pair.at("drift").at(0).at("kl_at_least").as_double(), 0.0);
  EXPECT_EQ(pair.at("compared").at("shares").at(0).at("lost").at(1).as_string(),
            "conversations/set/1");
  EXPECT_EQ(value.at("precisions").at(1).at("cache").as_string(), "fp8_e4m3");
}

TEST(Report, OtherWindowsAreNotCompared) {
  PrecisionResult longer = result_of("fp8kv", 0);
  longer.likely.windows.push_back(longer.likely.windows[0]);
  const auto pairs = parse_pairs({"bf16/fp8kv"});
  const auto made = report_pair((*pairs)[0], result_of("bf16", 0), longer);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, HasSubstr("bf16/fp8kv: 1 stretches of text against 2"));
}

// Every element that begins ends, in order; what is no markup holds none.
bool well_formed(std::string_view text) {
  std::vector<std::string> open;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '&' && text.substr(at, 4) != "&lt;" && text.substr(at, 4) != "&gt;" &&
        text.substr(at, 5) != "&amp;") {
      return false;
    }
    if (text[at] == '>') return false;
    if (text[at] != '<') continue;
    const size_t end = text.find('>', at);
    if (end == std::string_view::npos) return false;
    const std::string_view tag = text.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string_view::npos) return false;
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.emplace_back(tag.substr(0, tag.find(' ')));
    }
    at = end;
  }
  return open.empty();
}

TEST(Svg, IsWellFormedWhateverNamesHold) {
  const std::string svg = draw({{"a < b & c > d",
                                 "x",
                                 "y",
                                 {{"s&", {{0, 1, 0.5, 1.5}}}, {"t", {}}},
                                 {"one two", "<three>"},
                                 true},
                                {"none", "", "", {}, {}, false}});
  EXPECT_TRUE(well_formed(svg)) << svg;
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c &gt; d"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(Svg, DrawsAPointForEachBucketAndPrecision) {
  const auto pictures = precision_pictures(report_of(3));
  ASSERT_THAT(pictures, SizeIs(2));
  EXPECT_EQ(pictures[0].first, "accuracy.svg");
  EXPECT_EQ(pictures[1].first, "drift-bf16-fp8kv.svg");
  const auto circles = [](const std::string& svg) {
    size_t count = 0;
    for (size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1))
      ++count;
    return count;
  };
  EXPECT_EQ(circles(pictures[0].second), 4u);  // two measures in two precisions
  EXPECT_EQ(circles(pictures[1].second), 2 * kDriftBuckets);
  for (const auto& [name, svg] : pictures) EXPECT_TRUE(well_formed(svg)) << name;
}

}  // namespace
}  // namespace bulkhead::apps::eval
