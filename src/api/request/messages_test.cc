#include "api/request/messages.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace bulkhead::api {
namespace {

struct Read {
  Failure failure;
  std::string messages;  // as JSON
};

Read read(std::string_view json) {
  boost::json::error_code error;
  boost::json::value value =
      boost::json::parse(boost::json::string_view(json.data(), json.size()), error);
  EXPECT_FALSE(error) << json;
  RequestFields fields;
  Read out;
  out.failure = read_messages(value, {100}, fields);
  if (!out.failure) out.messages = boost::json::serialize(fields.messages);
  return out;
}

TEST(Messages, ComeOutWithRoleAndStringContent) {
  struct Row {
    std::string_view in;
    std::string_view out;
  };
  const Row rows[] = {
      {R"([{"role":"user","content":"hi"}])", R"([{"role":"user","content":"hi"}])"},
      {R"([{"role":"developer","content":"be brief"}])",
       R"([{"role":"system","content":"be brief"}])"},
      {R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])",
       R"([{"role":"user","content":"a\nb"}])"},
      {R"([{"role":"user","content":[]}])", R"([{"role":"user","content":""}])"},
      {R"([{"role":"user","content":null}])", R"([{"role":"user","content":""}])"},
      {R"([{"role":"assistant"}])", R"([{"role":"assistant","content":""}])"},
      {R"([{"content":"x","name":"bob","role":"user","refusal":null}])",
       R"([{"role":"user","content":"x","name":"bob"}])"},
      {R"([{"role":"tool","content":"42","tool_call_id":"c1"}])",
       R"([{"role":"tool","content":"42","tool_call_id":"c1"}])"},
      {R"([{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",)"
       R"("function":{"name":"f","arguments":"{\"x\": [1]}"}}]}])",
       R"([{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function",)"
       R"("function":{"name":"f","arguments":"{\"x\": [1]}"}}]}])"},
      {R"([{"role":"assistant","tool_calls":[{"id":null,"function":{"name":"f","arguments":" "}},)"
       R"({"function":{"name":"g"}}]}])",
       R"([{"role":"assistant","content":"","tool_calls":[)"
       R"({"function":{"name":"f","arguments":{}}},{"function":{"name":"g","arguments":{}}}]}])"},
      {R"([{"role":"assistant","content":"a","reasoning":"r"}])",
       R"([{"role":"assistant","content":"a","reasoning_content":"r"}])"},
      {R"([{"role":"assistant","content":"a","reasoning":"r","reasoning_content":"c"}])",
       R"([{"role":"assistant","content":"a","reasoning_content":"c"}])"},
      {R"([{"role":"assistant","content":"","tool_calls":[{"function":)"
       R"({"name":"f","arguments":"not json"}}]}])",
       R"([{"role":"assistant","content":"","tool_calls":[{"function":)"
       R"({"name":"f","arguments":"not json"}}]}])"},
      {R"([{"role":"assistant","content":"","tool_calls":null,"function_call":null}])",
       R"([{"role":"assistant","content":""}])"},
  };
  for (const Row& row : rows) {
    const Read got = read(row.in);
    ASSERT_FALSE(got.failure.has_value()) << row.in << ": " << got.failure->message;
    EXPECT_EQ(got.messages, row.out) << row.in;
  }
}

// C179
TEST(Messages, AreRefusedWithTheirPath) {
  struct Row {
    std::string_view in;
    std::string_view param;
    std::string_view code;
  };
  const Row rows[] = {
      {R"("hi")", "messages", "invalid_type"},
      {R"([])", "messages", "invalid_value"},
      {R"(["hi"])", "messages[0]", "invalid_type"},
      {R"([{"content":"x"}])", "messages[0].role", "missing_required_parameter"},
      {R"([{"role":7,"content":"x"}])", "messages[0].role", "invalid_type"},
      {R"([{"role":"","content":"x"}])", "messages[0].role", "invalid_value"},
      {R"([{"role":"SYSTEM","content":"x"}])", "messages[0].role", "invalid_value"},
      {R"([{"role":"function","content":"x"}])", "messages[0].role", "invalid_value"},
      {R"([{"role":"user","content":"x"},{"role":"user"}])", "messages[1].content",
       "missing_required_parameter"},
      {R"([{"role":"user","content":{"text":"x"}}])", "messages[0].content", "invalid_type"},
      {R"([{"role":"user","content":["x"]}])", "messages[0].content[0]", "invalid_type"},
      {R"([{"role":"user","content":[{"text":"x"}]}])", "messages[0].content[0].type",
       "missing_required_parameter"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text",
       "missing_required_parameter"},
      {R"([{"role":"user","content":[{"type":"text","text":1}]}])", "messages[0].content[0].text",
       "invalid_type"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x"}}]}])",
       "messages[0].content[0].type", "unsupported_parameter"},
      {R"([{"role":"user","content":[{"type":"smell"}]}])", "messages[0].content[0].type",
       "invalid_value"},
      {R"([{"role":"tool","content":"x"}])", "messages[0].tool_call_id",
       "missing_required_parameter"},
      {R"([{"role":"tool","content":"x","tool_call_id":1}])", "messages[0].tool_call_id",
       "invalid_type"},
      {R"([{"role":"user","content":"x","tool_calls":[]}])", "messages[0].tool_calls",
       "invalid_value"},
      {R"([{"role":"assistant","tool_calls":{}}])", "messages[0].tool_calls", "invalid_type"},
      {R"([{"role":"assistant","tool_calls":[7]}])", "messages[0].tool_calls[0]", "invalid_type"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"arguments":"{}"}}]}])",
       "messages[0].tool_calls[0].function.name", "missing_required_parameter"},
      {R"([{"role":"assistant","tool_calls":[{"id":7,"function":{"name":"f"}}]}])",
       "messages[0].tool_calls[0].id", "invalid_type"},
      {R"([{"role":"assistant","content":"a","reasoning_content":7}])",
       "messages[0].reasoning_content", "invalid_type"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":[1]}}]}])",
       "messages[0].tool_calls[0].function.arguments", "invalid_type"},
  };
  for (const Row& row : rows) {
    const Read got = read(row.in);
    ASSERT_TRUE(got.failure.has_value()) << row.in;
    EXPECT_EQ(got.failure->param, row.param) << row.in;
    EXPECT_EQ(got.failure->code, row.code) << row.in;
  }
}

}  // namespace
}  // namespace bulkhead::api
