// The published sets, where they are there: every question is understood.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "apps/eval/tasks/call_check.h"
#include "apps/eval/tasks/catalog.h"

namespace bulkhead::apps::eval {
namespace {

std::string data_folder() {
  const char* shared = std::getenv("BULKHEAD_SHARED");
  return shared == nullptr ? "" : std::string(shared) + "/data";
}

namespace json = boost::json;

json::value first_allowed(const json::value& value);

// The first allowed value of each member; those that may be absent are.
json::object first_of_each(const json::object& allowed) {
  json::object picked;
  for (const auto& [name, values] : allowed) {
    const json::array& list = values.as_array();
    if (list.empty() || list[0] == json::value("")) continue;
    picked[name] = first_allowed(list[0]);
  }
  return picked;
}

json::value first_allowed(const json::value& value) {
  if (value.is_object()) return first_of_each(value.as_object());
  if (!value.is_array()) return value;
  json::array list;
  for (const json::value& item : value.as_array()) list.push_back(first_allowed(item));
  return list;
}

// Calls as a model would make them that knows the answers.
Reply known_answer(const Question& question) {
  Reply reply;
  const json::value wanted = json::parse(question.wanted);
  for (const json::value& call : wanted.as_array()) {
    const auto& [name, parameters] = *call.as_object().begin();
    reply.calls.push_back(
        {api_name(std::string(name)), json::serialize(first_of_each(parameters.as_object()))});
  }
  return reply;
}

class PublishedSets : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(data_folder() + "/eval")) {
      GTEST_SKIP() << "needs BULKHEAD_SHARED with data/eval";
    }
  }
  static Task load(const std::string& name) {
    base::Result<Task> task = load_task(name, {data_folder(), -1});
    EXPECT_TRUE(task.ok()) << task.error().message;
    return std::move(task).value();
  }
};

TEST_F(PublishedSets, HaveTheirNumbersOfQuestions) {
  EXPECT_EQ(load("gsm8k").questions.size(), 1319u);
  EXPECT_EQ(load("arc_challenge").questions.size(), 1172u);
  EXPECT_EQ(load("arc_easy").questions.size(), 2376u);
  EXPECT_EQ(load("wikitext").questions.size(), 62u);
  const Task mmlu = load("mmlu");
  EXPECT_EQ(mmlu.questions.size(), 14042u);
  std::map<std::string, int> subjects;
  for (const Question& question : mmlu.questions) ++subjects[question.group];
  EXPECT_EQ(subjects.size(), 57u);
}

TEST_F(PublishedSets, OfCallsAcceptTheirOwnAnswers) {
  const Task task = load("bfcl");
  std::map<std::string, int> sets;
  std::string wrong;
  for (const Question& question : task.questions) {
    ++sets[question.group];
    const Verdict verdict = question.judge(known_answer(question));
    if (verdict.measures[0].value < 1.0) wrong += " " + question.id;
  }
  // These want what their first allowed values cannot give: a required parameter that may be
  // absent, one that the function does not have, lists of no allowed value.
  EXPECT_EQ(wrong,
            " bfcl/simple_python_200 bfcl/parallel_multiple_26 bfcl/live_simple_106-63-0 "
            "bfcl/live_simple_112-68-0");
  EXPECT_EQ(sets["simple_python"], 400);
  EXPECT_EQ(sets["multiple"], 200);
  EXPECT_EQ(sets["parallel"], 200);
  EXPECT_EQ(sets["parallel_multiple"], 200);
  EXPECT_EQ(sets["live_simple"], 258);
  EXPECT_EQ(sets["irrelevance"], 240);
}

}  // namespace
}  // namespace bulkhead::apps::eval
