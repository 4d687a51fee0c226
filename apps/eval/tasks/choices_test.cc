// What is answered by the likeliest of several choices: MMLU and ARC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/eval/tasks/arc.h"
#include "apps/eval/tasks/mmlu.h"
#include "apps/eval/tasks/multiple_choice.h"
#include "apps/eval/tasks/test_files.h"

namespace bulkhead::apps::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BestChoice, TheFirstOfTheLikeliestWins) {
  EXPECT_EQ(best_choice({-3.0, -1.0, -1.0}), 1u);
  EXPECT_EQ(best_choice({std::nullopt, -40.0, std::nullopt}), 1u);
  EXPECT_EQ(best_choice({std::nullopt, std::nullopt}), 0u);
}

TEST(BestChoice, LengthCountsInCharacters) {
  // -6/6 = -1, -5/4 = -1.25; in bytes the first has 8.
  EXPECT_EQ(best_choice({-6.0, -5.0}, {"Zürich", "Oslo"}), 0u);
  EXPECT_EQ(best_choice({-6.0, -5.0}), 1u);
  EXPECT_EQ(best_choice({-1.0, -2.0}, {"", ""}), 0u);
}

TEST(Csv, QuotedFieldsHoldEverything) {
  const auto rows = parse_csv("a,\"b, \"\"c\"\"\nd\",e\r\n\n\"x\"y,,z\n");
  ASSERT_TRUE(rows.ok());
  EXPECT_THAT(*rows, ElementsAre(ElementsAre("a", "b, \"c\"\nd", "e"), ElementsAre("xy", "", "z")));
  const auto open = parse_csv("a,b\nc,\"d\n");
  ASSERT_FALSE(open.ok());
  EXPECT_THAT(open.error().message, HasSubstr("line 2"));
}

class ChoiceTasks : public ::testing::Test {
 protected:
  // Two subjects, one with names of columns and numbers, one with letters.
  void write_mmlu() const {
    data_.write("eval/mmlu/dev/high_sums_dev.csv",
                "question,choice0,choice1,choice2,choice3,answer\n1+1?,1,2,3,4,1\n");
    data_.write("eval/mmlu/test/high_sums_test.csv",
                "question,choice0,choice1,choice2,choice3,answer\n 2+2? ,1,2,3,4,3\n");
    data_.write("eval/mmlu/dev/birds_dev.csv", "Which flies?,stone,crow,fish,cow,B\n");
    data_.write("eval/mmlu/test/birds_test.csv",
                "Which sings?,lark,rock,\"sand, dry\",bolt,A\nWhich hoots?,a,b,owl,d,C\n");
  }

  DataFolder data_;
};

TEST_F(ChoiceTasks, MmluAsksForLettersBehindTheSubjectsExamples) {
  write_mmlu();
  const base::Result<Task> task = load_task("mmlu", {data_.path(), 1});
  ASSERT_TRUE(task.ok()) << task.error().message;
  EXPECT_TRUE(task->shares_prefix);
  ASSERT_EQ(task->questions.size(), 3u);
  EXPECT_EQ(task->questions[0].id, "mmlu/birds/0");
  EXPECT_EQ(task->questions[2].group, "high_sums");
  const auto& ask = std::get<ChoicesAsk>(task->questions[2].ask);
  EXPECT_EQ(ask.context,
            "The following are multiple choice questions (with answers) about high sums.\n\n"
            "1+1?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer: B\n\n2+2?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer:");
  EXPECT_THAT(ask.choices, ElementsAre(" A", " B", " C", " D"));
  EXPECT_TRUE(ask.letters);
  Reply reply;
  reply.scores = {-2.0, -3.0, std::nullopt, -1.0};
  EXPECT_EQ(task->questions[2].judge(reply).answer, "D");
  EXPECT_EQ(task->questions[2].judge(reply).measures[0].value, 1.0);
  EXPECT_EQ(task->questions[0].judge(reply).measures[0].value, 0.0);
}

TEST_F(ChoiceTasks, MmluSaysWhatIsWrong) {
  base::Result<Task> task = load_task("mmlu", {data_.path(), -1});
  ASSERT_FALSE(task.ok());
  EXPECT_THAT(task.error().message, HasSubstr("hendrycks/test"));
  write_mmlu();
  task = load_task("mmlu", {data_.path(), -1});
  ASSERT_FALSE(task.ok());
  EXPECT_THAT(task.error().message, HasSubstr("there are 1 examples, not 5"));
  data_.write("eval/mmlu/test/birds_test.csv", "Which?,a,b,c,d,A\nWhich?,a,b,c,d,E\n");
  task = load_task("mmlu", {data_.path(), 0});
  ASSERT_FALSE(task.ok());
  EXPECT_THAT(task.error().message, HasSubstr("birds_test.csv row 2"));
}

constexpr const char* kInstruction =
    "Please choose the correct answer to the question: Which is cold?\n\nAnswer1: a stone in the "
    "sun Answer2: ice Answer3: fire\n\nAnswer format: answer1/answer2/answer3";

TEST(Arc, QuestionAndChoicesComeOutOfTheInstruction) {
  const base::Result<ArcItem> item = parse_arc(kInstruction, "answer2");
  ASSERT_TRUE(item.ok()) << item.error().message;
  EXPECT_EQ(item->question, "Which is cold?");
  EXPECT_THAT(item->choices, ElementsAre("a stone in the sun", "ice", "fire"));
  EXPECT_EQ(item->right, 1u);
}

TEST(Arc, WhatIsNoQuestionIsRefused) {
  EXPECT_FALSE(parse_arc("Which?", "answer1").ok());
  for (const char* answer : {"answer4", "answer0", "answer", "answer2x", "2", ""}) {
    EXPECT_FALSE(parse_arc(kInstruction, answer).ok()) << answer;
  }
}

TEST_F(ChoiceTasks, ArcCountsTheLikeliestTextAndTheLikeliestForItsLength) {
  data_.write(
      "eval/arc/ARC-Easy-test.json",
      R"([{"instruction": "Please choose the correct answer to the question: Which is )"
      R"(cold?\n\nAnswer1: ice Answer2: a burning house\n\nAnswer format: answer1/answer2",)"
      R"("answer": "answer1"},)"
      R"({"instruction": "Please choose the correct answer to the question: Which is )"
      R"(wet?\n\nAnswer1: sand Answer2: rain\n\nAnswer format: answer1/answer2",)"
      R"("answer": "answer2"}])");
  const base::Result<Task> all = load_task("arc_easy", {data_.path(), -1});
  ASSERT_TRUE(all.ok()) << all.error().message;
  ASSERT_EQ(all->questions.size(), 2u);
  const auto& ask = std::get<ChoicesAsk>(all->questions[0].ask);
  EXPECT_EQ(ask.context, "Question: Which is cold?\nAnswer:");
  EXPECT_THAT(ask.choices, ElementsAre(" ice", " a burning house"));
  EXPECT_FALSE(ask.letters);
  Reply reply;
  reply.scores = {-6.0, -7.0};
  const Verdict verdict = all->questions[0].judge(reply);
  EXPECT_EQ(verdict.measures[0].name, "acc");
  EXPECT_EQ(verdict.measures[0].value, 1.0);
  EXPECT_EQ(verdict.measures[1].name, "acc_norm");
  EXPECT_EQ(verdict.measures[1].value, 0.0);

  const base::Result<Task> one = load_task("arc_easy", {data_.path(), 1});
  ASSERT_TRUE(one.ok());
  ASSERT_EQ(one->questions.size(), 1u);
  EXPECT_EQ(std::get<ChoicesAsk>(one->questions[0].ask).context,
            "Question: Which is wet?\nAnswer: rain\n\nQuestion: Which is cold?\nAnswer:");
  EXPECT_THAT(load_task("arc_challenge", {data_.path(), -1}).error().message,
              HasSubstr("AGI-Edgerunners/LLM-Adapters"));
}

TEST(Tasks, AnUnknownNameIsRefusedWithTheOnesThereAre) {
  const base::Result<Task> task = load_task("hellaswag", {});
  ASSERT_FALSE(task.ok());
  EXPECT_THAT(task.error().message, HasSubstr("gsm8k, mmlu, arc_challenge"));
}

}  // namespace
}  // namespace bulkhead::apps::eval
