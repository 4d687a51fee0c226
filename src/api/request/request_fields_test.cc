#include "api/request/request_fields.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>

#include "api/request/json_input.h"

namespace bulkhead::api {
namespace {

constexpr int32_t kVocabulary = 100;

struct Decoded {
  Failure failure;
  RequestFields fields;
};

Decoded decode(std::string_view json, Endpoint endpoint) {
  Decoded out;
  boost::json::object body;
  out.failure = parse_object(json, body);
  if (!out.failure) out.failure = decode_fields(body, endpoint, {kVocabulary}, out.fields);
  return out;
}

// A valid request with one more field.
std::string with_field(Endpoint endpoint, std::string_view name, std::string_view value) {
  std::string extra;
  if (name == "top_logprobs") extra = R"("logprobs":true,)";
  if (name == "stream_options") extra = R"("stream":true,)";
  if (name == "max_tokens" && endpoint == kCompletions) extra = R"("echo":true,)";
  const std::string required =
      endpoint == kChat ? R"("messages":[{"role":"user","content":"hi"}])" : R"("prompt":"hi")";
  return fmt::format("{{{}{},\"{}\":{}}}", extra, required, name, value);
}

void expect_accepted(const FieldSpec& field, Endpoint endpoint, std::string_view value) {
  const Decoded out = decode(with_field(endpoint, field.name, value), endpoint);
  EXPECT_FALSE(out.failure.has_value())
      << field.name << " = " << value << ": " << (out.failure ? out.failure->message : "");
}

void expect_refused(const FieldSpec& field, Endpoint endpoint, std::string_view value) {
  const Decoded out = decode(with_field(endpoint, field.name, value), endpoint);
  ASSERT_TRUE(out.failure.has_value()) << field.name << " = " << value;
  EXPECT_EQ(out.failure->status, 400);
  EXPECT_TRUE(out.failure->param.starts_with(field.name)) << out.failure->param;
  EXPECT_NE(out.failure->message.find(field.name), std::string::npos) << out.failure->message;
}

template <typename Check>
void for_each_field(const Check& check) {
  for (const FieldSpec& field : field_table()) {
    for (const Endpoint endpoint : {kChat, kCompletions}) {
      if ((field.endpoints & endpoint) != 0) check(field, endpoint);
    }
  }
}

// C169
TEST(RequestFields, NumbersAreAcceptedUpToTheirLimitsAndNotBeyond) {
  for_each_field([](const FieldSpec& field, Endpoint endpoint) {
    const NumberRule* rule = std::get_if<NumberRule>(&field.rule);
    if (rule == nullptr) return;
    const double step = 1e-3;
    const auto number = [](double value) { return fmt::format("{}", value); };
    expect_refused(field, endpoint, number(rule->min - step));
    expect_accepted(field, endpoint, number(rule->min + step));
    expect_accepted(field, endpoint, number(rule->max));
    expect_refused(field, endpoint, number(rule->max + step));
    if (rule->above_min) {
      expect_refused(field, endpoint, number(rule->min));
    } else {
      expect_accepted(field, endpoint, number(rule->min));
    }
    for (const char* wild : {"1e308", "-1e308", "1e400", "9223372036854775808"}) {
      expect_refused(field, endpoint, wild);
    }
  });
}

// C169
TEST(RequestFields, IntegersAreAcceptedUpToTheirLimitsAndNotBeyond) {
  for_each_field([](const FieldSpec& field, Endpoint endpoint) {
    const IntegerRule* rule = std::get_if<IntegerRule>(&field.rule);
    if (rule == nullptr) return;
    const bool one_only = field.name == "best_of";
    expect_accepted(field, endpoint, fmt::format("{}", rule->min));
    if (one_only) {
      expect_refused(field, endpoint, fmt::format("{}", rule->max));
    } else {
      expect_accepted(field, endpoint, fmt::format("{}", rule->max));
    }
    if (rule->min > std::numeric_limits<int64_t>::min()) {
      expect_refused(field, endpoint, fmt::format("{}", rule->min - 1));
    }
    if (rule->max < std::numeric_limits<int64_t>::max()) {
      expect_refused(field, endpoint, fmt::format("{}", rule->max + 1));
    }
    expect_accepted(field, endpoint, "1.0");
    for (const char* wild : {"9223372036854775808", "-9223372036854775809", "1e308", "1e400", "1.5",
                             "18446744073709551616"}) {
      expect_refused(field, endpoint, wild);
    }
  });
}

// C169, C181
TEST(RequestFields, EveryTypeButTheRightOneIsRefusedByName) {
  for_each_field([](const FieldSpec& field, Endpoint endpoint) {
    const std::string type = type_text(field);
    if (type == "refused") {
      expect_refused(field, endpoint, "true");
      expect_refused(field, endpoint, "\"x\"");
      expect_accepted(field, endpoint, "false");
      return;
    }
    if (type == "accepted") {
      for (const char* value : {"true", "7", "\"x\"", "[1]", "{}"}) {
        expect_accepted(field, endpoint, value);
      }
      return;
    }
    const std::pair<std::string_view, std::string_view> samples[] = {
        {"number", "0.5"}, {"boolean", "true"},      {"string", "\"1\""},
        {"array", "[[]]"}, {"object", "{\"x\":[]}"}, {"text", "NaN"}};
    for (const auto& [kind, value] : samples) {
      if (type.find(kind) != std::string::npos) continue;
      if (type == "integer" && kind == "number") continue;
      const Decoded out = decode(with_field(endpoint, field.name, value), endpoint);
      ASSERT_TRUE(out.failure.has_value()) << field.name << " = " << value;
      EXPECT_EQ(out.failure->status, 400);
      if (kind != "text") {
        EXPECT_TRUE(out.failure->param.starts_with(field.name)) << field.name << " = " << value;
      }
    }
  });
}

// C167, C182
TEST(RequestFields, NullMeansAbsentForEveryOptionalField) {
  std::string all_chat = R"({"messages":[{"role":"user","content":"hi"}])";
  std::string all_completions = R"({"prompt":"hi")";
  for_each_field([&](const FieldSpec& field, Endpoint endpoint) {
    if (field.required) {
      expect_refused(field, endpoint, "null");
      return;
    }
    expect_accepted(field, endpoint, "null");
    (endpoint == kChat ? all_chat : all_completions) += fmt::format(",\"{}\":null", field.name);
  });
  EXPECT_FALSE(decode(all_chat + "}", kChat).failure.has_value());
  EXPECT_FALSE(decode(all_completions + "}", kCompletions).failure.has_value());
}

TEST(RequestFields, UnknownFieldsAreTolerated) {
  const Decoded out =
      decode(R"({"prompt":"x","lora_path":null,"return_routed_experts":7,"session_id":{"a":[1]}})",
             kCompletions);
  EXPECT_FALSE(out.failure.has_value());
}

// C167
TEST(RequestFields, ZeroIsAValueAndNotUnset) {
  for (const char* zero : {"0", "0.0", "-0.0", "-0"}) {
    const Decoded out = decode(with_field(kChat, "temperature", zero), kChat);
    ASSERT_FALSE(out.failure.has_value());
    ASSERT_TRUE(out.fields.temperature.has_value());
    EXPECT_EQ(*out.fields.temperature, 0.0);
  }
}

TEST(RequestFields, SeedsKeepAll64Bits) {
  EXPECT_EQ(decode(with_field(kChat, "seed", "9223372036854775807"), kChat).fields.seed,
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(decode(with_field(kChat, "seed", "-9223372036854775808"), kChat).fields.seed,
            std::numeric_limits<int64_t>::min());
}

struct Row {
  Endpoint endpoint;
  std::string_view name;
  std::string_view value;
  std::string_view param;  // empty: accepted
  std::string_view code;
};

constexpr Row kStructuredFields[] = {
    {kChat, "stop", R"("x")", "", ""},
    {kChat, "stop", R"(["x","yy"])", "", ""},
    {kChat, "stop", "[]", "", ""},
    {kChat, "stop", R"("")", "stop", "invalid_value"},
    {kChat, "stop", R"(["x",""])", "stop[1]", "invalid_value"},
    {kChat, "stop", R"(["x",7])", "stop[1]", "invalid_type"},
    {kChat, "stop_token_ids", "[0,99]", "", ""},
    {kChat, "stop_token_ids", "[0,100]", "stop_token_ids[1]", "invalid_value"},
    {kChat, "stop_token_ids", "[-1]", "stop_token_ids[0]", "invalid_value"},
    {kChat, "logit_bias", R"({"0":-100,"99":100.0})", "", ""},
    {kChat, "logit_bias", R"({"100":1})", "logit_bias", "invalid_value"},
    {kChat, "logit_bias", R"({"-1":1})", "logit_bias", "invalid_value"},
    {kChat, "logit_bias", R"({"1e1":1})", "logit_bias", "invalid_value"},
    {kChat, "logit_bias", R"({"01":1})", "logit_bias", "invalid_value"},
    {kChat, "logit_bias", R"({"":1})", "logit_bias", "invalid_value"},
    {kChat, "logit_bias", R"({"1099511627776":1})", "logit_bias", "invalid_value"},
    {kChat, "logit_bias", R"({"5":100.5,"6":-1e300})", "", ""},
    {kChat, "logit_bias", R"({"5":"1"})", "logit_bias.5", "invalid_type"},
    {kChat, "stream_options", R"({"include_usage":true,"include_obfuscation":false})", "", ""},
    {kChat, "stream_options", R"({"include_usage":1})", "stream_options.include_usage",
     "invalid_type"},
    {kChat, "response_format", R"({"type":"text"})", "", ""},
    {kChat, "response_format", R"({"type":"json_object"})", "", ""},
    {kChat, "response_format", R"({"type":"json_object","schema":{"type":"object"}})", "", ""},
    {kChat, "response_format", R"({"type":"json_object","schema":3})", "response_format.schema",
     "invalid_type"},
    {kChat, "response_format", R"({"type":"json_schema","json_schema":{"name":"a","schema":{}}})",
     "", ""},
    {kChat, "response_format",
     R"({"type":"json_schema","json_schema":{"name":"a","schema":{},"strict":null}})", "", ""},
    {kChat, "response_format", R"({"type":"json_schema"})", "response_format.json_schema",
     "missing_required_parameter"},
    {kChat, "response_format", R"({"type":"json_schema","json_schema":1})",
     "response_format.json_schema", "invalid_type"},
    {kChat, "response_format", R"({"type":"json_schema","json_schema":{"schema":{}}})",
     "response_format.json_schema.name", "missing_required_parameter"},
    {kChat, "response_format", R"({"type":"json_schema","json_schema":{"name":"","schema":{}}})",
     "response_format.json_schema.name", "invalid_value"},
    {kChat, "response_format", R"({"type":"json_schema","json_schema":{"name":"a"}})",
     "response_format.json_schema.schema", "missing_required_parameter"},
    {kChat, "response_format", R"({"type":"json_schema","json_schema":{"name":"a","schema":true}})",
     "response_format.json_schema.schema", "invalid_type"},
    {kChat, "response_format",
     R"({"type":"json_schema","json_schema":{"name":"a","schema":{},"strict":1}})",
     "response_format.json_schema.strict", "invalid_type"},
    {kChat, "response_format", R"({"type":"structural_tag"})", "response_format.type",
     "invalid_value"},
    {kChat, "response_format", R"({"type":"yaml"})", "response_format.type", "invalid_value"},
    {kChat, "response_format", "{}", "response_format.type", "missing_required_parameter"},
    {kChat, "tool_choice", R"("none")", "", ""},
    {kChat, "tool_choice", R"("required")", "", ""},
    {kChat, "tool_choice", R"({"type":"function","function":{"name":"f"}})", "", ""},
    {kChat, "tool_choice", R"({"function":{"name":"f"}})", "", ""},
    {kChat, "tool_choice", R"({"type":"allowed_tools"})", "tool_choice.type",
     "unsupported_parameter"},
    {kChat, "tool_choice", "{}", "tool_choice.function", "missing_required_parameter"},
    {kChat, "tool_choice", R"({"function":"f"})", "tool_choice.function", "invalid_type"},
    {kChat, "tool_choice", R"({"function":{}})", "tool_choice.function.name",
     "missing_required_parameter"},
    {kChat, "tool_choice", R"({"function":{"name":7}})", "tool_choice.function.name",
     "invalid_type"},
    {kChat, "tool_choice", R"({"function":{"name":""}})", "tool_choice.function.name",
     "invalid_value"},
    {kChat, "tool_choice", "true", "tool_choice", "invalid_type"},
    {kChat, "reasoning_effort", R"("minimal")", "", ""},
    {kChat, "reasoning_effort", R"("much")", "reasoning_effort", "invalid_value"},
    {kChat, "thinking", "false", "", ""},
    {kChat, "thinking", R"({"type":"enabled","keep":"all","effort":"low"})", "", ""},
    {kChat, "thinking", R"({"type":"disabled","clear_thinking":false,"keep":null})", "", ""},
    {kChat, "thinking", R"({"type":"on"})", "thinking.type", "invalid_value"},
    {kChat, "thinking", R"({"type":true})", "thinking.type", "invalid_type"},
    {kChat, "thinking", R"({"keep":"some"})", "thinking.keep", "invalid_value"},
    {kChat, "thinking", R"({"effort":3})", "thinking.effort", "invalid_type"},
    {kChat, "thinking", R"({"clear_thinking":0})", "thinking.clear_thinking", "invalid_type"},
    {kChat, "tool_choice", R"("sometimes")", "tool_choice", "invalid_value"},
    {kChat, "tools", R"([{"type":"function","function":{"name":"f","parameters":{}}}])", "", ""},
    {kChat, "tools", "[]", "tools", "invalid_value"},
    {kChat, "tools", R"([{"function":{"name":"f"}}])", "tools[0].type",
     "missing_required_parameter"},
    {kChat, "tools", R"([{"type":"web"}])", "tools[0].type", "invalid_value"},
    {kChat, "tools", R"([{"type":"function"}])", "tools[0].function", "missing_required_parameter"},
    {kChat, "tools", R"([{"type":"function","function":{}}])", "tools[0].function.name",
     "missing_required_parameter"},
    {kChat, "tools", R"([{"type":"function","function":{"name":"a b"}}])", "tools[0].function.name",
     "invalid_value"},
    {kChat, "tools", R"([{"type":"function","function":{"name":"f","parameters":[]}}])",
     "tools[0].function.parameters", "invalid_type"},
    {kChat, "tools", R"([{"type":"function","function":{"name":"f","strict":1}}])",
     "tools[0].function.strict", "invalid_type"},
    {kChat, "tools",
     R"([{"type":"function","function":{"name":"f"}},)"
     R"({"type":"function","function":{"name":"f"}}])",
     "tools[1].function.name", "invalid_value"},
    {kChat, "chat_template_kwargs", R"({"enable_thinking":false})", "", ""},
    {kChat, "chat_template_kwargs", R"({"messages":[]})", "chat_template_kwargs.messages",
     "invalid_value"},
    {kChat, "n", "129", "n", "invalid_value"},
    {kChat, "echo", "true", "echo", "unsupported_parameter"},
    {kChat, "cache_salt", R"("s")", "", ""},
    {kChat, "cache_salt", R"("")", "cache_salt", "invalid_value"},
    {kChat, "cache_salt", "1", "cache_salt", "invalid_type"},
    {kChat, "request_id", R"("a-b_c.d:9")", "", ""},
    {kChat, "request_id", R"("a b")", "request_id", "invalid_value"},
    {kChat, "rid", R"("")", "rid", "invalid_value"},
    {kChat, "rid", R"(["x"])", "rid", "invalid_type"},
    {kChat, "options", R"({"rejectIfBusy":true,"other":1})", "", ""},
    {kChat, "options", R"({"rejectIfBusy":null})", "", ""},
    {kChat, "options", R"({"rejectIfBusy":1})", "options.rejectIfBusy", "invalid_type"},
    {kChat, "service_tier", R"("flex")", "", ""},
    {kChat, "deadline_ms", "86400000", "", ""},
    {kChat, "deadline_ms", "0", "deadline_ms", "invalid_value"},
    {kChat, "priority", "-2147483648", "", ""},
    {kChat, "prompt_logprobs", "21", "prompt_logprobs", "invalid_value"},
    {kCompletions, "best_of", "2", "best_of", "unsupported_parameter"},
    {kCompletions, "suffix", R"("x")", "suffix", "unsupported_parameter"},
    {kCompletions, "echo", "true", "", ""},
    {kCompletions, "echo", "1", "echo", "invalid_type"},
    {kCompletions, "prompt", R"("")", "", ""},
    {kCompletions, "prompt", R"(["one"])", "", ""},
    {kCompletions, "prompt", "[1,2,99]", "", ""},
    {kCompletions, "prompt", "[[1,2]]", "", ""},
    {kCompletions, "prompt", R"(["one","two"])", "", ""},
    {kCompletions, "prompt", R"(["one",[1,2],"two"])", "", ""},
    {kCompletions, "prompt", "[[1],[2,3]]", "", ""},
    {kCompletions, "prompt", R"(["one",2])", "prompt[1]", "invalid_type"},
    {kCompletions, "prompt", R"([[1],["a"]])", "prompt[1][0]", "invalid_type"},
    {kCompletions, "prompt", "[[1],[]]", "prompt[1]", "invalid_value"},
    {kCompletions, "prompt", "[]", "prompt", "invalid_value"},
    {kCompletions, "prompt", "[[]]", "prompt[0]", "invalid_value"},
    {kCompletions, "prompt", "[-1]", "prompt[0]", "invalid_value"},
    {kCompletions, "prompt", "[1,100]", "prompt[1]", "invalid_value"},
    {kCompletions, "prompt", "[2147483648]", "prompt[0]", "invalid_value"},
    {kCompletions, "prompt", "[4294967294]", "prompt[0]", "invalid_value"},
    {kCompletions, "prompt", "[1.5]", "prompt[0]", "invalid_type"},
    {kCompletions, "prompt", R"([1,"a"])", "prompt[1]", "invalid_type"},
    {kCompletions, "prompt", "[[1,-5]]", "prompt[0][1]", "invalid_value"},
};

void expect_row(const Row& row) {
  const Decoded out = decode(with_field(row.endpoint, row.name, row.value), row.endpoint);
  const std::string shown = fmt::format("{} = {}", row.name, row.value.substr(0, 60));
  EXPECT_EQ(out.failure.has_value(), !row.param.empty()) << shown;
  if (!out.failure) return;
  EXPECT_EQ(out.failure->param, row.param) << shown;
  EXPECT_EQ(out.failure->code, row.code) << shown;
}

// C170, C171
TEST(RequestFields, StructuredFieldsNameThePathOfWhatIsWrong) {
  // The last of two equal keys counts, so a row replaces the prompt of the valid request.
  for (const Row& row : kStructuredFields) expect_row(row);
}

TEST(RequestFields, StopStringsAreBoundedInNumberAndLength) {
  const auto stops = [](int count) {
    std::string list = "[\"s0\"";
    for (int i = 1; i < count; ++i) list += fmt::format(",\"s{}\"", i);
    return list + "]";
  };
  const auto quoted = [](size_t length) { return "\"" + std::string(length, 'x') + "\""; };
  expect_row({kChat, "stop", stops(16), "", ""});
  expect_row({kChat, "stop", stops(17), "stop", "invalid_value"});
  expect_row({kChat, "stop", quoted(1024), "", ""});
  expect_row({kChat, "stop", quoted(1025), "stop", "invalid_value"});
}

TEST(RequestFields, LoneSurrogatesAreNoText) {
  for (const char* body : {R"({"prompt":"\ud800"})", R"({"prompt":"\udc00\ud800"})"}) {
    EXPECT_EQ(decode(body, kCompletions).failure->code, "invalid_json") << body;
  }
}

TEST(RequestFields, BiasesAreClampedToWhatMakesADifference) {
  const Decoded out = decode(with_field(kChat, "logit_bias", R"({"1":250,"2":-1e9,"3":5})"), kChat);
  ASSERT_EQ(out.fields.logit_bias.size(), 3u);
  for (const auto& [id, bias] : out.fields.logit_bias) {
    EXPECT_EQ(bias, id == 1 ? 100.0f : id == 2 ? -100.0f : 5.0f);
  }
}

TEST(RequestFields, PromptsAndChoicesTogetherAreBounded) {
  const auto prompts = [](int count) {
    std::string list = "\"p\"";
    for (int i = 1; i < count; ++i) list += ",\"p\"";
    return "\"prompt\":[" + list + "]";
  };
  const auto refused = [](const std::string& fields) {
    const Decoded out = decode("{" + fields + "}", kCompletions);
    return out.failure ? out.failure->param : std::string();
  };
  EXPECT_EQ(refused(prompts(128)), "");
  EXPECT_EQ(refused(prompts(129)), "prompt");
  EXPECT_EQ(refused(prompts(64) + ",\"n\":2"), "");
  EXPECT_EQ(refused(prompts(64) + ",\"n\":3"), "n");
  const Decoded out = decode("{" + prompts(2) + ",\"n\":128}", kCompletions);
  EXPECT_NE(out.failure->message.find("128"), std::string::npos) << "the limit is named";
}

TEST(RequestFields, RulesOfTwoFieldsNameTheOneThatMustChange) {
  EXPECT_EQ(decode(R"({"prompt":"x","stream_options":{}})", kCompletions).failure->param,
            "stream_options");
  EXPECT_EQ(decode(R"({"messages":[{"role":"user","content":"x"}],"top_logprobs":1})", kChat)
                .failure->param,
            "top_logprobs");
  EXPECT_EQ(decode(R"({"prompt":"x","max_tokens":0})", kCompletions).failure->param, "max_tokens");
  EXPECT_FALSE(decode(R"({"prompt":"x","max_tokens":0,"echo":true})", kCompletions).failure);
  EXPECT_EQ(
      decode(R"({"prompt":"x","prompt_logprobs":1,"stream":true})", kCompletions).failure->param,
      "prompt_logprobs");
  const std::string turn = R"({"messages":[{"role":"assistant","content":"x"}],)";
  EXPECT_EQ(decode(turn + R"("continue_final_message":true,"add_generation_prompt":true})", kChat)
                .failure->param,
            "add_generation_prompt");
  EXPECT_FALSE(
      decode(turn + R"("continue_final_message":true,"add_generation_prompt":false})", kChat)
          .failure);
}

TEST(RequestFields, MissingRequiredFieldsAreNamed) {
  EXPECT_EQ(decode("{}", kChat).failure->param, "messages");
  EXPECT_EQ(decode("{}", kCompletions).failure->param, "prompt");
  EXPECT_EQ(decode("{}", kChat).failure->code, "missing_required_parameter");
}

// C145, C181
TEST(RequestFields, BodiesThatAreNoJsonObjectAreRefused) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += '[';
  std::string nested = R"({"prompt":"x","metadata":)";
  for (int i = 0; i < 64; ++i) nested += "[";
  for (int i = 0; i < 64; ++i) nested += "]";
  nested += "}";
  const std::string wrong[] = {"",
                               "   ",
                               "nul",
                               "[]",
                               "\"x\"",
                               "7",
                               "{",
                               "{\"a\":1,}",
                               "{a:1}",
                               "{\"a\":1}}",
                               "{\"a\":1} x",
                               "\xEF\xBB\xBF{}",
                               "{\"a\":NaN}",
                               "/*c*/{}",
                               deep,
                               nested,
                               "{\"a\":\"\xFF\"}",
                               "{\"a\":\"\xC0\xAF\"}"};
  for (const std::string& body : wrong) {
    const Decoded out = decode(body, kCompletions);
    ASSERT_TRUE(out.failure.has_value()) << body.substr(0, 40);
    EXPECT_EQ(out.failure->status, 400);
    EXPECT_EQ(out.failure->code, "invalid_json") << body.substr(0, 40);
  }
}

// C181
TEST(RequestFields, ABodyCutAtAnyByteIsRefused) {
  const std::string whole =
      R"({"prompt":"h\u00e9","temperature":0.5,"stop":["a"],"logit_bias":{"1":-1e1}})";
  EXPECT_FALSE(decode(whole, kCompletions).failure.has_value());
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_TRUE(decode(whole.substr(0, length), kCompletions).failure.has_value()) << length;
  }
}

TEST(RequestFields, TheNumberOfValuesIsBounded) {
  std::string body = R"({"prompt":[0)";
  for (size_t i = 0; i < kJsonValuesMax; ++i) body += ",0";
  body += "]}";
  const Decoded out = decode(body, kCompletions);
  ASSERT_TRUE(out.failure.has_value());
  EXPECT_EQ(out.failure->code, "invalid_json");
}

TEST(RequestFields, TheDocumentationHasARowForEveryField) {
  const char* root = std::getenv("BULKHEAD_SOURCE_DIR");
  ASSERT_NE(root, nullptr);
  std::ifstream file(std::string(root) + "/docs/api.md");
  ASSERT_TRUE(file.good());
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const FieldSpec& field : field_table()) {
    const std::string row =
        type_text(field) == "refused" || type_text(field) == "accepted"
            ? fmt::format("| `{}` | {} |", field.name, range_text(field))
            : fmt::format("| `{}` | {} | {} | {} |", field.name, type_text(field),
                          range_text(field), field.default_text);
    EXPECT_NE(text.find(row), std::string::npos) << "docs/api.md lacks the row " << row;
  }
}

}  // namespace
}  // namespace bulkhead::api
