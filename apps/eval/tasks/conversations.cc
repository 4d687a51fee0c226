#include "apps/eval/tasks/conversations.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>

#include "apps/drill/json_members.h"
#include "apps/eval/tasks/call_check.h"
#include "apps/eval/tasks/data_files.h"
#include "apps/eval/text_tools.h"

namespace bulkhead::apps::eval {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

constexpr int64_t kTokensMax = 200;  // as tools/train/evaluate.py
constexpr std::string_view kResult = "####";
constexpr Source kSource{"a set", "your own"};

bool same_calls(const std::vector<ToolCall>& wanted, const std::vector<ToolCall>& made) {
  const auto a = decode_calls(wanted), b = decode_calls(made);
  return a && b && a->size() == b->size() &&
         std::equal(a->begin(), a->end(), b->begin(), [](const auto& one, const auto& other) {
           return one.name == other.name && one.arguments == other.arguments;
         });
}

std::string_view result_of(std::string_view text) {
  const size_t at = text.rfind(kResult);
  return stripped(at == std::string_view::npos ? text : text.substr(at + kResult.size()));
}

bool same_json(std::string_view wanted, std::string_view made) {
  boost::system::error_code bad;
  const json::value a = json::parse(wanted, bad);
  if (bad) return false;
  const json::value b = json::parse(made, bad);
  return !bad && a == b;
}

std::string shown(const std::string& content, const std::vector<ToolCall>& calls) {
  std::string text = content;
  for (const ToolCall& call : calls) text += fmt::format("[{}({})]", call.name, call.arguments);
  return text;
}

// Well-formed calls of whatever was declared; the types are the schema's affair.
bool are_valid(const Reply& reply) { return decode_calls(reply.calls).has_value(); }

base::Result<Question> read_question(const json::object& line, const std::string& set,
                                     const std::string& where) {
  BH_ASSIGN(const std::string id, need_text(line, "id", where));
  const json::value* messages = line.if_contains("messages");
  const json::value* expected = line.if_contains("expected");
  if (elements_of(messages).empty()) return base::corrupt(where + " has no list 'messages'");
  if (expected == nullptr || !expected->is_object()) {
    return base::corrupt(where + " has no object 'expected'");
  }
  WantedAnswer wanted;
  wanted.content = text_of(member(expected, "content"));
  for (const json::value& call : elements_of(member(expected, "tool_calls"))) {
    const json::value* function = member(&call, "function");
    wanted.calls.push_back(
        {text_of(member(function, "name")), text_of(member(function, "arguments"))});
  }
  const json::array& tools = elements_of(line.if_contains("tools"));
  return Question{
      fmt::format("conversations/{}/{}", set, id), set,
      ChatAsk{json::serialize(*messages), tools.empty() ? "" : json::serialize(tools), kTokensMax},
      shown(wanted.content, wanted.calls), [wanted](const Reply& reply) {
        return Verdict{shown(reply.text, reply.calls),
                       {{"acc", is_right(wanted, reply) ? 1.0 : 0.0},
                        {"valid_calls", are_valid(reply) ? 1.0 : 0.0}}};
      }};
}

}  // namespace

bool is_right(const WantedAnswer& wanted, const Reply& reply) {
  if (!wanted.calls.empty() || !reply.calls.empty()) return same_calls(wanted.calls, reply.calls);
  const std::string_view want = stripped(wanted.content), got = stripped(reply.text);
  if (want.rfind(kResult, 0) == 0) return result_of(want) == result_of(got);
  if (want.rfind('{', 0) == 0) return same_json(want, got);
  return want == got;
}

base::Result<Task> load_conversations(const LoadOptions& options) {
  const std::string folder = options.data + "/eval/conversations";
  std::vector<std::string> sets;
  std::error_code bad;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, bad)) {
    if (entry.path().extension() == ".jsonl") sets.push_back(entry.path().stem().string());
  }
  if (bad || sets.empty()) {
    return base::Error{base::ErrorCode::kNotFound,
                       fmt::format("there are no conversations in {}: write SET.jsonl files there "
                                   "(tools/train/evaluate.py --write makes those of tiny-moe), or "
                                   "name with --data the folder that has eval/",
                                   folder),
                       "--data"};
  }
  std::sort(sets.begin(), sets.end());
  Task task;
  task.name = "conversations";
  task.settings = {{"max_tokens", std::to_string(kTokensMax)}};
  for (const std::string& set : sets) {
    const std::string path = fmt::format("{}/{}.jsonl", folder, set);
    BH_ASSIGN(const std::vector<json::object> lines, read_json_lines(path, kSource));
    task.questions.reserve(task.questions.size() + lines.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      BH_ASSIGN(Question question,
                read_question(lines[i], set, fmt::format("{} conversation {}", path, i + 1)));
      task.questions.push_back(std::move(question));
    }
  }
  return task;
}

}  // namespace bulkhead::apps::eval
