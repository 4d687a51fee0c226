// Questions asked in order, kept as they are answered, and not asked again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "apps/eval/outcome.h"
#include "apps/eval/run.h"
#include "apps/eval/tasks/test_files.h"
#include "apps/eval/text_tools.h"

namespace bulkhead::apps::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Outcome outcome_of(const std::string& id) {
  Outcome outcome;
  outcome.id = id;
  outcome.group = "g";
  outcome.wanted = "w";
  outcome.verdict = {"a", {{"acc", 1.0}, {"acc_norm", 0.0}}};
  outcome.reply.text = "line\n\"quoted\"";
  outcome.reply.calls = {{"f", "{}"}};
  outcome.reply.scores = {-0.1, std::nullopt};
  outcome.reply.prompt_tokens = 5;
  outcome.reply.cached_tokens = 4;
  outcome.reply.output_tokens = 3;
  outcome.reply.truncated = true;
  return outcome;
}

std::string text_of_outcome(const Outcome& outcome) {
  base::JsonWriter out;
  write_outcome(out, outcome);
  return out.text();
}

const TaskIdentity kIdentity{"gsm8k", "m", {{"shots", "8"}}, "d1"};

class JournalFile : public ::testing::Test {
 protected:
  JournalFile() : path_(data_.write("run.journal", "")) { std::filesystem::remove(path_); }

  Journal open(bool restart = false) const {
    base::Result<Journal> journal = Journal::open(path_, restart);
    EXPECT_TRUE(journal.ok()) << (journal.ok() ? "" : journal.error().message);
    return std::move(journal).value();
  }

  DataFolder data_;
  std::string path_;
};

TEST_F(JournalFile, WhatWasAnsweredIsThereAgain) {
  {
    Journal journal = open();
    EXPECT_THAT(*journal.begin(kIdentity), SizeIs(0));
    ASSERT_TRUE(journal.add("gsm8k", outcome_of("gsm8k/1")).ok());
    ASSERT_TRUE(journal.add("gsm8k", outcome_of("gsm8k/2")).ok());
  }
  Journal journal = open();
  const auto outcomes = journal.begin(kIdentity);
  ASSERT_TRUE(outcomes.ok());
  ASSERT_THAT(*outcomes, SizeIs(2));
  EXPECT_EQ(text_of_outcome(outcomes->at("gsm8k/2")), text_of_outcome(outcome_of("gsm8k/2")));
  journal.remove();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(JournalFile, OtherMeansAreRefusedByName) {
  {
    Journal journal = open();
    ASSERT_TRUE(journal.begin(kIdentity).ok());
    ASSERT_TRUE(journal.add("gsm8k", outcome_of("gsm8k/1")).ok());
  }
  const auto refusal = [this](TaskIdentity identity) {
    Journal journal = open();
    const auto result = journal.begin(identity);
    return result.ok() ? std::string() : result.error().message;
  };
  TaskIdentity other = kIdentity;
  other.model = "n";
  EXPECT_THAT(refusal(other), HasSubstr("gsm8k: model 'm' against 'n'"));
  other = kIdentity;
  other.settings[0].second = "5";
  EXPECT_THAT(refusal(other), HasSubstr("shots 8 against 5"));
  other = kIdentity;
  other.questions = "d2";
  EXPECT_THAT(refusal(other), HasSubstr("other questions"));
  EXPECT_THAT(refusal(other), HasSubstr("--restart"));
  other = kIdentity;
  other.task = "mmlu";
  EXPECT_EQ(refusal(other), "");
  EXPECT_THAT(*open(true).begin(kIdentity), SizeIs(0));
}

TEST_F(JournalFile, ALineThatWasCutOffIsDropped) {
  {
    Journal journal = open();
    ASSERT_TRUE(journal.begin(kIdentity).ok());
    ASSERT_TRUE(journal.add("gsm8k", outcome_of("gsm8k/1")).ok());
  }
  std::ofstream(path_, std::ios::app) << R"({"of":"gsm8k","outc)";
  {
    Journal journal = open();
    EXPECT_THAT(*journal.begin(kIdentity), SizeIs(1));
    ASSERT_TRUE(journal.add("gsm8k", outcome_of("gsm8k/2")).ok());
  }
  EXPECT_THAT(*open().begin(kIdentity), SizeIs(2));
}

TEST_F(JournalFile, WhatIsNoJournalIsRefused) {
  for (const char* text :
       {"hello\n", "[]\n", "{\"task\": 5}\n", "{\"of\": \"gsm8k\", \"outcome\": {}}\n"}) {
    data_.write("run.journal", text);
    const auto journal = Journal::open(path_, false);
    ASSERT_FALSE(journal.ok()) << text;
    EXPECT_THAT(journal.error().message, HasSubstr("line 1"));
  }
}

Question question(const std::string& id, const std::string& group) {
  return {id, group, GenerateAsk{id, 1, {}}, "",
          [](const Reply& reply) { return Verdict{reply.text, {{"acc", 1.0}}}; }};
}

std::vector<const Question*> pointers(const std::vector<Question>& questions) {
  std::vector<const Question*> all;
  for (const Question& one : questions) all.push_back(&one);
  return all;
}

TEST(AskOrder, AGroupOpensWithItsFirstAnswer) {
  const std::vector<Question> questions = {question("a0", "a"), question("a1", "a"),
                                           question("b0", "b"), question("b1", "b")};
  AskOrder order(pointers(questions), true);
  EXPECT_EQ(order.take(), 0u);
  EXPECT_EQ(order.take(), 2u);
  EXPECT_EQ(order.take(), std::nullopt);
  EXPECT_FALSE(order.empty());
  order.answered(2);
  EXPECT_EQ(order.take(), 3u);
  order.answered(0);
  EXPECT_EQ(order.take(), 1u);
  EXPECT_TRUE(order.empty());
  EXPECT_EQ(order.take(), std::nullopt);
}

TEST(AskOrder, WithoutASharedPrefixNothingWaits) {
  const std::vector<Question> questions = {question("a0", "a"), question("b0", "b"),
                                           question("a1", "a")};
  AskOrder order(pointers(questions), false);
  EXPECT_EQ(order.take(), 0u);
  EXPECT_EQ(order.take(), 1u);
  EXPECT_EQ(order.take(), 2u);
}

// An asker whose server gives every text back, or refuses one.
MakeAsker echo_server(const std::string& refused) {
  return [refused](auto wait) {
    return Asker(
        Server(
            [refused](const std::string&, const std::string&,
                      const std::string& body) -> base::Result<http::ClientResponse> {
              const std::string prompt(boost::json::parse(body).as_object()["prompt"].as_string());
              if (prompt == refused) return http::ClientResponse{400, {}, "no"};
              return http::ClientResponse{200, {}, R"({"choices": [{"text": ")" + prompt + "\"}]}"};
            },
            {0, std::move(wait)}),
        ServerFacts{"m", false, 100, 5, {}}, false);
  };
}

TEST(RunQuestions, EveryQuestionIsAnsweredOnce) {
  std::vector<Question> questions;
  for (int i = 0; i < 200; ++i) {
    questions.push_back(question(std::to_string(i), std::to_string(i / 7)));
  }
  for (const bool shares_prefix : {false, true}) {
    std::multiset<std::string> answered;
    const base::Status status =
        run_questions(pointers(questions), shares_prefix, 8, echo_server(""), [&](Outcome outcome) {
          EXPECT_EQ(outcome.id, outcome.verdict.answer);
          answered.insert(outcome.id);
          return base::Status();
        });
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(answered.size(), 200u);
    EXPECT_EQ(std::set<std::string>(answered.begin(), answered.end()).size(), 200u);
  }
}

TEST(RunQuestions, AnErrorEndsTheRunAndNamesTheQuestion) {
  std::vector<Question> questions;
  for (int i = 0; i < 50; ++i) questions.push_back(question("q" + std::to_string(i), ""));
  const base::Status status = run_questions(pointers(questions), true, 4, echo_server("q0"),
                                            [](const Outcome&) { return base::Status(); });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "question q0: /v1/completions answered 400: no");
  // A file that cannot be written ends it too.
  const base::Status full = run_questions(
      pointers(questions), false, 4, echo_server(""), [](const Outcome&) -> base::Status {
        return base::Error{base::ErrorCode::kIo, "disk full", {}};
      });
  EXPECT_EQ(full.error().message, "disk full");
  EXPECT_TRUE(run_questions({}, true, 4, echo_server(""), [](const Outcome&) {
                return base::Status();
              }).ok());
}

TEST(Limit, KeepsEvenlySpreadQuestions) {
  Task task;
  for (int i = 0; i < 10; ++i) task.questions.push_back(question(std::to_string(i), ""));
  const std::string all = fingerprint(task);
  keep_some(task, 4);
  std::vector<std::string> ids;
  for (const Question& one : task.questions) ids.push_back(one.id);
  EXPECT_THAT(ids, ElementsAre("0", "2", "5", "7"));
  EXPECT_NE(fingerprint(task), all);
  keep_some(task, 0);
  keep_some(task, 9);
  EXPECT_THAT(task.questions, SizeIs(4));
}

}  // namespace
}  // namespace bulkhead::apps::eval
