#include "apps/eval/outcome.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "apps/drill/json_members.h"
#include "apps/eval/text_tools.h"

namespace bulkhead::apps::eval {
namespace {

namespace json = boost::json;

base::Error lacks(const char* what, const char* member) {
  return base::corrupt(fmt::format("{} lacks '{}'", what, member));
}

void write_reply(base::JsonWriter& out, const Reply& reply) {
  if (!reply.text.empty()) out.key("text").value(reply.text);
  if (!reply.calls.empty()) {
    out.key("calls").begin_array();
    for (const ToolCall& call : reply.calls) {
      out.begin_object().key("name").value(call.name);
      out.key("arguments").value(call.arguments).end_object();
    }
    out.end_array();
  }
  if (!reply.scores.empty()) {
    out.key("scores").begin_array();
    for (const std::optional<double>& score : reply.scores) {
      score ? out.value(*score) : out.null();
    }
    out.end_array();
  }
  out.key("prompt_tokens").value(reply.prompt_tokens);
  out.key("cached_tokens").value(reply.cached_tokens);
  out.key("output_tokens").value(reply.output_tokens);
  if (reply.truncated) out.key("truncated").value(true);
}

Reply read_reply(const json::value& value) {
  Reply reply;
  reply.text = text_of(member(&value, "text"));
  for (const json::value& call : elements_of(member(&value, "calls"))) {
    reply.calls.push_back({text_of(member(&call, "name")), text_of(member(&call, "arguments"))});
  }
  for (const json::value& score : elements_of(member(&value, "scores"))) {
    reply.scores.push_back(score.is_number() ? std::optional(score.to_number<double>())
                                             : std::nullopt);
  }
  reply.prompt_tokens = count_of(member(&value, "prompt_tokens"));
  reply.cached_tokens = count_of(member(&value, "cached_tokens"));
  reply.output_tokens = count_of(member(&value, "output_tokens"));
  reply.truncated = is_true(member(&value, "truncated"));
  return reply;
}

}  // namespace

void write_outcome(base::JsonWriter& out, const Outcome& outcome) {
  out.begin_object().key("id").value(outcome.id);
  if (!outcome.group.empty()) out.key("group").value(outcome.group);
  out.key("wanted").value(outcome.wanted).key("answer").value(outcome.verdict.answer);
  out.key("measures").begin_object();
  for (const Measure& measure : outcome.verdict.measures) {
    out.key(measure.name).value(measure.value);
  }
  out.end_object();
  write_reply(out, outcome.reply);
  out.end_object();
}

base::Result<Outcome> read_outcome(const json::value& value) {
  Outcome outcome;
  outcome.id = text_of(member(&value, "id"));
  if (outcome.id.empty()) return lacks("a question", "id");
  outcome.group = text_of(member(&value, "group"));
  outcome.wanted = text_of(member(&value, "wanted"));
  outcome.verdict.answer = text_of(member(&value, "answer"));
  const json::value* measures = member(&value, "measures");
  if (measures == nullptr || !measures->is_object() || measures->as_object().empty()) {
    return lacks("a question", "measures");
  }
  for (const auto& [name, number] : measures->as_object()) {
    if (!number.is_number()) return base::corrupt("a question has a measure that is no number");
    outcome.verdict.measures.push_back({std::string(name), number.to_number<double>()});
  }
  outcome.reply = read_reply(value);
  return outcome;
}

void write_identity(base::JsonWriter& out, const TaskIdentity& identity) {
  out.key("task").value(identity.task).key("model").value(identity.model);
  out.key("settings").begin_object();
  for (const auto& [name, value] : identity.settings) out.key(name).value(value);
  out.end_object().key("questions_digest").value(identity.questions);
}

base::Result<TaskIdentity> read_identity(const json::value& value) {
  TaskIdentity identity;
  identity.task = text_of(member(&value, "task"));
  identity.model = text_of(member(&value, "model"));
  identity.questions = text_of(member(&value, "questions_digest"));
  if (identity.task.empty()) return lacks("a task", "task");
  if (identity.questions.empty()) return lacks("a task", "questions_digest");
  const json::value* settings = member(&value, "settings");
  if (settings == nullptr || !settings->is_object()) return lacks("a task", "settings");
  for (const auto& [name, setting] : settings->as_object()) {
    identity.settings.emplace_back(std::string(name), text_of(&setting));
  }
  return identity;
}

std::string difference(const TaskIdentity& a, const TaskIdentity& b) {
  if (a.model != b.model) return fmt::format("model '{}' against '{}'", a.model, b.model);
  for (const auto& [name, value] : a.settings) {
    for (const auto& [other_name, other] : b.settings) {
      if (name == other_name && value != other) {
        return fmt::format("{} {} against {}", name, value, other);
      }
    }
  }
  if (a.settings.size() != b.settings.size()) return "settings of different versions";
  if (a.questions != b.questions) return "other questions";
  return "";
}

base::Result<Journal> Journal::open(const std::string& path, bool restart) {
  Journal journal(path);
  std::error_code bad;
  if (restart) std::filesystem::remove(path, bad);
  if (std::filesystem::exists(path, bad)) {
    BH_ASSIGN(const std::string text, read_file(path));
    const std::vector<std::string_view> lines = lines_of(text);
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool cut_off = i + 1 == lines.size() && text.back() != '\n';
      if (cut_off) break;
      base::Status read = journal.read_line(lines[i]);
      if (!read.ok()) {
        return std::move(read).error().within(
            fmt::format("{} line {} (--restart drops the file)", path, i + 1));
      }
    }
    // What was cut off goes, so that the next line begins one.
    const size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
    if (whole < text.size()) std::filesystem::resize_file(path, whole, bad);
  }
  journal.file_.open(path, std::ios::app | std::ios::binary);
  if (!journal.file_) return base::Error{base::ErrorCode::kIo, "cannot write " + path, path};
  return journal;
}

base::Status Journal::read_line(std::string_view line) {
  boost::system::error_code bad;
  const json::value value = json::parse(line, bad);
  if (bad || !value.is_object()) return base::corrupt("this is no line of a journal");
  if (const json::value* outcome = member(&value, "outcome")) {
    const std::string task = text_of(member(&value, "of"));
    if (identities_.count(task) == 0) return base::corrupt("an outcome of no task");
    BH_ASSIGN(Outcome read, read_outcome(*outcome));
    const std::string id = read.id;
    outcomes_[task].insert_or_assign(id, std::move(read));
    return {};
  }
  BH_ASSIGN(TaskIdentity identity, read_identity(value));
  const std::string task = identity.task;
  identities_.insert_or_assign(task, std::move(identity));
  return {};
}

base::Result<std::map<std::string, Outcome>> Journal::begin(const TaskIdentity& identity) {
  const auto known = identities_.find(identity.task);
  if (known != identities_.end()) {
    const std::string other = difference(known->second, identity);
    if (!other.empty()) {
      return base::invalid_argument(
          "--output", fmt::format("{} was begun with other means ({}: {}); give another --output, "
                                  "or --restart to drop it",
                                  path_, identity.task, other));
    }
    return std::move(outcomes_[identity.task]);
  }
  base::JsonWriter line;
  line.begin_object();
  write_identity(line, identity);
  line.end_object();
  BH_TRY(append(line.text()));
  return std::map<std::string, Outcome>();
}

base::Status Journal::add(const std::string& task, const Outcome& outcome) {
  base::JsonWriter line;
  line.begin_object().key("of").value(task).key("outcome");
  write_outcome(line, outcome);
  line.end_object();
  return append(line.text());
}

base::Status Journal::append(const std::string& line) {
  file_ << line << '\n' << std::flush;
  if (!file_) return base::Error{base::ErrorCode::kIo, "cannot write " + path_, path_};
  return {};
}

void Journal::remove() {
  file_.close();
  std::error_code bad;
  std::filesystem::remove(path_, bad);
}

}  // namespace bulkhead::apps::eval
