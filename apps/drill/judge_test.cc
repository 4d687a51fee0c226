#include "apps/drill/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bulkhead::apps {
namespace {

using ::testing::HasSubstr;

Answer whole(std::vector<std::string> tokens) {
  Answer answer;
  answer.tokens = std::move(tokens);
  answer.finish_reason = "length";
  answer.done = true;
  answer.status = 200;
  return answer;
}

Answer ended(std::vector<std::string> tokens) {
  Answer answer;
  answer.tokens = std::move(tokens);
  answer.status = answer.tokens.empty() ? 503 : 200;
  answer.error_code = "kv_integrity";
  answer.retriable = true;
  return answer;
}

const Answer kAlone = whole({"a", "b", "c"});

TEST(Fate, IsSameOnlyForEveryBit) {
  EXPECT_EQ(fate_of(kAlone, kAlone), Fate::kSame);
  EXPECT_EQ(fate_of(whole({"a", "b", "x"}), kAlone), Fate::kWrong);
  EXPECT_EQ(fate_of(whole({"a", "b"}), kAlone), Fate::kWrong);
  Answer other_end = kAlone;
  other_end.finish_reason = "stop";
  EXPECT_EQ(fate_of(other_end, kAlone), Fate::kWrong);
}

TEST(Fate, IsEndedForABeginningThatNothingFollows) {
  EXPECT_EQ(fate_of(ended({}), kAlone), Fate::kEnded);
  EXPECT_EQ(fate_of(ended({"a", "b"}), kAlone), Fate::kEnded);
  EXPECT_EQ(fate_of(ended({"a", "x"}), kAlone), Fate::kWrong) << "a wrong token got out";
  Answer went_on = ended({"a"});
  went_on.went_on = true;
  EXPECT_EQ(fate_of(went_on, kAlone), Fate::kBroken);
  Answer done = ended({"a"});
  done.done = true;
  EXPECT_EQ(fate_of(done, kAlone), Fate::kBroken);
  Answer reason = ended({"a"});
  reason.finish_reason = "stop";
  EXPECT_EQ(fate_of(reason, kAlone), Fate::kBroken);
}

TEST(Fate, IsBrokenForWhatNoContractKnows) {
  Answer final_word = ended({"a"});
  final_word.retriable = false;
  EXPECT_EQ(fate_of(final_word, kAlone), Fate::kBroken);
  Answer other = ended({"a"});
  other.error_code = "internal_error";
  EXPECT_EQ(fate_of(other, kAlone), Fate::kBroken);
  other.error_code = "generation_failed";
  EXPECT_EQ(fate_of(other, kAlone), Fate::kNotFinite);
  Answer status = ended({});
  status.status = 500;
  EXPECT_EQ(fate_of(status, kAlone), Fate::kBroken);
  Answer cut = whole({"a", "b"});
  cut.done = false;
  EXPECT_EQ(fate_of(cut, kAlone), Fate::kBroken);
  Answer gone = kAlone;
  gone.failure = "connection reset";
  EXPECT_EQ(fate_of(gone, kAlone), Fate::kBroken);
  EXPECT_EQ(describe(gone), "connection reset");
  EXPECT_THAT(describe(final_word), HasSubstr("not retriable"));
}

// One round as it should be.
Row good(const char* fault, const char* kind) {
  Row row;
  row.fault = find_fault_class(fault);
  row.pool = "shared";
  row.rounds = row.injected = row.noticed_rounds = 1;
  row.answers.same = 15;
  row.answers.ended = 1;
  row.noticed[kind] = {1, {"before"}};
  return row;
}

TEST(Judge, AFaultIsDetectedAndNobodyElseTouched) {
  const Verdict verdict = judge(good("tag_flip", "tag"), "abort");
  EXPECT_TRUE(verdict.pass);
  EXPECT_EQ(verdict.text, "detected");
}

TEST(Judge, EveryCellCanFail) {
  const auto fails = [](void (*spoil)(Row&)) {
    Row row = good("tag_flip", "tag");
    spoil(row);
    return !judge(row, "abort").pass;
  };
  EXPECT_TRUE(fails([](Row& row) { row.injected = 0; }));
  EXPECT_TRUE(fails([](Row& row) { row.noticed_rounds = 0; }));
  EXPECT_TRUE(fails([](Row& row) { row.answers.wrong = 1; }));
  EXPECT_TRUE(fails([](Row& row) { row.answers.not_finite = 1; }));
  EXPECT_TRUE(fails([](Row& row) { row.answers.broken = 1; }));
  EXPECT_TRUE(fails([](Row& row) { row.unrecovered = 1; }));
  EXPECT_TRUE(fails([](Row& row) { row.unbalanced = 1; }));
  EXPECT_TRUE(fails([](Row& row) { row.server_ended = "signal 6"; }));
}

TEST(Judge, WhatNothingSeesMayChangeItsOwnAnswerAlone) {
  Row row = good("tail_flip", "");
  row.noticed.clear();
  row.noticed_rounds = 0;
  row.answers = {.same = 15, .wrong = 1};
  EXPECT_TRUE(judge(row, "abort").pass);
  EXPECT_EQ(judge(row, "abort").text, "not detected, by design");
  row.answers = {.same = 14, .wrong = 2};
  EXPECT_FALSE(judge(row, "abort").pass);
}

TEST(Judge, TheControlFailsWithAnyAlarm) {
  Row row;
  row.fault = &no_fault();
  row.rounds = 1;
  row.answers.same = 16;
  for (const char* mode : {"off", "observe", "abort"}) EXPECT_TRUE(judge(row, mode).pass) << mode;
  Row alarmed = row;
  alarmed.noticed["tag"] = {1, {"before"}};
  EXPECT_FALSE(judge(alarmed, "abort").pass);
  Row changed = row;
  changed.answers.ended = 1;
  EXPECT_FALSE(judge(changed, "abort").pass);
}

TEST(Judge, ObservingHasToNoticeAndMayNotEndTheServer) {
  Row row = good("stale_mapping", "tag");
  row.answers = {.same = 14, .wrong = 2};
  EXPECT_EQ(judge(row, "observe").text, "noticed, and 2 wrong answers");
  row.noticed_rounds = 0;
  EXPECT_FALSE(judge(row, "observe").pass);
  row.server_ended = "signal 6";
  EXPECT_FALSE(judge(row, "observe").pass);
}

TEST(Judge, WithoutChecksHarmIsWhatIsExpected) {
  Row row = good("stale_mapping", "tag");
  row.noticed.clear();
  row.answers = {.same = 13, .wrong = 3};
  EXPECT_TRUE(did_harm(row));
  EXPECT_EQ(judge(row, "off").text, "not noticed; 3 wrong answers");
  row.server_ended = "signal 11 (Segmentation fault)";
  EXPECT_THAT(judge(row, "off").text, HasSubstr("the server ended: signal 11"));
  Row harmless = row;
  harmless.server_ended.clear();
  harmless.answers = {.same = 16};
  EXPECT_FALSE(did_harm(harmless));
  EXPECT_TRUE(judge(harmless, "off").pass);
  harmless.noticed["tag"] = {1, {}};
  EXPECT_FALSE(judge(harmless, "off").pass);
}

}  // namespace
}  // namespace bulkhead::apps
