#include "api/request/tool_history.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <string>
#include <vector>

namespace bulkhead::api {
namespace {

namespace json = boost::json;

json::array messages_of(const std::string& text) { return json::parse(text).as_array(); }

std::string call(const std::string& id, const std::string& name) {
  const std::string member = id.empty() ? "" : R"("id":")" + id + "\",";
  return "{" + member + R"("function":{"name":")" + name + R"(","arguments":{}}})";
}
std::string assistant(const std::vector<std::string>& calls) {
  std::string all;
  for (const std::string& one : calls) all += (all.empty() ? "" : ",") + one;
  return R"({"role":"assistant","content":"","tool_calls":[)" + all + "]}";
}
std::string result(const std::string& id) {
  return R"({"role":"tool","content":"r","tool_call_id":")" + id + "\"}";
}

// The ids of calls and results, in order.
std::vector<std::string> kimi_ids(const std::string& text) {
  json::array messages = messages_of(text);
  use_kimi_ids(messages);
  json::array twice = messages;
  use_kimi_ids(twice);
  EXPECT_EQ(json::serialize(twice), json::serialize(messages)) << "twice is once";
  std::vector<std::string> ids;
  for (const json::value& message : messages) {
    const json::object& object = message.get_object();
    if (const json::value* id = object.if_contains("tool_call_id")) {
      ids.push_back("-> " + std::string(id->as_string()));
    }
    if (!object.contains("tool_calls")) continue;
    for (const json::value& one : object.at("tool_calls").as_array()) {
      ids.emplace_back(one.at("id").as_string());
    }
  }
  return ids;
}

using Ids = std::vector<std::string>;

// C122, C123
TEST(KimiIds, ReplaceEveryForeignIdInTheCallAndInItsResult) {
  const std::string text = "[" + assistant({call("call_abc", "Read")}) + "," + result("call_abc") +
                           "," + assistant({call("functions_Read_0", "Read"), call("", "Write")}) +
                           "," + result("") + "," + result("functions_Read_0") + "]";
  EXPECT_EQ(kimi_ids(text),
            (Ids{"functions.Read:0", "-> functions.Read:0", "functions.Read:1", "functions.Write:2",
                 "-> functions.Write:2", "-> functions.Read:1"}));
}

TEST(KimiIds, KeepTheModelsOwnAndCountOnFromThere) {
  const std::string text = "[" + assistant({call("functions.f:3", "f")}) + "," +
                           result("functions.f:3") + R"(,{"role":"user","content":"x"},)" +
                           assistant({call("toolu_1", "f"), call("functions.g:1", "g")}) + "," +
                           result("toolu_1") + "," + result("functions.g:1") + "]";
  EXPECT_EQ(kimi_ids(text), (Ids{"functions.f:3", "-> functions.f:3", "functions.f:4",
                                 "functions.g:1", "-> functions.f:4", "-> functions.g:1"}));
}

TEST(KimiIds, AreDifferentForDifferentCalls) {
  // The same id twice, and one whose name is another's.
  const std::string text = "[" +
                           assistant({call("functions.f:0", "f"), call("functions.f:0", "f"),
                                      call("functions.f:1", "g")}) +
                           "," + result("functions.f:0") + "," + result("functions.f:0") + "," +
                           result("functions.f:1") + "]";
  EXPECT_EQ(kimi_ids(text), (Ids{"functions.f:0", "functions.f:1", "functions.g:2",
                                 "-> functions.f:0", "-> functions.f:1", "-> functions.g:2"}));
}

TEST(KimiIds, LeaveResultsWithoutACallAlone) {
  EXPECT_EQ(kimi_ids("[" + result("call_x") + "]"), (Ids{"-> call_x"}));
  EXPECT_EQ(
      kimi_ids("[" + assistant({call("a", "f")}) + "," + result("b") + "," + result("c") + "]"),
      (Ids{"functions.f:0", "-> functions.f:0", "-> c"}));
}

std::string fitted(const std::string& arguments, bool text, bool object) {
  json::array messages = messages_of(R"([{"role":"assistant","content":"","tool_calls":[
      {"function":{"name":"f","arguments":)" +
                                     arguments + "}}]}]");
  chat::TemplateTraits traits;
  traits.text_arguments = text;
  traits.object_arguments = object;
  fit_arguments(messages, traits);
  return json::serialize(messages.at(0).at("tool_calls").at(0).at("function").at("arguments"));
}

TEST(Arguments, ReachTheTemplateAsItWantsThem) {
  const std::string text = R"("{\"a\": [1]}")";
  const std::string object = R"({"a":[1]})";
  EXPECT_EQ(fitted(text, false, true), object);
  EXPECT_EQ(fitted(object, false, true), object);
  // As the model wrote them, wherever the template takes text.
  EXPECT_EQ(fitted(text, true, true), text);
  EXPECT_EQ(fitted(object, true, true), object);
  EXPECT_EQ(fitted(text, true, false), text);
  EXPECT_EQ(fitted(object, true, false), R"("{\"a\":[1]}")");
}

TEST(Arguments, ThatAreNoJsonObjectStayText) {
  for (const std::string text : {R"("not json")", R"("[1]")", R"("7")", R"("{\"a\": ")"}) {
    EXPECT_EQ(fitted(text, false, true), text);
  }
  std::string deep = R"({\"a\":)";
  for (int i = 0; i < 100; ++i) deep += "[";
  for (int i = 0; i < 100; ++i) deep += "]";
  deep = "\"" + deep + "}\"";
  EXPECT_EQ(fitted(deep, false, true), deep);
}

}  // namespace
}  // namespace bulkhead::api
