// Figures, results and their comparison, and the line that is watched.
#include "apps/eval/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "apps/eval/progress.h"

namespace bulkhead::apps::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

Outcome answered(const std::string& id, const std::string& group, bool right) {
  Outcome outcome;
  outcome.id = id;
  outcome.group = group;
  outcome.wanted = "w";
  outcome.verdict = {"a", {{"acc", right ? 1.0 : 0.0}}};
  outcome.reply.prompt_tokens = 10;
  outcome.reply.cached_tokens = 5;
  return outcome;
}

// Questions 0.. of one group each two, right where the text says 1.
TaskResult task_of(const std::string& rights, bool grouped = false) {
  TaskResult task;
  task.identity = {"t", "m", {{"shots", "8"}}, "d"};
  for (size_t i = 0; i < rights.size(); ++i) {
    task.outcomes.push_back(
        answered("t/" + std::to_string(i), grouped ? std::to_string(i / 2) : "", rights[i] == '1'));
  }
  return task;
}

TaskResult perplexity_of(double score) {
  TaskResult task;
  task.identity = {"wikitext", "m", {}, "d"};
  task.scoring = Scoring::kPerplexity;
  for (int i = 0; i < 2; ++i) {
    Outcome outcome = answered("wikitext/" + std::to_string(i), "", true);
    outcome.verdict = {"", {{"loglikelihood", score * (i + 1)}, {"words", 10.0}, {"bytes", 50.0}}};
    task.outcomes.push_back(outcome);
  }
  return task;
}

TEST(Figures, AreSharesAndTheMeanOfGroups) {
  const std::vector<Figure> plain = figures_of(task_of("1101"));
  ASSERT_THAT(plain, SizeIs(1));
  EXPECT_EQ(plain[0].name, "acc");
  EXPECT_DOUBLE_EQ(plain[0].value, 0.75);
  EXPECT_DOUBLE_EQ(plain[0].standard_error, 0.25);

  const TaskResult grouped = task_of("11011", true);
  const std::vector<Figure> figures = figures_of(grouped);
  ASSERT_THAT(figures, SizeIs(2));
  EXPECT_DOUBLE_EQ(figures[0].value, 0.8);
  EXPECT_EQ(figures[1].name, "acc_macro");
  EXPECT_DOUBLE_EQ(figures[1].value, (1.0 + 0.5 + 1.0) / 3.0);
  EXPECT_FALSE(figures[1].is_share);
  EXPECT_THAT(groups_of(grouped), SizeIs(3));
  EXPECT_EQ(groups_of(grouped)[2].questions, 1u);
}

TEST(Figures, OfTextsAreMadeFromTheirSums) {
  const std::vector<Figure> figures = figures_of(perplexity_of(-10.0));
  ASSERT_THAT(figures, SizeIs(3));
  EXPECT_DOUBLE_EQ(figures[0].value, std::exp(30.0 / 20.0));
  EXPECT_DOUBLE_EQ(figures[1].value, std::exp(30.0 / 100.0));
  EXPECT_DOUBLE_EQ(figures[2].value, 30.0 / 100.0 / std::log(2.0));
}

TEST(Result, ReadsBackAsItWasWritten) {
  const std::vector<TaskResult> tasks = {task_of("101", true), perplexity_of(-3.0)};
  const std::string text = result_json(tasks);
  const auto read = read_result(text);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(result_json(*read), text);
  EXPECT_THAT(result_text(*read), HasSubstr("| t | 3 | acc | 66.67 % | 20.77 to 93.85 % |\n"));
  EXPECT_THAT(result_text(*read), HasSubstr("| wikitext | 2 | word_perplexity | 1.5683 | |\n"));
  EXPECT_THAT(result_text(*read), HasSubstr("t: 30 prompt tokens, 50.0 % of them from the cache"));
}

TEST(Result, WhatIsNoneIsRefused) {
  for (
      const char* text :
      {"", "[]", "{}", R"({"bulkhead_eval": 2})", R"({"bulkhead_eval": 1, "tasks": [{}]})",
       R"({"bulkhead_eval": 1, "tasks": [{"task": "t", "questions_digest": "d", "settings": {}}]})",
       R"({"bulkhead_eval": 1, "tasks": [{"task": "t", "questions_digest": "d", "settings": {},)"
       R"( "scoring": "shares", "questions": [{"id": "a", "measures": {"acc": "x"}}]}]})"}) {
    EXPECT_FALSE(read_result(text).ok()) << text;
  }
}

TEST(Compare, FlipsMakeDifferenceIntervalAndP) {
  const auto compared = compare({task_of("1111000010")}, {task_of("0110011111")});
  ASSERT_TRUE(compared.ok()) << compared.error().message;
  ASSERT_THAT(compared->shares, SizeIs(1));
  const Comparison& one = compared->shares[0];
  EXPECT_DOUBLE_EQ(one.before(), 0.5);
  EXPECT_DOUBLE_EQ(one.after(), 0.7);
  EXPECT_THAT(one.lost, ElementsAre("t/0", "t/3"));
  EXPECT_THAT(one.gained, ElementsAre("t/5", "t/6", "t/7", "t/9"));
  EXPECT_EQ(one.p_value, mcnemar_exact(2, 4));
  EXPECT_EQ(one.interval.low, paired_difference({3, 2, 4, 1}).low);
  const std::string text = comparison_text(*compared, 3);
  EXPECT_THAT(text, HasSubstr("| t | acc | 10 | 50.00 % | 70.00 % | +20.00 |"));
  EXPECT_THAT(text, HasSubstr("right before, wrong after: t/0 t/3\n"));
  EXPECT_THAT(text, HasSubstr("wrong before, right after: t/5 t/6 t/7 and 1 more\n"));
  EXPECT_THAT(comparison_json(*compared), HasSubstr(R"("lost":["t/0","t/3"])"));
}

TEST(Compare, AFallBeyondChanceIsALoss) {
  const auto lost = [](const std::string& before, const std::string& after) {
    const auto compared = compare({task_of(before)}, {task_of(after)});
    EXPECT_TRUE(compared.ok());
    return losses(*compared);
  };
  EXPECT_THAT(lost("1111111111", "0000001111"), ElementsAre("t acc"));
  EXPECT_THAT(lost("1111111111", "0111111111"), SizeIs(0));
  EXPECT_THAT(lost("0000001111", "1111111111"), SizeIs(0));
}

TEST(Compare, OnlyWhatBothHaveCounts) {
  TaskResult more = task_of("110");
  more.identity.task = "u";
  const auto compared = compare({task_of("1111")}, {task_of("10"), more});
  ASSERT_TRUE(compared.ok()) << compared.error().message;
  ASSERT_THAT(compared->shares, SizeIs(1));
  EXPECT_EQ(compared->shares[0].pairs.total(), 2u);
  EXPECT_THAT(compared->notes, ElementsAre("t: 2 questions are in both, of 4 and 2",
                                           "u is in the second file alone"));
  EXPECT_FALSE(compare({task_of("1")}, {more}).ok());
}

TEST(Compare, AnotherModelIsComparedAndOtherQuestionsAreNot) {
  TaskResult other = task_of("10");
  other.identity.model = "n";
  other.identity.settings.emplace_back("max_length", "9");
  EXPECT_TRUE(compare({task_of("10")}, {other}).ok());
  other.identity.questions = "e";
  other.identity.settings = {{"shots", "5"}};
  const auto compared = compare({task_of("10")}, {other});
  ASSERT_FALSE(compared.ok());
  EXPECT_THAT(compared.error().message, HasSubstr("shots 8 against 5"));
}

TEST(Compare, PerplexitiesStandSideBySide) {
  const auto compared = compare({perplexity_of(-10.0)}, {perplexity_of(-11.0)});
  ASSERT_TRUE(compared.ok()) << compared.error().message;
  EXPECT_THAT(compared->shares, SizeIs(0));
  ASSERT_THAT(compared->figures, SizeIs(3));
  EXPECT_DOUBLE_EQ(compared->figures[0].after, std::exp(33.0 / 20.0));
}

TEST(Progress, TellsHowFarHowRightAndHowLong) {
  std::ostringstream out;
  Progress progress(out, true, "t", 10, 20);
  progress.add(answered("t/1", "", true), 10.0);
  progress.add(answered("t/2", "", false), 30.0);
  EXPECT_EQ(progress.text(30.0),
            "t 12 of 20, acc 50.0 %, 50 % of prompt tokens from the cache, 2 min left");
  progress.finish();
  EXPECT_THAT(out.str(), HasSubstr("\r\033[K"));
  EXPECT_EQ(duration_text(40.0), "40 s");
  EXPECT_EQ(duration_text(7500.0), "2 h 5 min");
}

TEST(Progress, ElsewhereThanOnATerminalATenthIsALine) {
  std::ostringstream out;
  Progress progress(out, false, "t", 0, 40);
  for (int i = 0; i < 40; ++i) progress.add(answered("t", "", true), 1.0);
  progress.finish();
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

}  // namespace
}  // namespace bulkhead::apps::eval
