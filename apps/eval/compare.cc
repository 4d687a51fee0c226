#include "apps/eval/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace bulkhead::apps::eval {
namespace {

using Pair = std::pair<const Outcome*, const Outcome*>;

double share(uint64_t right, uint64_t total) {
  return total == 0 ? 0.0 : static_cast<double>(right) / static_cast<double>(total);
}

// The questions that both have, in the order of `after`.
std::vector<Pair> pairs_of(const TaskResult& before, const TaskResult& after) {
  std::map<std::string, const Outcome*> known;
  for (const Outcome& outcome : before.outcomes) known.emplace(outcome.id, &outcome);
  std::vector<Pair> pairs;
  pairs.reserve(after.outcomes.size());
  for (const Outcome& outcome : after.outcomes) {
    const auto found = known.find(outcome.id);
    if (found != known.end()) pairs.emplace_back(found->second, &outcome);
  }
  return pairs;
}

const Measure* measure_of(const Outcome& outcome, const std::string& name) {
  for (const Measure& measure : outcome.verdict.measures) {
    if (measure.name == name) return &measure;
  }
  return nullptr;
}

Comparison compare_measure(const std::string& task, const std::string& name,
                           const std::vector<Pair>& pairs) {
  Comparison made;
  made.task = task;
  made.measure = name;
  for (const auto& [before, after] : pairs) {
    const Measure* was = measure_of(*before, name);
    const Measure* is = measure_of(*after, name);
    if (was == nullptr || is == nullptr) continue;
    const bool right_before = was->value > 0.5, right_after = is->value > 0.5;
    made.pairs.both += right_before && right_after ? 1 : 0;
    made.pairs.neither += !right_before && !right_after ? 1 : 0;
    if (right_before && !right_after) made.lost.push_back(after->id);
    if (!right_before && right_after) made.gained.push_back(after->id);
  }
  made.pairs.only_before = made.lost.size();
  made.pairs.only_after = made.gained.size();
  made.interval = paired_difference(made.pairs);
  made.p_value = mcnemar_exact(made.pairs.only_before, made.pairs.only_after);
  return made;
}

TaskResult part_of(const TaskResult& task, const std::vector<Pair>& pairs, bool is_after) {
  TaskResult part{task.identity, task.scoring, {}, 0.0, 0};
  part.outcomes.reserve(pairs.size());
  for (const Pair& pair : pairs) part.outcomes.push_back(is_after ? *pair.second : *pair.first);
  return part;
}

void compare_figures(const TaskResult& before, const TaskResult& after,
                     const std::vector<Pair>& pairs, ComparedResults& compared) {
  const std::vector<Figure> was = figures_of(part_of(before, pairs, false));
  const std::vector<Figure> is = figures_of(part_of(after, pairs, true));
  for (size_t i = 0; i < std::min(was.size(), is.size()); ++i) {
    if (is[i].is_share || was[i].name != is[i].name) continue;
    compared.figures.push_back({after.identity.task, is[i].name, was[i].value, is[i].value});
  }
}

// Model and length may differ, that is what is compared; the questions may not.
base::Status check_same(const TaskResult& before, const TaskResult& after) {
  if (before.identity.questions == after.identity.questions && before.scoring == after.scoring) {
    return {};
  }
  TaskIdentity unnamed = before.identity;
  unnamed.model = after.identity.model;
  return base::invalid_argument(
      after.identity.task,
      fmt::format("the two results of {} are not of the same questions ({}); run both with the "
                  "same data and options",
                  after.identity.task, difference(unnamed, after.identity)));
}

std::string flips_text(const char* what, const std::vector<std::string>& ids, uint64_t most) {
  if (ids.empty()) return "";
  std::string text = fmt::format("  {}:", what);
  for (size_t i = 0; i < std::min<uint64_t>(most, ids.size()); ++i) text += " " + ids[i];
  if (ids.size() > most) text += fmt::format(" and {} more", ids.size() - most);
  return text + "\n";
}

void write_ids(base::JsonWriter& out, const char* name, const std::vector<std::string>& ids) {
  out.key(name).begin_array();
  for (const std::string& id : ids) out.value(id);
  out.end_array();
}

void write_share(base::JsonWriter& out, const Comparison& one) {
  out.begin_object().key("task").value(one.task).key("measure").value(one.measure);
  out.key("questions").value(one.pairs.total());
  out.key("before").value(one.before()).key("after").value(one.after());
  out.key("difference").value(one.after() - one.before());
  out.key("interval_95").begin_array();
  out.value(one.interval.low).value(one.interval.high).end_array();
  out.key("mcnemar_p").value(one.p_value);
  write_ids(out, "lost", one.lost);
  write_ids(out, "gained", one.gained);
  out.end_object();
}

}  // namespace

double Comparison::before() const { return share(pairs.both + pairs.only_before, pairs.total()); }
double Comparison::after() const { return share(pairs.both + pairs.only_after, pairs.total()); }

base::Result<ComparedResults> compare(const std::vector<TaskResult>& before,
                                      const std::vector<TaskResult>& after) {
  ComparedResults compared;
  for (const TaskResult& is : after) {
    const auto was = std::find_if(before.begin(), before.end(), [&is](const TaskResult& task) {
      return task.identity.task == is.identity.task;
    });
    if (was == before.end()) {
      compared.notes.push_back(is.identity.task + " is in the second file alone");
      continue;
    }
    BH_TRY(check_same(*was, is));
    const std::vector<Pair> pairs = pairs_of(*was, is);
    if (pairs.size() < std::max(was->outcomes.size(), is.outcomes.size())) {
      compared.notes.push_back(fmt::format("{}: {} questions are in both, of {} and {}",
                                           is.identity.task, pairs.size(), was->outcomes.size(),
                                           is.outcomes.size()));
    }
    if (pairs.empty()) continue;
    if (is.scoring == Scoring::kShares) {
      for (const Measure& measure : pairs.front().second->verdict.measures) {
        compared.shares.push_back(compare_measure(is.identity.task, measure.name, pairs));
      }
    }
    compare_figures(*was, is, pairs, compared);
  }
  if (compared.shares.empty() && compared.figures.empty()) {
    return base::invalid_argument("", "the two results have no question in common");
  }
  return compared;
}

std::vector<std::string> losses(const ComparedResults& compared) {
  std::vector<std::string> names;
  for (const Comparison& one : compared.shares) {
    if (one.interval.high < 0.0) names.push_back(one.task + " " + one.measure);
  }
  return names;
}

std::string comparison_text(const ComparedResults& compared, uint64_t flips_max) {
  std::string text =
      "| task | measure | questions | before | after | difference | 95 % interval | lost | gained "
      "| p |\n|---|---|--:|--:|--:|--:|---|--:|--:|--:|\n";
  std::string flips;
  for (const Comparison& one : compared.shares) {
    text += fmt::format(
        "| {} | {} | {} | {:.2f} % | {:.2f} % | {:+.2f} | {:+.2f} to {:+.2f} | {} | {} | {:.3g} "
        "|\n",
        one.task, one.measure, one.pairs.total(), 100.0 * one.before(), 100.0 * one.after(),
        100.0 * (one.after() - one.before()), 100.0 * one.interval.low, 100.0 * one.interval.high,
        one.lost.size(), one.gained.size(), one.p_value);
    if (one.lost.empty() && one.gained.empty()) continue;
    flips += fmt::format("{} {}\n", one.task, one.measure);
    flips += flips_text("right before, wrong after", one.lost, flips_max);
    flips += flips_text("wrong before, right after", one.gained, flips_max);
  }
  for (const FigureChange& one : compared.figures) {
    text += fmt::format("| {} | {} | | {:.4f} | {:.4f} | {:+.4f} | | | | |\n", one.task, one.name,
                        one.before, one.after, one.after - one.before);
  }
  if (!flips.empty()) text += "\n" + flips;
  for (const std::string& note : compared.notes) text += "\nnote: " + note + "\n";
  return text;
}

std::string comparison_json(const ComparedResults& compared) {
  base::JsonWriter out;
  out.begin_object().key("shares").begin_array();
  for (const Comparison& one : compared.shares) write_share(out, one);
  out.end_array().key("figures").begin_array();
  for (const FigureChange& one : compared.figures) {
    out.begin_object().key("task").value(one.task).key("name").value(one.name);
    out.key("before").value(one.before).key("after").value(one.after).end_object();
  }
  out.end_array().key("notes").begin_array();
  for (const std::string& note : compared.notes) out.value(note);
  out.end_array().end_object();
  return std::move(out).take() + "\n";
}

}  // namespace bulkhead::apps::eval
