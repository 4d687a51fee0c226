#include "apps/eval/tasks/bfcl.h"

#include <fmt/format.h>

#include <map>

#include "apps/drill/json_members.h"
#include "apps/eval/tasks/call_check.h"
#include "apps/eval/tasks/data_files.h"

namespace bulkhead::apps::eval {
namespace {

namespace json = boost::json;

constexpr int64_t kTokensMax = 512;
constexpr const char* kSets[] = {"simple_python",     "multiple",    "parallel",
                                 "parallel_multiple", "live_simple", "irrelevance"};
constexpr Source kSource{
    "BFCL_v4_*.json, and those of possible_answer as answer_BFCL_v4_*.json, into eval/bfcl/",
    "ShishirPatil/gorilla (berkeley-function-call-leaderboard/bfcl_eval/data)"};

std::string schema_type(const std::string& type) {
  static const std::map<std::string, std::string> names = {
      {"dict", "object"},     {"object", "object"},   {"float", "number"}, {"number", "number"},
      {"integer", "integer"}, {"boolean", "boolean"}, {"array", "array"},  {"tuple", "array"}};
  const auto found = names.find(type);
  return found == names.end() ? "string" : found->second;
}

// Parsed JSON is at most 32 levels deep, so this ends.
void to_schema(json::object& schema) {
  schema["type"] = schema_type(text_of(schema.if_contains("type")));
  if (json::value* properties = schema.if_contains("properties");
      properties != nullptr && properties->is_object()) {
    for (auto& pair : properties->as_object()) {
      if (pair.value().is_object()) to_schema(pair.value().as_object());
    }
  }
  if (json::value* items = schema.if_contains("items"); items != nullptr && items->is_object()) {
    to_schema(items->as_object());
  }
  schema.erase("optional");  // BFCL's own mark beside `required`
}

std::string calls_text(const std::vector<ToolCall>& calls) {
  std::string text;
  for (const ToolCall& call : calls) {
    text += fmt::format("{}{}({})", text.empty() ? "" : "; ", call.name, call.arguments);
  }
  return text.empty() ? "no call" : text;
}

struct Expected {
  FunctionList functions;
  std::vector<json::object> calls;
  bool none = false;  // no call is right
};

// As BFCL has it, a call that cannot be read is none.
Verdict judge(const Reply& reply, const Expected& expected) {
  const std::optional<std::vector<DecodedCall>> calls = decode_calls(reply.calls);
  const bool is_valid = calls && validity_fault(expected.functions, *calls).empty();
  const bool is_right =
      expected.none ? !calls || calls->empty()
                    : calls && calls_fault(expected.functions, *calls, expected.calls).empty();
  return {calls_text(reply.calls),
          {{"acc", is_right ? 1.0 : 0.0}, {"valid_calls", is_valid ? 1.0 : 0.0}}};
}

using Answers = std::map<std::string, std::vector<json::object>>;

base::Result<Answers> read_answers(const std::string& path) {
  BH_ASSIGN(const std::vector<json::object> lines, read_json_lines(path, kSource));
  Answers answers;
  for (const json::object& line : lines) {
    BH_ASSIGN(const std::string id, need_text(line, "id", path));
    for (const json::value& call : elements_of(line.if_contains("ground_truth"))) {
      if (!call.is_object() || call.as_object().size() != 1) {
        return base::corrupt(path + " " + id + ": a call of 'ground_truth' is no object of one");
      }
      answers[id].push_back(call.as_object());
    }
  }
  return answers;
}

base::Result<Question> read_question(const json::object& line, const std::string& set,
                                     const std::string& path, const Answers& answers) {
  BH_ASSIGN(const std::string id, need_text(line, "id", path));
  const json::array& turns = elements_of(line.if_contains("question"));
  if (turns.size() != 1 || !turns[0].is_array()) {
    return base::corrupt(path + " " + id + ": 'question' is not one turn");
  }
  Expected expected;
  expected.none = set == "irrelevance";
  if (const auto found = answers.find(id); found != answers.end()) expected.calls = found->second;
  if (!expected.none && expected.calls.empty()) {
    return base::corrupt(path + " " + id + ": there is no answer to it");
  }
  json::array tools;
  for (const json::value& function : elements_of(line.if_contains("function"))) {
    if (!function.is_object())
      return base::corrupt(path + " " + id + ": a 'function' is no object");
    expected.functions.push_back(function.as_object());
    tools.push_back({{"type", "function"}, {"function", tool_of(function.as_object())}});
  }
  json::array wanted(expected.calls.begin(), expected.calls.end());
  return Question{
      "bfcl/" + id, set,
      ChatAsk{json::serialize(turns[0]), tools.empty() ? "" : json::serialize(tools), kTokensMax},
      json::serialize(wanted), [expected](const Reply& reply) { return judge(reply, expected); }};
}

}  // namespace

json::object tool_of(const json::object& function) {
  json::object tool = function;
  tool["name"] = api_name(text_of(function.if_contains("name")));
  json::value& parameters = tool["parameters"];
  if (!parameters.is_object()) parameters = json::object{{"type", "dict"}};
  to_schema(parameters.as_object());
  return tool;
}

base::Result<Task> load_bfcl(const LoadOptions& options) {
  if (options.shots > 0) {
    return base::invalid_argument("--shots", "bfcl has no examples; leave --shots out");
  }
  const std::string folder = options.data + "/eval/bfcl/";
  Task task;
  task.name = "bfcl";
  task.settings = {{"max_tokens", std::to_string(kTokensMax)}};
  for (const std::string set : kSets) {
    const std::string path = fmt::format("{}BFCL_v4_{}.json", folder, set);
    BH_ASSIGN(const std::vector<json::object> lines, read_json_lines(path, kSource));
    Answers answers;
    if (set != "irrelevance") {
      BH_ASSIGN(answers, read_answers(fmt::format("{}answer_BFCL_v4_{}.json", folder, set)));
    }
    task.questions.reserve(task.questions.size() + lines.size());
    for (const json::object& line : lines) {
      BH_ASSIGN(Question question, read_question(line, set, path, answers));
      task.questions.push_back(std::move(question));
    }
  }
  return task;
}

}  // namespace bulkhead::apps::eval
