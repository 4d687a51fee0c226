#include "apps/eval/precision/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/eval/precision/svg.h"
#include "apps/eval/statistics.h"
#include "base/json_writer.h"

namespace bulkhead::apps::eval {
namespace {

constexpr size_t kGroupsShown = 8;  // MMLU has 57: those are in the result files
constexpr double kTwoSided95 = 1.96;

double per_cent(double share) { return 100.0 * share; }

std::string figure_text(const Figure& figure) {
  if (!figure.is_share) {
    // Means of groups are shares without an interval, all else is a perplexity.
    return figure.name.ends_with("_macro") ? fmt::format("{:.2f} %", per_cent(figure.value))
                                           : fmt::format("{:.4f}", figure.value);
  }
  return fmt::format("{:.2f} % ({:.2f} to {:.2f})", per_cent(figure.value),
                     per_cent(figure.interval.low), per_cent(figure.interval.high));
}

// A row of the table of figures: its name, and what each precision has there.
struct FigureRow {
  std::string name;
  uint64_t questions = 0;
  std::vector<const Figure*> cells;
};

// The figures of every precision, kept so that rows may point at them.
class FigureTable {
 public:
  explicit FigureTable(const std::vector<PrecisionResult>& results) : columns_(results.size()) {
    for (size_t i = 0; i < results.size(); ++i) {
      for (const TaskResult& task : results[i].tasks) add_task(task, i);
    }
    for (const Cell& cell : cells_) rows_[cell.row].cells[cell.column] = &cell.figure;
  }
  FigureTable(const FigureTable&) = delete;
  FigureTable& operator=(const FigureTable&) = delete;

  const std::vector<FigureRow>& rows() const { return rows_; }

 private:
  struct Cell {
    size_t row, column;
    Figure figure;
  };

  void add_task(const TaskResult& task, size_t column) {
    const std::string& name = task.identity.task;
    add(name, task.outcomes.size(), figures_of(task), column);
    const std::vector<GroupFigures> groups = groups_of(task);
    if (groups.size() > kGroupsShown) return;
    for (const GroupFigures& group : groups) {
      add(name + "/" + group.name, group.questions, {group.figures.front()}, column);
    }
  }

  void add(const std::string& task, uint64_t questions, const std::vector<Figure>& figures,
           size_t column) {
    for (const Figure& figure : figures) {
      const std::string name = task + " " + figure.name;
      auto row = std::find_if(rows_.begin(), rows_.end(),
                              [&name](const FigureRow& one) { return one.name == name; });
      if (row == rows_.end()) {
        rows_.push_back({name, questions, std::vector<const Figure*>(columns_, nullptr)});
        row = rows_.end() - 1;
      }
      cells_.push_back({static_cast<size_t>(row - rows_.begin()), column, figure});
    }
  }

  const size_t columns_;
  std::vector<FigureRow> rows_;
  std::vector<Cell> cells_;
};

std::string figures_text(const PrecisionReport& report) {
  std::string text = "| measure | questions |", line = "\n|---|--:|";
  for (const PrecisionResult& one : report.results) {
    text += fmt::format(" {} |", one.precision->name);
    line += "--:|";
  }
  text += line + "\n";
  const FigureTable table(report.results);
  for (const FigureRow& row : table.rows()) {
    text += fmt::format("| {} | {} |", row.name, row.questions);
    for (const Figure* figure : row.cells) {
      text += fmt::format(" {} |", figure == nullptr ? "" : figure_text(*figure));
    }
    text += "\n";
  }
  return text;
}

std::string verdict_row(const PairReport& pair, const JudgedShare& one) {
  const Comparison& c = one.compared;
  return fmt::format(
      "| {} | {} {} | {} | {:.2f} % | {:.2f} % | {:+.2f} | {:+.2f} to {:+.2f} | {} / {} | {:.3g} | "
      "{} | {} |\n",
      pair.pair.name(), c.task, c.measure, c.pairs.total(), per_cent(c.before()),
      per_cent(c.after()), per_cent(c.after() - c.before()), per_cent(c.interval.low),
      per_cent(c.interval.high), c.lost.size(), c.gained.size(), c.p_value, to_string(one.bound),
      one.text);
}

double mean_divergence(const std::vector<DriftBucket>& drift, size_t begin, size_t end) {
  double sum = 0.0;
  for (size_t i = begin; i < end; ++i) sum += drift[i].divergence;
  return sum / static_cast<double>(end - begin);
}

double agreement(const DriftBucket& bucket) {
  return bucket.positions == 0
             ? 0.0
             : static_cast<double>(bucket.same_first) / static_cast<double>(bucket.positions);
}

std::string picture_name(const PairReport& pair) {
  return fmt::format("drift-{}-{}.svg", pair.pair.before->name, pair.pair.after->name);
}

std::string drift_text(const PairReport& pair) {
  std::string text = fmt::format(
      "\n### {}\n\n![drift by position]({})\n\n"
      "| positions | samples | KL, nats, at least | standard error | same first token | 95 % "
      "interval | named |\n|---|--:|--:|--:|--:|---|--:|\n",
      pair.pair.name(), picture_name(pair));
  for (size_t i = 0; i < pair.drift.size(); ++i) {
    const DriftBucket& bucket = pair.drift[i];
    const Interval interval = wilson(bucket.same_first, bucket.positions);
    text += fmt::format(
        "| {} to {} | {} | {:.5f} | {:.5f} | {:.2f} % | {:.2f} to {:.2f} | {:.1f} % |\n",
        i * kDriftBucket, (i + 1) * kDriftBucket - 1, bucket.positions, bucket.divergence,
        bucket.divergence_error, per_cent(agreement(bucket)), per_cent(interval.low),
        per_cent(interval.high), per_cent(bucket.named));
  }
  const double first = mean_divergence(pair.drift, 0, kDriftBuckets / 2);
  const double second = mean_divergence(pair.drift, kDriftBuckets / 2, kDriftBuckets);
  return text +
         fmt::format("\nKL in the second half of the positions over that in the first: {}.\n",
                     first > 0.0 ? fmt::format("{:.2f}", second / first) : "none in either");
}

std::string drifts_text(const PrecisionReport& report) {
  const size_t windows = report.results.empty() ? 0 : report.results[0].likely.windows.size();
  std::string text = fmt::format(
      "{} stretches of {}, evenly spread, the same in every precision; of each the first {} "
      "tokens are forced. The server tells the 20 likeliest tokens of a position and the text's "
      "own: KL is taken over those that both precisions name and all others as one outcome, which "
      "by the data-processing inequality is a lower bound of the true divergence. `named` is the "
      "probability, before, of what is not \"all others\". The standard error is that over "
      "stretches; the interval of the agreement is Wilson's, as if positions were independent.\n",
      windows, report.drift_text, kForcedTokens);
  for (const PairReport& pair : report.pairs) text += drift_text(pair);
  return text;
}

std::string flips_text(const PrecisionReport& report) {
  std::string text =
      "| pair | measure | questions | right in both | lost | gained | in neither |\n"
      "|---|---|--:|--:|--:|--:|--:|\n";
  for (const PairReport& pair : report.pairs) {
    for (const Comparison& one : pair.compared.shares) {
      text += fmt::format("| {} | {} {} | {} | {} | {} | {} | {} |\n", pair.pair.name(), one.task,
                          one.measure, one.pairs.total(), one.pairs.both, one.lost.size(),
                          one.gained.size(), one.pairs.neither);
    }
  }
  return text;
}

std::string servers_text(const PrecisionReport& report) {
  std::string text;
  for (const PrecisionResult& one : report.results) {
    text += fmt::format("\n{}: {}", one.precision->name, one.precision->meaning);
    std::string seconds;
    for (const TaskResult& task : one.tasks) {
      seconds += fmt::format("{}{} {:.0f} s for {} questions", seconds.empty() ? "" : ", ",
                             task.identity.task, task.seconds, task.asked);
    }
    text += fmt::format(" ({}).\n\n", seconds);
    for (const std::string& line : one.likely.banner) text += "    " + line + "\n";
  }
  return text;
}

void write_shares(base::JsonWriter& out, const PairReport& pair) {
  out.key("verdicts").begin_array();
  for (const JudgedShare& one : pair.judged) {
    out.begin_object().key("task").value(one.compared.task);
    out.key("measure").value(one.compared.measure);
    out.key("bound").value(to_string(one.bound)).key("verdict").value(one.text);
    out.key("missed").value(one.standing == Standing::kMissed).end_object();
  }
  out.end_array();
}

void write_drift(base::JsonWriter& out, const PairReport& pair) {
  out.key("drift").begin_array();
  for (size_t i = 0; i < pair.drift.size(); ++i) {
    const DriftBucket& bucket = pair.drift[i];
    out.begin_object().key("begin").value(static_cast<uint64_t>(i * kDriftBucket));
    out.key("positions").value(bucket.positions);
    out.key("kl_at_least").value(bucket.divergence);
    out.key("kl_standard_error").value(bucket.divergence_error);
    out.key("same_first").value(agreement(bucket));
    out.key("named").value(bucket.named).end_object();
  }
  out.end_array();
}

void write_result(base::JsonWriter& out, const PrecisionResult& one) {
  out.begin_object().key("name").value(one.precision->name);
  for (const auto& [name, value] : settings_of(*one.precision)) out.key(name).value(value);
  out.key("windows").value(static_cast<uint64_t>(one.likely.windows.size()));
  out.key("tasks").begin_array();
  for (const TaskResult& task : one.tasks) {
    out.begin_object();
    write_identity(out, task.identity);
    out.key("questions").value(static_cast<uint64_t>(task.outcomes.size()));
    out.key("asked").value(task.asked).key("seconds").value(task.seconds);
    out.key("figures").begin_object();
    for (const Figure& figure : figures_of(task)) out.key(figure.name).value(figure.value);
    out.end_object().end_object();
  }
  out.end_array().end_object();
}

SvgChart accuracy_chart(const PrecisionReport& report) {
  SvgChart chart{"Accuracy, with 95 % intervals", "", "per cent", {}, {}, false};
  for (const PrecisionResult& one : report.results) {
    chart.series.push_back({std::string(one.precision->name), {}});
  }
  const FigureTable table(report.results);
  for (const FigureRow& row : table.rows()) {
    const bool shown = row.name.find('/') == std::string::npos && row.cells[0] != nullptr &&
                       row.cells[0]->is_share;
    if (!shown) continue;
    for (size_t i = 0; i < row.cells.size(); ++i) {
      if (row.cells[i] == nullptr) continue;
      const Figure& figure = *row.cells[i];
      chart.series[i].points.push_back({static_cast<double>(chart.categories.size()),
                                        per_cent(figure.value), per_cent(figure.interval.low),
                                        per_cent(figure.interval.high)});
    }
    chart.categories.push_back(row.name);
  }
  return chart;
}

std::vector<SvgChart> drift_charts(const PairReport& pair) {
  SvgSeries divergence{pair.pair.name(), {}}, same{pair.pair.name(), {}};
  for (size_t i = 0; i < pair.drift.size(); ++i) {
    const DriftBucket& bucket = pair.drift[i];
    const double middle = (static_cast<double>(i) + 0.5) * static_cast<double>(kDriftBucket);
    const double half = kTwoSided95 * bucket.divergence_error;
    divergence.points.push_back({middle, bucket.divergence, std::max(0.0, bucket.divergence - half),
                                 bucket.divergence + half});
    const Interval interval = wilson(bucket.same_first, bucket.positions);
    same.points.push_back(
        {middle, per_cent(agreement(bucket)), per_cent(interval.low), per_cent(interval.high)});
  }
  const std::string name = pair.pair.name();
  return {{name + ": KL, lower bound", "position", "nats", {divergence}, {}, true},
          {name + ": same first token", "position", "per cent", {same}, {}, false}};
}

}  // namespace

base::Result<PairReport> report_pair(const PrecisionPair& pair, const PrecisionResult& before,
                                     const PrecisionResult& after) {
  PairReport out;
  out.pair = pair;
  base::Result<ComparedResults> compared = compare(before.tasks, after.tasks);
  if (!compared.ok()) return std::move(compared).error().within(pair.name());
  out.compared = std::move(compared).value();
  out.judged = judge(out.compared, pair.caches_alone());
  if (before.likely.windows.size() != after.likely.windows.size()) {
    return base::invalid_argument(
        "--windows",
        fmt::format("{}: {} stretches of text against {}; measure both alike", pair.name(),
                    before.likely.windows.size(), after.likely.windows.size()));
  }
  out.drift = drift_between(before.likely, after.likely);
  return out;
}

bool any_missed(const PrecisionReport& report) {
  return std::any_of(report.pairs.begin(), report.pairs.end(),
                     [](const PairReport& pair) { return any_missed(pair.judged); });
}

std::string verdicts_text(const PrecisionReport& report) {
  std::string text =
      "| pair | benchmark | questions | before | after | difference, points | 95 % interval | lost "
      "/ gained | p | bound | verdict |\n|---|---|--:|--:|--:|--:|---|--:|--:|---|---|\n";
  for (const PairReport& pair : report.pairs) {
    for (const JudgedShare& one : pair.judged) text += verdict_row(pair, one);
  }
  for (const PairReport& pair : report.pairs) {
    for (const FigureChange& one : pair.compared.figures) {
      if (!one.name.ends_with("perplexity")) continue;
      text += fmt::format("\n{}: {} {} {:.4f} becomes {:.4f} ({:+.2f} %).\n", pair.pair.name(),
                          one.task, one.name, one.before, one.after,
                          per_cent(one.after / one.before - 1.0));
    }
    for (const std::string& note : pair.compared.notes) {
      text += fmt::format("\n{}: {}.\n", pair.pair.name(), note);
    }
  }
  for (const std::string& name : report.unmeasured) {
    text += fmt::format("\n{} is not measured yet; the same command goes on.\n", name);
  }
  return text;
}

std::string precision_text(const PrecisionReport& report) {
  std::string text = fmt::format("# Precision of {}\n\n    {}\n\nMade by {}.\n", report.model,
                                 report.command, report.program);
  text += "\n## Verdicts\n\n" + verdicts_text(report);
  text +=
      "\nDifferences are of paired questions, `after` less `before`, with Newcombe's 95 % "
      "interval; "
      "p is McNemar's exact test. A bound holds where the whole interval lies within it, and is "
      "missed where the difference is beyond chance too; what is in between, so many questions do "
      "not resolve. Nothing is corrected for judging several benchmarks.\n";
  text += "\n## Figures\n\n![accuracy](accuracy.svg)\n\n" + figures_text(report);
  text += "\n## Drift\n\n" + drifts_text(report);
  text += "\n## Flips\n\n" + flips_text(report) + "\n`report.json` names them.\n";
  return text + "\n## Servers\n" + servers_text(report);
}

std::string precision_json(const PrecisionReport& report) {
  base::JsonWriter out;
  out.begin_object().key("bulkhead_precision").value(1).key("model").value(report.model);
  out.key("command").value(report.command).key("program").value(report.program);
  out.key("precisions").begin_array();
  for (const PrecisionResult& one : report.results) write_result(out, one);
  out.end_array().key("pairs").begin_array();
  for (const PairReport& pair : report.pairs) {
    out.begin_object().key("pair").value(pair.pair.name());
    write_shares(out, pair);
    write_drift(out, pair);
    out.key("compared").raw(comparison_json(pair.compared)).end_object();
  }
  out.end_array().key("unmeasured").begin_array();
  for (const std::string& name : report.unmeasured) out.value(name);
  out.end_array().end_object();
  return std::move(out).take() + "\n";
}

std::vector<std::pair<std::string, std::string>> precision_pictures(const PrecisionReport& report) {
  std::vector<std::pair<std::string, std::string>> out;
  out.emplace_back("accuracy.svg", draw({accuracy_chart(report)}));
  for (const PairReport& pair : report.pairs) {
    out.emplace_back(picture_name(pair), draw(drift_charts(pair)));
  }
  return out;
}

}  // namespace bulkhead::apps::eval
