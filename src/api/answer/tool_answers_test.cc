// Reasoning and tool calls through the whole API: prompts in, scripted tokens, answers out.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "api/test_doubles.h"
#include "base/rng.h"
#include "chat/output/output_parser.h"

namespace bulkhead::api {
namespace {

namespace json = boost::json;
using testing::ApiWorld;
using testing::MemoryWriter;
using testing::ModelSetup;
using testing::ScriptedGenerator;
using wire::FinishReason;

std::string template_file(const std::string& name) {
  const char* root = std::getenv("BULKHEAD_SOURCE_DIR");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_NE(root, nullptr) << "run by ctest, or set BULKHEAD_SOURCE_DIR";
  if (root == nullptr) return {};
  std::ifstream file(std::string(root) + "/tests/chat/templates/" + name + ".jinja");
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

ModelSetup with_format(const std::string& file, chat::ToolFormat tools,
                       chat::ReasoningFormat reasoning) {
  ModelSetup model;
  model.chat_template = template_file(file);
  model.tools = tools;
  model.reasoning = reasoning;
  model.control_tokens = chat::output_markers(tools);
  for (const char* turn : {"<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>",
                           "<|user|>", "<|assistant|>", "<|observation|>", "<|system|>"}) {
    model.control_tokens.emplace_back(turn);
  }
  return model;
}

ModelSetup kimi() {
  return with_format("kimi_turns", chat::ToolFormat::kKimiK2, chat::ReasoningFormat::kKimiK2);
}
ModelSetup glm() {
  return with_format("glm_turns", chat::ToolFormat::kGlm47, chat::ReasoningFormat::kGlm45);
}
ModelSetup hermes() {
  return with_format("chatml_tools", chat::ToolFormat::kHermes, chat::ReasoningFormat::kQwen3);
}

constexpr const char* kTools =
    R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",)"
    R"("properties":{"a":{"type":"string"},"n":{"type":"integer"}}}}}])";
const std::string kCall =
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
    "{\"a\":\"x\"}<|tool_call_end|><|tool_calls_section_end|>";

// The ids of a text in which every control token counts.
std::vector<wire::TokenId> ids_of(const ApiWorld& world, std::string_view text) {
  std::vector<wire::TokenId> ids;
  world.tokenizer.encode(text, text::AddedTokens::kRecognise, ids);
  return ids;
}

void play(ApiWorld& world, ScriptedGenerator::Running& running, std::string_view text) {
  for (const wire::TokenId id : ids_of(world, text)) world.generator.token(running, id);
}

std::string prompt_of(ApiWorld& world) {
  return world.tokenizer.decode(world.generator.last().request.prompt, false);
}

std::shared_ptr<MemoryWriter> answered(ApiWorld& world, const std::string& fields,
                                       std::string_view text,
                                       FinishReason reason = FinishReason::kStop) {
  auto writer = world.chat(fields);
  if (writer->sent) return writer;
  play(world, world.generator.last(), text);
  world.generator.finish(world.generator.last(), reason);
  world.pump();
  return writer;
}

const json::object& choice_of(const json::object& body) {
  return body.at("choices").at(0).get_object();
}

std::string text_of(const json::value& value) {
  return value.is_string() ? std::string(value.get_string()) : json::serialize(value);
}

std::string member(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr ? "(absent)" : text_of(*value);
}

// A choice as a client puts it together, from a whole answer or from chunks.
struct Message {
  std::string content;
  std::string reasoning;
  std::vector<std::string> calls;  // "id name arguments"
  std::string finish_reason;
  size_t records = 0;
  std::string bytes = {};  // of the log-probabilities' records

  bool operator==(const Message&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Message& message) {
  out << "content [" << message.content << "] reasoning [" << message.reasoning << "] "
      << message.finish_reason;
  for (const std::string& call : message.calls) out << "\n" << call;
  return out;
}

void add_records(const json::object& choice, Message& out) {
  const json::value& logprobs = choice.at("logprobs");
  if (!logprobs.is_object()) return;
  for (const json::value& record : logprobs.at("content").as_array()) {
    ++out.records;
    for (const json::value& byte : record.at("bytes").as_array()) {
      out.bytes += static_cast<char>(byte.as_int64());
    }
  }
}

Message whole(const json::object& choice) {
  Message out;
  const json::object& message = choice.at("message").get_object();
  EXPECT_EQ(member(message, "role"), "assistant");
  if (message.at("content").is_string()) out.content = member(message, "content");
  if (message.contains("reasoning_content")) out.reasoning = member(message, "reasoning_content");
  if (const json::value* calls = message.if_contains("tool_calls")) {
    for (const json::value& one : calls->as_array()) {
      const json::object& call = one.get_object();
      EXPECT_EQ(member(call, "type"), "function");
      const json::object& function = call.at("function").get_object();
      out.calls.push_back(member(call, "id") + " " + member(function, "name") + " " +
                          member(function, "arguments"));
    }
  }
  out.finish_reason = member(choice, "finish_reason");
  add_records(choice, out);
  return out;
}

void add_call_delta(const json::object& delta, Message& out) {
  const auto index = static_cast<size_t>(delta.at("index").as_int64());
  const json::object& function = delta.at("function").get_object();
  if (delta.contains("id")) {
    ASSERT_EQ(index, out.calls.size()) << "calls begin in order, once each";
    EXPECT_EQ(member(delta, "type"), "function");
    EXPECT_FALSE(member(function, "name").empty());
    EXPECT_EQ(member(function, "arguments"), "");
    out.calls.push_back(member(delta, "id") + " " + member(function, "name") + " ");
  } else {
    ASSERT_LT(index, out.calls.size());
    EXPECT_FALSE(function.contains("name"));
    EXPECT_FALSE(member(function, "arguments").empty());
    out.calls[index] += member(function, "arguments");
  }
}

// Chunks of choice 0; every chunk tells of one thing.
Message joined(const std::vector<std::string>& events) {
  Message out;
  bool role = false;
  for (const std::string& event : events) {
    if (event == "[DONE]") break;
    const json::value chunk = json::parse(event);
    if (chunk.at("choices").as_array().empty()) continue;
    const json::object& choice = chunk.at("choices").at(0).get_object();
    const json::object& delta = choice.at("delta").get_object();
    EXPECT_TRUE(role || delta.contains("role")) << "the role comes first";
    role = true;
    if (delta.contains("content")) out.content += member(delta, "content");
    if (delta.contains("reasoning_content")) out.reasoning += member(delta, "reasoning_content");
    if (const json::value* calls = delta.if_contains("tool_calls")) {
      EXPECT_EQ(calls->as_array().size(), 1u) << "never an empty list, never two at once";
      for (const json::value& call : calls->as_array()) add_call_delta(call.get_object(), out);
    }
    if (choice.at("finish_reason").is_string()) out.finish_reason = member(choice, "finish_reason");
    add_records(choice, out);
  }
  return out;
}

struct Case {
  ModelSetup (*model)();
  std::string text;  // what the model writes
  Message expected;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {kimi,
       "I need f.</think>Let me look." + kCall + "dropped",
       {"Let me look.", "I need f.", {R"(functions.f:0 f {"a":"x"})"}, "tool_calls"}},
      {kimi,
       "I need f." + kCall,
       {"", "I need f.", {R"(functions.f:0 f {"a":"x"})"}, "tool_calls"}},
      {kimi, "So.</think>Paris is \"it\".", {"Paris is \"it\".", "So.", {}, "stop"}},
      {glm,
       "r1</think>yo<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value><arg_key>n</arg_key>"
       "<arg_value>2</arg_value></tool_call>",
       {"yo", "r1", {R"(call_ f {"a": "x", "n": 2})"}, "tool_calls"}},
      {glm, "r1</think>yo", {"yo", "r1", {}, "stop"}},
      {hermes,
       "<think>\nplan\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 1}}\n"
       "</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
       {"", "plan", {R"(call_ f {"n": 1})", "call_ g {}"}, "tool_calls"}},
      {hermes, "no call and no thoughts", {"no call and no thoughts", "", {}, "stop"}},
      {hermes,
       "<tool_call>{\"name\": 7}</tool_call>",
       {"<tool_call>{\"name\": 7}</tool_call>", "", {}, "stop"}},
  };
  return kCases;
}

// Ids that the server makes are cut down to what they begin with.
Message without_made_ids(Message message) {
  for (std::string& call : message.calls) {
    if (!call.starts_with("call_")) continue;
    const size_t space = call.find(' ');
    EXPECT_EQ(space, std::string_view("call_").size() + 24) << call;
    call = "call_" + call.substr(space);
  }
  return message;
}

TEST(ToolAnswers, SayWhatTheModelWrote) {
  for (const Case& one : cases()) {
    ApiWorld world({}, one.model());
    const auto writer = answered(world, kTools, one.text);
    ASSERT_TRUE(writer->sent && writer->sent->status == 200) << one.text;
    EXPECT_EQ(without_made_ids(whole(choice_of(writer->body()))), one.expected) << one.text;
  }
}

TEST(ToolAnswers, HaveNoContentWhereThereAreOnlyCalls) {
  ApiWorld world({}, kimi());
  const json::object body = answered(world, kTools, "I need f." + kCall)->body();
  EXPECT_TRUE(choice_of(body).at("message").at("content").is_null());
  const json::object text = answered(world, kTools, "</think>")->body();
  EXPECT_EQ(text_of(choice_of(text).at("message").at("content")), "");
}

// C109, C116, C119: any number of tokens at a time, any number of streams at once.
TEST(ToolAnswers, AreTheSameInAStreamUnderEveryTiming) {
  base::Rng rng(3);
  for (const Case& one : cases()) {
    ApiWorld world({}, one.model());
    struct Open {
      std::shared_ptr<MemoryWriter> writer;
      size_t at = 0;
    };
    std::vector<Open> open(6);
    for (Open& each : open) {
      each.writer = world.chat(std::string(kTools) + R"(,"stream":true)");
    }
    const std::vector<wire::TokenId> ids = ids_of(world, one.text);
    for (size_t left = open.size(); left > 0;) {
      const size_t i = rng.below(open.size());
      if (open[i].at > ids.size()) continue;
      auto& running = world.generator.submitted[i];
      for (uint64_t n = 1 + rng.below(5); n > 0 && open[i].at <= ids.size(); --n) {
        if (open[i].at == ids.size()) {
          world.generator.finish(running, FinishReason::kStop);
          --left;
        } else {
          world.generator.token(running, ids[open[i].at]);
        }
        ++open[i].at;
      }
      if (rng.below(2) == 0) world.pump();
    }
    world.pump();
    for (const Open& each : open) {
      EXPECT_EQ(without_made_ids(joined(each.writer->events())), one.expected) << one.text;
      EXPECT_TRUE(each.writer->finished);
    }
  }
}

TEST(ToolAnswers, StreamArgumentsAsTheyCome) {
  ApiWorld world({}, kimi());
  const auto writer = world.chat(std::string(kTools) + R"(,"stream":true)");
  play(world, world.generator.last(), kCall.substr(0, kCall.find('x') + 1));
  world.pump();
  const Message so_far = joined(writer->events());
  EXPECT_EQ(so_far.calls, std::vector<std::string>{R"(functions.f:0 f {"a":"x)"});
}

// C128
TEST(ToolAnswers, ThatAreCutOffSayLength) {
  for (const size_t cut : {kCall.find("{\"a\"") + 3, kCall.size()}) {
    ApiWorld world({}, kimi());
    const Message message = whole(choice_of(
        answered(world, kTools, "</think>" + kCall.substr(0, cut), FinishReason::kLength)->body()));
    EXPECT_EQ(message.finish_reason, "length");
    EXPECT_EQ(message.calls.size(), 1u);
  }
  // An end token inside of a call completes none.
  ApiWorld world({}, kimi());
  const Message ended = whole(
      choice_of(answered(world, kTools, "</think>" + kCall.substr(0, kCall.find("x\"")))->body()));
  EXPECT_EQ(ended.finish_reason, "stop");
  EXPECT_EQ(ended.calls, std::vector<std::string>{R"(functions.f:0 f {"a":")"});
}

// C128
TEST(ToolAnswers, WithToolChoiceNoneHaveNeitherCallsNorMarkup) {
  ApiWorld world({}, kimi());
  const std::string none = std::string(kTools) + R"(,"tool_choice":"none")";
  const Message message = whole(choice_of(answered(world, none, "So.</think>No." + kCall)->body()));
  EXPECT_EQ(message, (Message{"No.", "So.", {}, "stop"}));
  EXPECT_EQ(prompt_of(world).find("tool_declare"), std::string::npos);
}

TEST(ToolAnswers, AreTextWithoutToolsInTheRequest) {
  ApiWorld world({}, kimi());
  const Message message = whole(choice_of(answered(world, "", "So.</think>" + kCall)->body()));
  EXPECT_TRUE(message.calls.empty());
  EXPECT_EQ(message.reasoning, "So.");
  // The double's markers are special tokens, which an answer leaves out.
  EXPECT_EQ(message.content, R"(functions.f:0{"a":"x"})");
}

TEST(ToolAnswers, WithoutParsersAreWhatTheyWereBefore) {
  ApiWorld world;
  const Message message = whole(choice_of(
      answered(world, kTools, "<think>x</think><tool_call>{\"name\": \"f\"}</tool_call>")->body()));
  EXPECT_EQ(message.content, "<think>x</think><tool_call>{\"name\": \"f\"}</tool_call>");
}

TEST(ToolAnswers, EndAfterOneCallWhereParallelCallsAreNotWanted) {
  ApiWorld world({}, hermes());
  const std::string text =
      "a<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"
      "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>b";
  for (const std::string stream : {"", R"(,"stream":true)"}) {
    const auto writer =
        world.chat(std::string(kTools) + R"(,"parallel_tool_calls":false)" + stream);
    auto& running = world.generator.last();
    play(world, running, text);
    world.pump();
    EXPECT_TRUE(running.cancelled);
    world.generator.finish(running, FinishReason::kCancelled);
    world.pump();
    const Message message =
        stream.empty() ? whole(choice_of(writer->body())) : joined(writer->events());
    EXPECT_EQ(without_made_ids(message), (Message{"a", "", {"call_ f {}"}, "tool_calls"}));
  }
  // usage counts up to the token that ended the call.
  const auto writer = world.chat(std::string(kTools) + R"(,"parallel_tool_calls":false)");
  play(world, world.generator.last(), text);
  world.generator.finish(world.generator.last(), FinishReason::kStop);
  world.pump();
  EXPECT_EQ(
      writer->body().at("usage").at("completion_tokens").as_int64(),
      static_cast<int64_t>(ids_of(world, text.substr(0, text.find("</tool_call>") + 12)).size()));
}

// Stop strings are looked for in all that the model writes, arguments too.
TEST(ToolAnswers, EndAtAStopStringInTheArguments) {
  ApiWorld world({}, kimi());
  const json::object body =
      answered(world, std::string(kTools) + R"(,"stop":["x\"}"])", "</think>" + kCall)->body();
  const Message message = whole(choice_of(body));
  EXPECT_EQ(message.calls, std::vector<std::string>{R"(functions.f:0 f {"a":")"});
  EXPECT_EQ(message.finish_reason, "stop");
  EXPECT_EQ(member(choice_of(body), "stop_reason"), "x\"}");
}

TEST(ToolAnswers, EndAtAStopStringThatIsPartOfAMarker) {
  ApiWorld world({}, kimi());
  const Message message = whole(choice_of(
      answered(world, std::string(kTools) + R"(,"stop":["call_begin|>"])", "</think>a" + kCall)
          ->body()));
  EXPECT_EQ(message, (Message{"a<|tool_", "", {}, "stop"}));
  const Message held = whole(choice_of(
      answered(world, std::string(kTools) + R"(,"stop":["|>zzz"])", "</think>a" + kCall)->body()));
  EXPECT_EQ(held, (Message{"a", "", {R"(functions.f:0 f {"a":"x"})"}, "tool_calls"}));
}

// C136, C175
TEST(ToolAnswers, HaveLogProbabilitiesOfTheirContentAlone) {
  const std::string fields = std::string(kTools) + R"(,"logprobs":true,"top_logprobs":1)";
  for (const Case& one : cases()) {
    for (const std::string stop : {"", R"(,"stop":["look"])"}) {
      ApiWorld world({}, one.model());
      const Message message = whole(choice_of(answered(world, fields + stop, one.text)->body()));
      EXPECT_EQ(message.bytes, message.content) << one.text;
      const auto writer = answered(world, fields + stop + R"(,"stream":true)", one.text);
      Message streamed = joined(writer->events());
      EXPECT_EQ(without_made_ids(streamed), without_made_ids(message)) << one.text;
    }
  }
}

// C087: wherever the first token came from, it counts.
TEST(ReasoningTokens, AreThoseBetweenTheMarkers) {
  struct Row {
    std::string text;
    int64_t tokens;
  };
  for (const Row& row : {Row{"abc</think>de", 3}, Row{"</think>de", 0}, Row{"<think>ab</think>", 2},
                         Row{"word\n\nword" + kCall, 3}, Row{"abc", 3}, Row{"", 0}}) {
    ApiWorld world({}, kimi());
    const json::object body = answered(world, kTools, row.text)->body();
    const json::value& usage = body.at("usage");
    EXPECT_EQ(usage.at("completion_tokens_details").at("reasoning_tokens").as_int64(), row.tokens)
        << row.text;
    EXPECT_LE(row.tokens, usage.at("completion_tokens").as_int64());
  }
}

TEST(Reasoning, IsToldAsTheRequestWants) {
  const std::string text = "why\n</think>Yes.";
  ApiWorld world({}, kimi());
  const auto message = [&](const std::string& fields) {
    return whole(choice_of(answered(world, fields, text)->body()));
  };
  EXPECT_EQ(message(""), (Message{"Yes.", "why\n", {}, "stop"}));
  EXPECT_EQ(message(R"(,"include_reasoning":false)"), (Message{"Yes.", "", {}, "stop"}));
  // The double's markers are special tokens, which an answer leaves out.
  EXPECT_EQ(message(R"(,"separate_reasoning":false)"), (Message{"why\nYes.", "", {}, "stop"}));
  // In one piece, before anything else.
  const auto writer = answered(world, R"(,"stream":true,"stream_reasoning":false)", text);
  EXPECT_EQ(joined(writer->events()), (Message{"Yes.", "why\n", {}, "stop"}));
  const json::value second = json::parse(writer->events().at(1));
  EXPECT_EQ(text_of(second.at("choices").at(0).at("delta").at("reasoning_content")), "why\n");
}

TEST(Reasoning, HasTheNameThatTheServerWasStartedWith) {
  for (const auto field : {ReasoningField::kReasoning, ReasoningField::kBoth}) {
    ApiOptions options;
    options.reasoning_field = field;
    ApiWorld world(options, kimi());
    const json::object body = answered(world, "", "why</think>Yes.")->body();
    const json::object& message = choice_of(body).at("message").get_object();
    EXPECT_EQ(member(message, "reasoning"), "why");
    EXPECT_EQ(message.contains("reasoning_content"), field == ReasoningField::kBoth);
  }
}

// C134
TEST(Reasoning, DoesNotSwallowAnAnswerOfARequiredForm) {
  // The prompt closes the reasoning: the form begins at once.
  ApiWorld world({}, kimi());
  const std::string form = R"(,"response_format":{"type":"json_object"})";
  auto writer = world.chat(form + R"(,"thinking":false)");
  EXPECT_EQ(world.constraints.asked.front().spec.free_until, "");
  world.constraints.succeed();
  world.pump();
  play(world, world.generator.last(), "{}");
  world.generator.finish(world.generator.last(), FinishReason::kStop);
  world.pump();
  EXPECT_EQ(whole(choice_of(writer->body())), (Message{"{}", "", {}, "stop"}));
  // The prompt opens it: the form begins after it.
  writer = world.chat(form);
  EXPECT_EQ(world.constraints.asked.front().spec.free_until, "</think>");
  world.constraints.succeed();
  world.pump();
  play(world, world.generator.last(), "so</think>{}");
  world.generator.finish(world.generator.last(), FinishReason::kStop);
  world.pump();
  EXPECT_EQ(whole(choice_of(writer->body())), (Message{"{}", "so", {}, "stop"}));
}

// C112
TEST(ToolChoice, ForcesACallThroughTheModelsOwnForm) {
  ApiWorld world({}, kimi());
  const std::string two =
      R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},)"
      R"({"type":"function","function":{"name":"g"}}])";
  world.chat(two + R"(,"tool_choice":"required","parallel_tool_calls":false)");
  const wire::ConstraintSpec any = world.constraints.asked.front().spec;
  ASSERT_TRUE(any.tool_calls.has_value());
  EXPECT_TRUE(any.tool_calls->required);
  EXPECT_FALSE(any.tool_calls->parallel);
  EXPECT_EQ(any.free_until, "</think>");
  ASSERT_EQ(any.tool_calls->tools.size(), 2u);
  EXPECT_EQ(any.tool_calls->tools[0].begin, "<|tool_call_begin|>functions.f:");
  EXPECT_EQ(any.tool_calls->tools[0].schema, R"({"type":"object"})");
  EXPECT_EQ(any.tool_calls->tools[1].schema, "");
  world.constraints.succeed();
  world.pump();
  world.chat(two + R"(,"tool_choice":{"type":"function","function":{"name":"g"}})");
  const wire::ConstraintSpec named = world.constraints.asked.front().spec;
  ASSERT_EQ(named.tool_calls->tools.size(), 1u);
  EXPECT_EQ(named.tool_calls->tools[0].begin, "<|tool_call_begin|>functions.g:");
  EXPECT_TRUE(named.tool_calls->parallel);
}

void expect_refused(const MemoryWriter& writer, std::string_view code) {
  ASSERT_TRUE(writer.sent.has_value());
  EXPECT_EQ(writer.sent->status, 400);
  EXPECT_EQ(text_of(writer.body().at("error").at("code")), code);
  EXPECT_EQ(text_of(writer.body().at("error").at("param")), "tool_choice");
}

TEST(ToolChoice, ThatCannotBeHonouredIsRefused) {
  ApiWorld world({}, kimi());
  expect_refused(*world.chat(R"(,"tool_choice":"required")"), "invalid_value");
  expect_refused(*world.chat(std::string(kTools) +
                             R"(,"tool_choice":{"type":"function","function":{"name":"no"}})"),
                 "invalid_value");
  ApiWorld plain;
  expect_refused(*plain.chat(std::string(kTools) + R"(,"tool_choice":"required")"),
                 "unsupported_parameter");
}

std::shared_ptr<MemoryWriter> chat_of(ApiWorld& world, const std::string& messages,
                                      const std::string& fields = "") {
  return world.post("/v1/chat/completions", R"({"messages":)" + messages + fields + "}");
}

// The two renderings of the models' own documents.
TEST(ToolPrompts, AreWhatTheModelsWereTrainedOn) {
  ApiWorld world({}, kimi());
  chat_of(world, R"([{"role":"user","content":"a"},
      {"role":"assistant","content":"b","reasoning_content":"rb"},{"role":"user","content":"c"},
      {"role":"assistant","content":null,"reasoning_content":"rd","tool_calls":[
        {"id":"functions.f:0","type":"function","function":{"name":"f","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"functions.f:0","content":"R"}])");
  EXPECT_EQ(prompt_of(world),
            "<|im_user|>user<|im_middle|>a<|im_end|><|im_assistant|>assistant<|im_middle|><think>"
            "</think>b<|im_end|><|im_user|>user<|im_middle|>c<|im_end|><|im_assistant|>assistant"
            "<|im_middle|><think>rd</think><|tool_calls_section_begin|><|tool_call_begin|>"
            "functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
            "<|im_end|><|im_system|>tool<|im_middle|>## Return of functions.f:0\nR<|im_end|>"
            "<|im_assistant|>assistant<|im_middle|><think>");
  ApiWorld other({}, glm());
  chat_of(other, R"([{"role":"user","content":"Hi"},
      {"role":"assistant","content":"yo","reasoning_content":"r1","tool_calls":[{"id":"call_1",
        "type":"function","function":{"name":"f","arguments":"{\"a\": \"x\", \"n\": 2}"}}]},
      {"role":"tool","tool_call_id":"call_1","content":"R"}])");
  EXPECT_EQ(prompt_of(other),
            "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>Hi<|assistant|><think>r1</think>yo"
            "<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value><arg_key>n</arg_key>"
            "<arg_value>2</arg_value></tool_call><|observation|><tool_response>R</tool_response>"
            "<|assistant|><think>");
}

// C122
TEST(ToolPrompts, GiveKimiItsOwnIdsAndTheArgumentsAsTheyWereWritten) {
  ApiWorld world({}, kimi());
  chat_of(world, R"([{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[
      {"id":"call_7","type":"function","function":{"name":"f","arguments":"{\"a\":1,  \"b\":2}"}}]},
      {"role":"tool","tool_call_id":"call_7","content":"R"}])");
  const std::string prompt = prompt_of(world);
  EXPECT_NE(prompt.find("functions.f:0<|tool_call_argument_begin|>{\"a\":1,  \"b\":2}"),
            std::string::npos);
  EXPECT_NE(prompt.find("## Return of functions.f:0\nR"), std::string::npos);
  EXPECT_EQ(prompt.find("call_7"), std::string::npos);
}

TEST(ToolPrompts, DeclareToolsAsTypeScriptWhereTheTemplateReadsIt) {
  ApiWorld world({}, kimi());
  world.chat(kTools);
  EXPECT_NE(prompt_of(world).find("<|im_system|>tool_declare<|im_middle|># Tools\n\n## functions\n"
                                  "namespace functions {\ntype f = (_: {\n  a?: string,\n"
                                  "  n?: number\n}) => any;\n}\n<|im_end|>"),
            std::string::npos)
      << prompt_of(world);
}

// A user's text is never a marker, in the prompt or of the answer.
TEST(ToolPrompts, KeepMarkupOfAUserText) {
  ApiWorld world({}, kimi());
  chat_of(world, R"([{"role":"user","content":"<think></think><|tool_call_begin|>"}])");
  const auto& prompt = world.generator.last().request.prompt;
  const auto count = [&](const char* control) {
    return std::count(prompt.begin(), prompt.end(), *world.tokenizer.find(control));
  };
  EXPECT_EQ(count("<|tool_call_begin|>"), 0);
  EXPECT_EQ(count("<think>"), 1);
  EXPECT_EQ(count("</think>"), 0);
}

TEST(ThinkingWishes, BecomeTheVariablesThatTemplatesRead) {
  ModelSetup model;
  model.chat_template =
      "{{ thinking }},{{ enable_thinking }},{{ reasoning_effort }},{{ preserve_thinking }},"
      "{{ clear_thinking }}";
  struct Row {
    const char* fields;
    const char* variables;
  };
  for (const Row& row : {
           Row{"", ",,,,"},
           Row{R"(,"thinking":{"type":"enabled"})", "True,True,,,"},
           Row{R"(,"thinking":{"type":"disabled"})", "False,False,,,"},
           Row{R"(,"thinking":true)", "True,True,,,"},
           Row{R"(,"thinking":{"type":"auto"})", ",,,,"},
           Row{R"(,"enable_thinking":false)", "False,False,,,"},
           Row{R"(,"reasoning_effort":"high")", "True,True,high,,"},
           Row{R"(,"reasoning_effort":"none")", "False,False,,,"},
           Row{R"(,"reasoning_effort":"low","thinking":{"effort":"max"})", "True,True,max,,"},
           Row{R"(,"reasoning_effort":"low","thinking":{"type":"disabled"})", "False,False,low,,"},
           Row{R"(,"thinking":{"keep":"all"})", ",,,True,False"},
           Row{R"(,"thinking":{"clear_thinking":true})", ",,,False,True"},
           Row{R"(,"thinking":true,"chat_template_kwargs":{"thinking":false})", "False,True,,,"},
       }) {
    ApiWorld world({}, model);
    world.chat(row.fields);
    ASSERT_FALSE(world.generator.submitted.empty()) << row.fields;
    EXPECT_EQ(prompt_of(world), row.variables) << row.fields;
  }
}

TEST(Facts, NameTheParsers) {
  ApiWorld world({}, glm());
  const json::object info = world.get("/server_info")->body();
  EXPECT_EQ(member(info, "tool_call_parser"), "glm47");
  EXPECT_EQ(member(info, "reasoning_parser"), "glm45");
  ApiWorld plain;
  EXPECT_TRUE(plain.get("/server_info")->body().at("tool_call_parser").is_null());
}

// C110
TEST(Metrics, CountCallsByWhatBecameOfThem) {
  ApiWorld world({}, kimi());
  answered(world, kTools, "</think>" + kCall);
  answered(world, kTools, "</think>" + kCall.substr(0, kCall.find("x\"")));
  std::string bad = kCall;
  bad.erase(bad.find('}'), 1);
  const Message message = whole(choice_of(answered(world, kTools, "</think>" + bad)->body()));
  EXPECT_EQ(message.calls, std::vector<std::string>{R"(functions.f:0 f {"a":"x")"});
  EXPECT_EQ(message.finish_reason, "tool_calls");
  const std::string metrics = world.get("/metrics")->sent->body;
  for (const char* outcome : {"complete", "malformed", "truncated"}) {
    const std::string line = std::string("outcome=\"") + outcome + "\"} 1\n";
    EXPECT_NE(metrics.find(line), std::string::npos) << outcome;
  }
}

TEST(Choices, EachHaveTheirOwnCalls) {
  ApiWorld world({}, hermes());
  const auto writer = world.chat(std::string(kTools) + R"(,"n":2)");
  ASSERT_EQ(world.generator.submitted.size(), 2u);
  play(world, world.generator.submitted[0], "<tool_call>{\"name\": \"f\"}</tool_call>");
  play(world, world.generator.submitted[1], "none");
  for (auto& running : world.generator.submitted) {
    world.generator.finish(running, FinishReason::kStop);
  }
  world.pump();
  const json::object body = writer->body();
  EXPECT_EQ(member(body.at("choices").at(0).get_object(), "finish_reason"), "tool_calls");
  EXPECT_EQ(member(body.at("choices").at(1).get_object(), "finish_reason"), "stop");
}

}  // namespace
}  // namespace bulkhead::api
