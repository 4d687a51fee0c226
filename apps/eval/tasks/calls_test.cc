// What is answered by tool calls or in a chat: BFCL and conversations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/eval/tasks/bfcl.h"
#include "apps/eval/tasks/call_check.h"
#include "apps/eval/tasks/conversations.h"
#include "apps/eval/tasks/test_files.h"

namespace bulkhead::apps::eval {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

json::object object_of(const std::string& text) { return json::parse(text).as_object(); }

json::object trip() {
  return object_of(R"({"name": "rail.book", "parameters": {"type": "dict", "properties": {
    "to": {"type": "string"}, "seats": {"type": "integer"}, "price": {"type": "float"},
    "stops": {"type": "array", "items": {"type": "string"}}, "quiet": {"type": "boolean"},
    "pass": {"type": "dict", "properties": {}},
    "legs": {"type": "array", "items": {"type": "dict"}},
    "seen": {"type": "tuple", "items": {"type": "integer"}}, "note": {"type": "any"}},
    "required": ["to"]}})");
}

// Why a call with these arguments is not the wanted one.
std::string fault(const std::string& arguments, const std::string& allowed) {
  return call_fault(trip(), {"rail_book", object_of(arguments)},
                    object_of(R"({"rail.book": )" + allowed + "}"));
}

TEST(CallCheck, TextsCountWithoutCaseAndSomeSigns) {
  EXPECT_THAT(fault(R"({"to": "new-york, N.Y."})", R"({"to": ["New York NY"]})"), IsEmpty());
  EXPECT_THAT(fault(R"({"to": "it's"})", R"({"to": ["It\"s"]})"), IsEmpty());
  EXPECT_THAT(fault(R"({"to": "Oslo!"})", R"({"to": ["Oslo"]})"), HasSubstr("another value"));
  EXPECT_THAT(fault(R"({"to": 5})", R"({"to": ["5"]})"), HasSubstr("another type"));
}

TEST(CallCheck, ParametersAreThoseThatAreAllowed) {
  EXPECT_THAT(fault(R"({"to": "a"})", R"({"to": ["a"], "seats": ["", 2]})"), IsEmpty());
  EXPECT_THAT(fault(R"({"to": "a"})", R"({"to": ["a"], "seats": [2]})"),
              HasSubstr("'seats' is missing"));
  EXPECT_THAT(fault(R"({"seats": 2})", R"({"to": ["", "a"], "seats": [2]})"),
              HasSubstr("'to' is missing"));
  EXPECT_THAT(fault(R"({"to": "a", "class": 1})", R"({"to": ["a"]})"), HasSubstr("too much"));
  EXPECT_THAT(fault(R"({"to": "a", "seats": 1})", R"({"to": ["a"]})"), HasSubstr("too much"));
}

TEST(CallCheck, NumbersKeepTheirType) {
  EXPECT_THAT(fault(R"({"to": "a", "seats": 2})", R"({"to": ["a"], "seats": [2, 3]})"), IsEmpty());
  EXPECT_THAT(fault(R"({"to": "a", "seats": 2.0})", R"({"to": ["a"], "seats": [2]})"),
              HasSubstr("another type"));
  EXPECT_THAT(fault(R"({"to": "a", "seats": true})", R"({"to": ["a"], "seats": [1]})"),
              HasSubstr("another type"));
  EXPECT_THAT(fault(R"({"to": "a", "price": 5})", R"({"to": ["a"], "price": [5.0]})"), IsEmpty());
  EXPECT_THAT(fault(R"({"to": "a", "price": 5.5})", R"({"to": ["a"], "price": [5.0]})"),
              HasSubstr("another value"));
  EXPECT_THAT(fault(R"({"to": "a", "quiet": false})", R"({"to": ["a"], "quiet": [false]})"),
              IsEmpty());
}

TEST(CallCheck, AVariableStandsAsItIs) {
  // A text is allowed where a whole number is described: it is compared to the letter.
  EXPECT_THAT(fault(R"({"to": "a", "seats": "n"})", R"({"to": ["a"], "seats": ["n"]})"), IsEmpty());
  EXPECT_THAT(fault(R"({"to": "a", "seats": "N"})", R"({"to": ["a"], "seats": ["n"]})"),
              HasSubstr("another value"));
}

TEST(CallCheck, ListsAndDictionariesCountInside) {
  EXPECT_THAT(fault(R"({"to": "a", "stops": ["B.", "c"]})",
                    R"({"to": ["a"], "stops": [["x"], ["b", "C"]]})"),
              IsEmpty());
  EXPECT_THAT(
      fault(R"({"to": "a", "stops": ["c", "b"]})", R"({"to": ["a"], "stops": [["b", "c"]]})"),
      HasSubstr("another value"));
  EXPECT_THAT(fault(R"({"to": "a", "stops": [1]})", R"({"to": ["a"], "stops": [["b"]]})"),
              HasSubstr("another type"));
  EXPECT_THAT(fault(R"({"to": "a", "stops": "b"})", R"({"to": ["a"], "stops": [["b"]]})"),
              HasSubstr("another type"));
  EXPECT_THAT(fault(R"({"to": "a", "seen": [1, 2]})", R"({"to": ["a"], "seen": [[1, 2]]})"),
              IsEmpty());
  EXPECT_THAT(fault(R"({"to": "a", "pass": {"kind": "Half-Fare"}})",
                    R"({"to": ["a"], "pass": [{"kind": ["half fare"], "year": ["", 2024]}]})"),
              IsEmpty());
  EXPECT_THAT(fault(R"({"to": "a", "pass": {"kind": "half"}})",
                    R"({"to": ["a"], "pass": ["", {"kind": ["half"], "year": [2024]}]})"),
              HasSubstr("another value"));
  EXPECT_THAT(fault(R"({"to": "a", "pass": {"other": 1}})",
                    R"({"to": ["a"], "pass": [{"kind": ["", "half"]}]})"),
              HasSubstr("another value"));
  EXPECT_THAT(fault(R"({"to": "a", "legs": [{"by": "Bus"}, {"by": "tram"}]})",
                    R"({"to": ["a"], "legs": [[{"by": ["bus"]}, {"by": ["tram", "metro"]}]]})"),
              IsEmpty());
  EXPECT_THAT(fault(R"({"to": "a", "legs": [{"by": "bus"}]})",
                    R"({"to": ["a"], "legs": [[{"by": ["bus"]}, {"by": ["tram"]}]]})"),
              HasSubstr("another value"));
}

TEST(CallCheck, CallsComeInAnyOrderAndNoneTwice) {
  const FunctionList functions = {trip(), object_of(R"({"name": "stay", "parameters":
    {"type": "dict", "properties": {"at": {"type": "string"}}, "required": ["at"]}})")};
  const std::vector<json::object> wanted = {object_of(R"({"rail.book": {"to": ["a"]}})"),
                                            object_of(R"({"stay": {"at": ["a"]}})")};
  const DecodedCall ride{"rail_book", object_of(R"({"to": "A"})")};
  const DecodedCall stay{"stay", object_of(R"({"at": "A"})")};
  EXPECT_THAT(calls_fault(functions, {stay, ride}, wanted), IsEmpty());
  EXPECT_THAT(calls_fault(functions, {ride}, wanted), HasSubstr("1 calls instead of 2"));
  EXPECT_THAT(calls_fault(functions, {ride, ride}, wanted), HasSubstr("'rail_book' is called"));
  EXPECT_THAT(calls_fault(functions, {ride, ride}, {wanted[0], wanted[0]}), IsEmpty());
  EXPECT_THAT(calls_fault(functions, {}, {}), IsEmpty());
  EXPECT_THAT(calls_fault(functions, {ride}, {object_of(R"({"fly": {}})")}),
              HasSubstr("'fly' is not described"));
}

TEST(CallCheck, AValidCallFitsAFunctionWhateverWasWanted) {
  const FunctionList functions = {trip()};
  const auto valid = [&functions](const std::string& name, const std::string& arguments) {
    return validity_fault(functions, {{name, object_of(arguments)}});
  };
  EXPECT_THAT(valid("rail_book", R"({"to": "x", "price": 3, "note": [1]})"), IsEmpty());
  EXPECT_THAT(valid("rail_bok", R"({"to": "x"})"), HasSubstr("no function"));
  EXPECT_THAT(valid("rail_book", "{}"), HasSubstr("'to' is missing"));
  EXPECT_THAT(valid("rail_book", R"({"to": "x", "seats": "2"})"), HasSubstr("another type"));
  EXPECT_THAT(valid("rail_book", R"({"to": "x", "y": 1})"), HasSubstr("too much"));
  EXPECT_FALSE(decode_calls({{"a", "[1]"}}));
  EXPECT_FALSE(decode_calls({{"a", "{}"}, {"a", "{"}}));
  EXPECT_FALSE(decode_calls({{"a", std::string(100, '[')}}));
  EXPECT_EQ(decode_calls({})->size(), 0u);
}

TEST(Bfcl, AFunctionBecomesATool) {
  const json::object tool = tool_of(object_of(R"({"name": "a.b", "description": "d", "parameters":
    {"type": "dict", "properties": {"x": {"type": "float", "optional": true},
     "y": {"type": "tuple", "items": {"type": "any"}},
     "z": {"type": "dict", "properties": {"w": {"type": "integer"}}}}, "required": ["x"]}})"));
  EXPECT_EQ(json::serialize(tool),
            R"({"name":"a_b","description":"d","parameters":{"type":"object","properties":{)"
            R"("x":{"type":"number"},"y":{"type":"array","items":{"type":"string"}},)"
            R"("z":{"type":"object","properties":{"w":{"type":"integer"}}}},"required":["x"]}})");
}

class CallTasks : public ::testing::Test {
 protected:
  void write_bfcl() const {
    for (const std::string set : {"simple_python", "multiple", "parallel", "parallel_multiple",
                                  "live_simple", "irrelevance"}) {
      data_.write("eval/bfcl/BFCL_v4_" + set + ".json",
                  R"({"id": ")" + set +
                      R"(_0", "question": [[{"role": "user", "content": "Go"}]],)"
                      R"( "function": [{"name": "go", "description": "d", "parameters": {"type":)"
                      R"( "dict", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}]})"
                      "\n");
      data_.write("eval/bfcl/answer_BFCL_v4_" + set + ".json",
                  R"({"id": ")" + set +
                      R"(_0", "ground_truth": [{"go": {"n": [1]}}]})"
                      "\n");
    }
  }
  static std::pair<double, double> measures(const Question& question,
                                            const std::vector<ToolCall>& calls) {
    Reply reply;
    reply.calls = calls;
    const Verdict verdict = question.judge(reply);
    EXPECT_EQ(verdict.measures[0].name, "acc");
    EXPECT_EQ(verdict.measures[1].name, "valid_calls");
    return {verdict.measures[0].value, verdict.measures[1].value};
  }

  DataFolder data_;
};

TEST_F(CallTasks, BfclScoresTheCallsOfAChat) {
  write_bfcl();
  const base::Result<Task> task = load_task("bfcl", {data_.path(), -1});
  ASSERT_TRUE(task.ok()) << task.error().message;
  ASSERT_EQ(task->questions.size(), 6u);
  const Question& simple = task->questions[0];
  EXPECT_EQ(simple.id, "bfcl/simple_python_0");
  const auto& ask = std::get<ChatAsk>(simple.ask);
  EXPECT_EQ(ask.messages, R"([{"role":"user","content":"Go"}])");
  EXPECT_THAT(ask.tools, HasSubstr(R"("parameters":{"type":"object")"));
  EXPECT_EQ(measures(simple, {{"go", R"({"n": 1})"}}), std::pair(1.0, 1.0));
  EXPECT_EQ(measures(simple, {{"go", R"({"n": 2})"}}), std::pair(0.0, 1.0));
  EXPECT_EQ(measures(simple, {{"go", R"({"n": "1"})"}}), std::pair(0.0, 0.0));
  EXPECT_EQ(measures(simple, {{"go", "no json"}}), std::pair(0.0, 0.0));
  EXPECT_EQ(measures(simple, {}), std::pair(0.0, 1.0));
  const Question& irrelevant = task->questions[5];
  EXPECT_EQ(measures(irrelevant, {}), std::pair(1.0, 1.0));
  EXPECT_EQ(measures(irrelevant, {{"go", R"({"n": 1})"}}), std::pair(0.0, 1.0));
  EXPECT_EQ(measures(irrelevant, {{"go", "no json"}}), std::pair(1.0, 0.0));
}

TEST_F(CallTasks, BfclSaysWhatIsMissing) {
  EXPECT_THAT(load_task("bfcl", {data_.path(), -1}).error().message,
              HasSubstr("ShishirPatil/gorilla"));
  write_bfcl();
  data_.write("eval/bfcl/answer_BFCL_v4_multiple.json", R"({"id": "x", "ground_truth": []})"
                                                        "\n");
  EXPECT_THAT(load_task("bfcl", {data_.path(), -1}).error().message,
              HasSubstr("multiple_0: there is no answer"));
}

TEST_F(CallTasks, ConversationsCountCallsResultsJsonOrText) {
  const auto right = [](const WantedAnswer& wanted, const std::string& text,
                        const std::vector<ToolCall>& calls) {
    Reply reply;
    reply.text = text;
    reply.calls = calls;
    return is_right(wanted, reply);
  };
  const ToolCall lamp{"lamp", R"({"a": 1, "b": "x"})"};
  EXPECT_TRUE(right({"", {lamp}}, "", {{"lamp", R"({"b":"x","a":1})"}}));
  EXPECT_FALSE(right({"", {lamp}}, "", {}));
  EXPECT_FALSE(right({"", {lamp}}, "", {{"lamp", R"({"a": 1})"}}));
  EXPECT_FALSE(right({"", {lamp}}, "", {{"lamp", "{"}}));
  EXPECT_FALSE(right({"Hello", {}}, "Hello", {lamp}));
  EXPECT_TRUE(right({"Hello", {}}, " Hello\n", {}));
  EXPECT_TRUE(right({"#### 5", {}}, "2+3\n#### 5", {}));
  EXPECT_FALSE(right({"#### 5", {}}, "#### 6", {}));
  EXPECT_TRUE(right({R"({"a": 1, "b": 2})", {}}, R"({"b":2,"a":1})", {}));
  EXPECT_FALSE(right({R"({"a": 1})", {}}, "{", {}));

  data_.write("eval/conversations/greet.jsonl",
              R"({"id": "1", "messages": [{"role": "user", "content": "Hi"}], "expected":)"
              R"( {"role": "assistant", "content": "Hello"}})"
              "\n");
  const base::Result<Task> task = load_task("conversations", {data_.path(), -1});
  ASSERT_TRUE(task.ok()) << task.error().message;
  EXPECT_EQ(task->questions[0].id, "conversations/greet/1");
  Reply reply;
  reply.text = "Hello";
  EXPECT_EQ(task->questions[0].judge(reply).measures[0].value, 1.0);
  const std::string twice = R"({"id": "1", "messages": [{"role": "user"}], "expected": {}})"
                            "\n";
  data_.write("eval/conversations/greet.jsonl", twice + twice);
  EXPECT_THAT(load_task("conversations", {data_.path(), -1}).error().message,
              HasSubstr("two questions of conversations are called conversations/greet/1"));
  data_.write("eval/conversations/greet.jsonl", R"({"id": "1", "messages": []})"
                                                "\n");
  EXPECT_THAT(load_task("conversations", {data_.path(), -1}).error().message,
              HasSubstr("conversation 1 has no list 'messages'"));
}

}  // namespace
}  // namespace bulkhead::apps::eval
