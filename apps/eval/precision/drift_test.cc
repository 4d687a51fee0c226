// Divergences from the likely tokens alone, against whole distributions; and their file.
#include "apps/eval/precision/drift.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "apps/drill/json_members.h"

namespace bulkhead::apps::eval {
namespace {

namespace json = boost::json;
using ::testing::SizeIs;

// The tokens of these ids, with the probabilities of a whole distribution.
Likely likely(const std::vector<double>& all, const std::vector<int64_t>& ids) {
  Likely out;
  for (const int64_t id : ids) out.push_back({id, std::log(all[static_cast<size_t>(id)])});
  return out;
}

double exact(const std::vector<double>& p, const std::vector<double>& q) {
  double sum = 0.0;
  for (size_t i = 0; i < p.size(); ++i) sum += p[i] * std::log(p[i] / q[i]);
  return sum;
}

const std::vector<double> kBefore = {0.5, 0.2, 0.15, 0.1, 0.05};
const std::vector<double> kAfter = {0.4, 0.3, 0.05, 0.05, 0.2};

TEST(Divergence, OfAllTokensIsTheExactOne) {
  const std::vector<int64_t> all = {0, 1, 2, 3, 4};
  EXPECT_NEAR(divergence_bound(likely(kBefore, all), likely(kAfter, all)), exact(kBefore, kAfter),
              1e-12);
  EXPECT_EQ(divergence_bound(likely(kBefore, all), likely(kBefore, all)), 0.0);
}

TEST(Divergence, OfTheLikeliestIsThatOfCoarserOutcomes) {
  // Both name 0 and 1; 2 and 4 stand in one list each and count among the rest.
  const double bound = divergence_bound(likely(kBefore, {0, 1, 2}), likely(kAfter, {0, 1, 4}));
  EXPECT_NEAR(bound, exact({0.5, 0.2, 0.3}, {0.4, 0.3, 0.3}), 1e-12);
  EXPECT_LT(bound, exact(kBefore, kAfter));
  EXPECT_GT(bound, 0.0);
  // More tokens are never a smaller bound.
  EXPECT_GE(divergence_bound(likely(kBefore, {0, 1, 2, 3}), likely(kAfter, {0, 1, 2, 3})), bound);
  // Nothing in common: nothing is known.
  EXPECT_EQ(divergence_bound(likely(kBefore, {0}), likely(kAfter, {1})), 0.0);
}

TEST(Divergence, ARestThatIsRoundingIsNoOutcome) {
  const std::vector<double> before = {0.7, 0.3 - 1e-9, 1e-9}, after = {0.6, 0.4 - 1e-8, 1e-8};
  EXPECT_NEAR(divergence_bound(likely(before, {0, 1}), likely(after, {0, 1})),
              exact({0.7, 0.3}, {0.6, 0.4}), 1e-7);
  // Sums beyond 1, as floats have them.
  EXPECT_NEAR(divergence_bound({{0, std::log(0.7)}, {1, std::log(0.3000001)}},
                               {{0, std::log(0.6)}, {1, std::log(0.4)}}),
              exact({0.7, 0.3}, {0.6, 0.4}), 1e-6);
}

// A window whose every position is this.
std::vector<Likely> window(const Likely& one) { return std::vector<Likely>(kForcedTokens, one); }

TEST(Drift, IsToldByBucketOverAllWindows) {
  const Likely before = likely(kBefore, {0, 1, 2}), after = likely(kAfter, {0, 1, 2});
  Likely other = after;
  std::swap(other[0].id, other[1].id);
  LikelySample from{"", {}, {window(before), window(before)}};
  LikelySample to{"", {}, {window(after), window(before)}};
  to.windows[1][70] = other;
  const std::vector<DriftBucket> buckets = drift_between(from, to);
  ASSERT_THAT(buckets, SizeIs(kDriftBuckets));
  const double bound = divergence_bound(before, after);
  EXPECT_EQ(buckets[0].positions, 2 * kDriftBucket);
  EXPECT_NEAR(buckets[0].divergence, bound / 2, 1e-12);
  EXPECT_NEAR(buckets[0].divergence_error, bound / 2, 1e-12);  // windows of `bound` and of 0
  EXPECT_EQ(buckets[0].same_first, 2 * kDriftBucket);
  EXPECT_NEAR(buckets[0].named, 0.85, 1e-12);
  EXPECT_EQ(buckets[1].same_first, 2 * kDriftBucket - 1);
  EXPECT_GT(buckets[1].divergence, bound / 2);
  EXPECT_EQ(buckets[2].same_first, 2 * kDriftBucket);
}

std::string tops_of(size_t count) {
  std::string tops = "null";
  for (size_t i = 1; i < count; ++i) {
    tops += fmt::format(R"(,{{"token_id:{}":-1.5,"token_id:7":-0.5}})", 100 + i);
  }
  return R"({"logprobs":{"top_logprobs":[)" + tops + "]}}";
}

TEST(Drift, AWindowIsReadFromAnEchoedPrompt) {
  const auto read = window_of(json::parse(tops_of(kForcedTokens + 2)));
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_THAT(*read, SizeIs(kForcedTokens));
  EXPECT_EQ((*read)[0][0].id, 7);
  EXPECT_EQ((*read)[0][1].id, 101);
  EXPECT_EQ((*read)[kForcedTokens - 1][1].id, 100 + static_cast<int64_t>(kForcedTokens));
  EXPECT_FALSE(window_of(json::parse(tops_of(kForcedTokens))).ok());
  std::string text = tops_of(kForcedTokens + 1);
  text.replace(text.find("token_id:7"), 10, "seven");
  EXPECT_FALSE(window_of(json::parse(text)).ok());
}

TEST(Drift, ASampleReadsBackAndADamagedOneDoesNot) {
  const LikelySample sample{"text a", {"weights bf16"}, {window({{7, -0.5}, {1000000, -12.25}})}};
  const std::string text = likely_json(sample);
  const auto read = read_likely(text);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(likely_json(*read), text);
  EXPECT_FALSE(read_likely(text.substr(0, text.size() / 2)).ok());
  EXPECT_FALSE(read_likely(R"({"bulkhead_likely":1,"windows":[[[1]]]})").ok());
  EXPECT_FALSE(read_likely(R"({"bulkhead_likely":1,"windows":[[[1,-1.0]]]})").ok());
  EXPECT_FALSE(read_likely(R"({"bulkhead_likely":1})").ok());
}

TEST(Drift, StretchesAreSpreadAndBeginAtLines) {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += fmt::format("line {:05}\n", i);
  const std::vector<std::string> stretches = stretches_of(text, 4);
  ASSERT_THAT(stretches, SizeIs(4));
  for (const std::string& one : stretches) EXPECT_EQ(one.rfind("line ", 0), 0u);
  EXPECT_EQ(stretches[0].substr(0, 10), "line 00000");
  EXPECT_EQ(stretches[2].substr(0, 10), "line 02001");
  EXPECT_THAT(stretches_of("short", 4), SizeIs(1));
  // Characters are not cut.
  std::string wide;
  for (int i = 0; i < 20000; ++i) wide += "\xC3\xBC";
  for (const std::string& one : stretches_of("a" + wide, 3)) {
    EXPECT_NE(static_cast<unsigned char>(one.front()) & 0xC0, 0x80);
    EXPECT_EQ(static_cast<unsigned char>(one.back()), 0xBC);
  }
}

}  // namespace
}  // namespace bulkhead::apps::eval
