#include "apps/eval/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "apps/drill/json_members.h"

namespace bulkhead::apps::eval {
namespace {

namespace json = boost::json;

using Outcomes = std::vector<const Outcome*>;

constexpr int64_t kFormat = 1;

double value_of(const Outcome& outcome, const std::string& name) {
  for (const Measure& measure : outcome.verdict.measures) {
    if (measure.name == name) return measure.value;
  }
  return 0.0;
}

Figure share_of(const Outcomes& outcomes, const std::string& name) {
  std::vector<double> values;
  values.reserve(outcomes.size());
  uint64_t right = 0;
  for (const Outcome* outcome : outcomes) {
    values.push_back(value_of(*outcome, name) > 0.5 ? 1.0 : 0.0);
    right += values.back() > 0.5 ? 1 : 0;
  }
  const double share = static_cast<double>(right) / static_cast<double>(outcomes.size());
  return {name, share, true, standard_error(values), wilson(right, outcomes.size())};
}

// Sums first: a text counts by its length.
std::vector<Figure> perplexities(const Outcomes& outcomes) {
  double score = 0.0, words = 0.0, bytes = 0.0;
  for (const Outcome* outcome : outcomes) {
    score += value_of(*outcome, "loglikelihood");
    words += value_of(*outcome, "words");
    bytes += value_of(*outcome, "bytes");
  }
  if (words <= 0.0 || bytes <= 0.0) return {};
  return {{"word_perplexity", std::exp(-score / words), false, 0.0, {}},
          {"byte_perplexity", std::exp(-score / bytes), false, 0.0, {}},
          {"bits_per_byte", -score / bytes / std::log(2.0), false, 0.0, {}}};
}

std::vector<Figure> figures_over(Scoring scoring, const Outcomes& outcomes) {
  if (outcomes.empty()) return {};
  if (scoring == Scoring::kPerplexity) return perplexities(outcomes);
  std::vector<Figure> figures;
  figures.reserve(outcomes.front()->verdict.measures.size());
  for (const Measure& measure : outcomes.front()->verdict.measures) {
    figures.push_back(share_of(outcomes, measure.name));
  }
  return figures;
}

Outcomes all_of(const TaskResult& task) {
  Outcomes outcomes;
  outcomes.reserve(task.outcomes.size());
  for (const Outcome& outcome : task.outcomes) outcomes.push_back(&outcome);
  return outcomes;
}

void write_figures(base::JsonWriter& out, const std::vector<Figure>& figures) {
  out.begin_object();
  for (const Figure& figure : figures) {
    out.key(figure.name).begin_object().key("value").value(figure.value);
    if (figure.is_share) {
      out.key("standard_error").value(figure.standard_error);
      out.key("interval_95").begin_array();
      out.value(figure.interval.low).value(figure.interval.high).end_array();
    }
    out.end_object();
  }
  out.end_object();
}

void write_task(base::JsonWriter& out, const TaskResult& task) {
  out.begin_object();
  write_identity(out, task.identity);
  out.key("scoring").value(task.scoring == Scoring::kShares ? "shares" : "perplexity");
  out.key("seconds").value(task.seconds).key("asked").value(task.asked);
  out.key("figures");
  write_figures(out, figures_of(task));
  out.key("groups").begin_object();
  for (const GroupFigures& group : groups_of(task)) {
    out.key(group.name).begin_object().key("questions").value(group.questions).key("figures");
    write_figures(out, group.figures);
    out.end_object();
  }
  out.end_object().key("questions").begin_array();
  for (const Outcome& outcome : task.outcomes) write_outcome(out, outcome);
  out.end_array().end_object();
}

base::Result<TaskResult> read_task(const json::value& value) {
  TaskResult task;
  BH_ASSIGN(task.identity, read_identity(value));
  const std::string scoring = text_of(member(&value, "scoring"));
  if (scoring != "shares" && scoring != "perplexity") {
    return base::corrupt("a task's 'scoring' is neither shares nor perplexity");
  }
  task.scoring = scoring == "shares" ? Scoring::kShares : Scoring::kPerplexity;
  const json::value* seconds = member(&value, "seconds");
  if (seconds != nullptr && seconds->is_number()) task.seconds = seconds->to_number<double>();
  task.asked = count_of(member(&value, "asked"));
  const json::array& questions = elements_of(member(&value, "questions"));
  task.outcomes.reserve(questions.size());
  for (const json::value& question : questions) {
    BH_ASSIGN(Outcome outcome, read_outcome(question));
    task.outcomes.push_back(std::move(outcome));
  }
  return task;
}

std::string row_of(const std::string& task, uint64_t questions, const Figure& figure) {
  if (!figure.is_share) {
    return fmt::format("| {} | {} | {} | {:.4f} | |\n", task, questions, figure.name, figure.value);
  }
  return fmt::format("| {} | {} | {} | {:.2f} % | {:.2f} to {:.2f} % |\n", task, questions,
                     figure.name, 100.0 * figure.value, 100.0 * figure.interval.low,
                     100.0 * figure.interval.high);
}

std::string footnote(const TaskResult& task) {
  uint64_t prompt = 0, cached = 0, output = 0, truncated = 0;
  for (const Outcome& outcome : task.outcomes) {
    prompt += outcome.reply.prompt_tokens;
    cached += outcome.reply.cached_tokens;
    output += outcome.reply.output_tokens;
    truncated += outcome.reply.truncated ? 1 : 0;
  }
  const double share =
      static_cast<double>(cached) / static_cast<double>(std::max<uint64_t>(1, prompt));
  std::string text = fmt::format(
      "{}: {} prompt tokens, {:.1f} % of them from the cache, {} generated, {:.0f} s for {} "
      "questions",
      task.identity.task, prompt, 100.0 * share, output, task.seconds, task.asked);
  if (truncated > 0) {
    text += fmt::format("; {} prompts were too long and lost their beginning", truncated);
  }
  return text + "\n";
}

}  // namespace

std::vector<GroupFigures> groups_of(const TaskResult& task) {
  std::map<std::string, size_t> known;
  std::vector<std::pair<std::string, Outcomes>> parts;
  for (const Outcome& outcome : task.outcomes) {
    if (outcome.group.empty()) return {};
    const auto [at, is_new] = known.emplace(outcome.group, parts.size());
    if (is_new) parts.emplace_back(outcome.group, Outcomes());
    parts[at->second].second.push_back(&outcome);
  }
  std::vector<GroupFigures> groups;
  groups.reserve(parts.size());
  for (const auto& [name, outcomes] : parts) {
    groups.push_back({name, outcomes.size(), figures_over(task.scoring, outcomes)});
  }
  return groups;
}

std::vector<Figure> figures_of(const TaskResult& task) {
  const std::vector<Figure> whole = figures_over(task.scoring, all_of(task));
  const std::vector<GroupFigures> groups = groups_of(task);
  std::vector<Figure> figures;
  figures.reserve(2 * whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    figures.push_back(whole[i]);
    if (!whole[i].is_share || groups.size() < 2) continue;
    double sum = 0.0;
    for (const GroupFigures& group : groups) sum += group.figures[i].value;
    figures.push_back(
        {whole[i].name + "_macro", sum / static_cast<double>(groups.size()), false, 0.0, {}});
  }
  return figures;
}

std::string result_json(const std::vector<TaskResult>& tasks) {
  base::JsonWriter out;
  out.begin_object().key("bulkhead_eval").value(kFormat).key("tasks").begin_array();
  for (const TaskResult& task : tasks) write_task(out, task);
  out.end_array().end_object();
  return std::move(out).take() + "\n";
}

base::Result<std::vector<TaskResult>> read_result(const std::string& text) {
  boost::system::error_code bad;
  const json::value value = json::parse(text, bad);
  const json::value* format = bad ? nullptr : member(&value, "bulkhead_eval");
  if (format == nullptr || !format->is_int64() || format->as_int64() != kFormat) {
    return base::corrupt(fmt::format(
        "this is no result of bulkhead eval (\"bulkhead_eval\": {} is missing)", kFormat));
  }
  std::vector<TaskResult> tasks;
  for (const json::value& task : elements_of(member(&value, "tasks"))) {
    BH_ASSIGN(TaskResult read, read_task(task));
    tasks.push_back(std::move(read));
  }
  return tasks;
}

std::string result_text(const std::vector<TaskResult>& tasks) {
  std::string text =
      "| task | questions | measure | value | 95 % interval |\n|---|--:|---|--:|---|\n";
  std::string notes;
  for (const TaskResult& task : tasks) {
    for (const Figure& figure : figures_of(task)) {
      text += row_of(task.identity.task, task.outcomes.size(), figure);
    }
    notes += footnote(task);
  }
  return text + "\n" + notes;
}

}  // namespace bulkhead::apps::eval
