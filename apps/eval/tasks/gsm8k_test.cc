#include "apps/eval/tasks/gsm8k.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/eval/tasks/test_files.h"

namespace bulkhead::apps::eval {
namespace {

using ::testing::HasSubstr;

TEST(Gsm8k, TheStrictAnswerStandsBehindTheFirstMark) {
  EXPECT_EQ(strict_match("So 3+4=7\n#### 7\nQ"), "7");
  EXPECT_EQ(strict_match("#### -1,234.5 and #### 8"), "-1,234.5");
  EXPECT_EQ(strict_match("#### $18"), "[invalid]");
  EXPECT_EQ(strict_match("#### $18 ##### 9"), "9");
  EXPECT_EQ(strict_match("####7"), "[invalid]");
  EXPECT_EQ(strict_match("#### "), "[invalid]");
  EXPECT_EQ(strict_match("#### -"), "[invalid]");
  EXPECT_EQ(strict_match(""), "[invalid]");
}

TEST(Gsm8k, TheFlexibleAnswerIsTheLastNumber) {
  EXPECT_EQ(flexible_extract("first 12, then 5 of them"), "5");
  EXPECT_EQ(flexible_extract("it costs $1,250."), "$1,250.");
  EXPECT_EQ(flexible_extract("from -3"), "-3");
  EXPECT_EQ(flexible_extract("--12"), "-12");
  EXPECT_EQ(flexible_extract("wait... what"), "...");
  EXPECT_EQ(flexible_extract("9 apples."), "9");
  EXPECT_EQ(flexible_extract("none, or $"), "[invalid]");
  EXPECT_EQ(flexible_extract(""), "[invalid]");
}

TEST(Gsm8k, NumbersMatchButForTheirDress) {
  EXPECT_TRUE(numbers_match("$1,250.", "It is so.\n#### 1250"));
  EXPECT_TRUE(numbers_match("18", "#### 18"));
  EXPECT_FALSE(numbers_match("18.0", "#### 18"));
  EXPECT_FALSE(numbers_match("18..", "#### 18"));
  EXPECT_FALSE(numbers_match("[invalid]", "#### 18"));
  EXPECT_TRUE(numbers_match("A", "a"));
}

class Gsm8kTask : public ::testing::Test {
 protected:
  DataFolder data_;
};

TEST_F(Gsm8kTask, ExamplesStandBeforeEveryQuestion) {
  data_.write("eval/gsm8k/train.jsonl",
              R"({"question": "One?", "answer": "One.\n#### 1"}
{"question": "Two?", "answer": "Two.\n#### 2"}
)");
  data_.write("eval/gsm8k/test.jsonl", R"({"question": "Three?", "answer": "1+2.\n#### 1,003"}
)");
  const base::Result<Task> task = load_task("gsm8k", {data_.path(), 2});
  ASSERT_TRUE(task.ok()) << task.error().message;
  ASSERT_EQ(task->questions.size(), 1u);
  const Question& question = task->questions[0];
  const auto& ask = std::get<GenerateAsk>(question.ask);
  EXPECT_EQ(ask.prompt,
            "Question: One?\nAnswer: One.\n#### 1\n\nQuestion: Two?\nAnswer: Two.\n#### 2\n\n"
            "Question: Three?\nAnswer:");
  EXPECT_EQ(question.wanted, "1003");
  Reply reply;
  reply.text = " It is 1003.\n#### 1004";
  const Verdict verdict = question.judge(reply);
  EXPECT_EQ(verdict.answer, "1004");
  reply.text = " That is #### 1,003. Then 5";
  const Verdict other = question.judge(reply);
  ASSERT_EQ(other.measures.size(), 2u);
  EXPECT_EQ(other.measures[0].name, "exact_match_strict");
  EXPECT_EQ(other.measures[0].value, 1.0);
  EXPECT_EQ(other.measures[1].name, "exact_match_flexible");
  EXPECT_EQ(other.measures[1].value, 0.0);
}

TEST_F(Gsm8kTask, WhatIsMissingOrWrongIsSaid) {
  base::Result<Task> task = load_task("gsm8k", {data_.path(), -1});
  ASSERT_FALSE(task.ok());
  EXPECT_EQ(task.error().code, base::ErrorCode::kNotFound);
  EXPECT_THAT(task.error().message, HasSubstr("openai/grade-school-math"));
  EXPECT_THAT(task.error().message, HasSubstr("--data"));
  data_.write("eval/gsm8k/train.jsonl", "{\"question\": \"One?\", \"answer\": \"#### 1\"}\n");
  data_.write("eval/gsm8k/test.jsonl", "{\"question\": \"Two?\"}\n");
  task = load_task("gsm8k", {data_.path(), 1});
  ASSERT_FALSE(task.ok());
  EXPECT_THAT(task.error().message, HasSubstr("test.jsonl problem 1 has no text 'answer'"));
  data_.write("eval/gsm8k/test.jsonl", "{\"question\": \"Two?\", \"answer\": \"#### 2\"}\n");
  task = load_task("gsm8k", {data_.path(), 2});
  ASSERT_FALSE(task.ok());
  EXPECT_THAT(task.error().message, HasSubstr("there are 1 examples, not 2"));
  data_.write("eval/gsm8k/test.jsonl", "\n{\"question\": 5\n");
  task = load_task("gsm8k", {data_.path(), 1});
  ASSERT_FALSE(task.ok());
  EXPECT_THAT(task.error().message, HasSubstr("test.jsonl line 2 is no JSON object"));
}

}  // namespace
}  // namespace bulkhead::apps::eval
