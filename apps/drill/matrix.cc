#include "apps/drill/matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json_writer.h"

namespace bulkhead::apps {
namespace {

constexpr size_t kColumns = 8;
using Cells = std::array<std::string, kColumns>;

// Requests that were touched: ended where pages are watched, else those with other answers.
int affected(const Row& row) {
  return row.answers.ended + row.answers.not_finite + row.answers.wrong + row.answers.broken;
}

Cells cells_of(const Row& row, const std::string& mode) {
  const bool control = row.fault->moment == Moment::kNever;
  return {std::string(row.fault->name),
          std::string(row.fault->meaning),
          row.pool,
          control ? "-" : fmt::format("{}", row.injected),
          fmt::format("{} of {}", affected(row), row.answers.total()),
          to_text(row.noticed),
          fmt::format("{} of {}", row.answers.same, row.answers.total() - row.answers.ended),
          judge(row, mode).text};
}

std::string line_of(const Cells& cells, const std::array<size_t, kColumns>& widths) {
  std::string out = "|";
  for (size_t i = 0; i < kColumns; ++i) out += fmt::format(" {:<{}} |", cells[i], widths[i]);
  return out + "\n";
}

std::string notes_of(const Matrix& matrix) {
  std::string out;
  for (const Row& row : matrix.rows) {
    if (row.fault->note.empty() || out.find(row.fault->name) != std::string::npos) continue;
    out += fmt::format("- {}: {}\n", row.fault->name, row.fault->note);
  }
  return out.empty() ? out : "\n" + out;
}

std::string summary_of(const Matrix& matrix) {
  const bool good = passed(matrix);
  if (matrix.mode == "off") {
    return good ? "Nothing is noticed, and faults do harm: the checks are needed.\n"
                : "FAIL: without checks no fault did harm, so the drill shows nothing.\n";
  }
  const auto failed =
      std::count_if(matrix.rows.begin(), matrix.rows.end(),
                    [&matrix](const Row& row) { return !judge(row, matrix.mode).pass; });
  return good ? "Every fault was met as it should be.\n"
              : fmt::format("FAIL: {} of {} rows.\n", failed, matrix.rows.size());
}

void write_row(base::JsonWriter& json, const Row& row, const std::string& mode) {
  const Verdict verdict = judge(row, mode);
  json.begin_object();
  json.key("fault").value(row.fault->name);
  json.key("pool").value(row.pool);
  json.key("rounds").value(row.rounds);
  json.key("injected").value(row.injected);
  json.key("noticed_rounds").value(row.noticed_rounds);
  json.key("answers").begin_object();
  json.key("same").value(row.answers.same);
  json.key("ended").value(row.answers.ended);
  json.key("not_finite").value(row.answers.not_finite);
  json.key("wrong").value(row.answers.wrong);
  json.key("broken").value(row.answers.broken);
  json.end_object();
  json.key("detected_by").begin_array();
  for (const auto& [kind, noticed] : row.noticed) {
    json.begin_object();
    json.key("kind").value(kind);
    json.key("times").value(noticed.times);
    json.key("phases").begin_array();
    for (const std::string& phase : noticed.phases) json.value(phase);
    json.end_array().end_object();
  }
  json.end_array();
  json.key("unrecovered").value(row.unrecovered);
  json.key("unbalanced").value(row.unbalanced);
  json.key("server_ended").value(row.server_ended);
  json.key("trouble").value(row.trouble);
  json.key("pass").value(verdict.pass);
  json.key("verdict").value(verdict.text);
  json.end_object();
}

}  // namespace

bool passed(const Matrix& matrix) {
  const bool all = std::all_of(matrix.rows.begin(), matrix.rows.end(),
                               [&](const Row& row) { return judge(row, matrix.mode).pass; });
  return all &&
         (matrix.mode != "off" || std::any_of(matrix.rows.begin(), matrix.rows.end(), did_harm));
}

std::string matrix_text(const Matrix& matrix) {
  const Cells titles = {"fault",       "what goes wrong",      "pool",   "injected", "affected",
                        "detected by", "neighbours unchanged", "verdict"};
  std::vector<Cells> lines = {titles};
  for (const Row& row : matrix.rows) lines.push_back(cells_of(row, matrix.mode));
  std::array<size_t, kColumns> widths{};
  for (const Cells& cells : lines) {
    for (size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  Cells rules;
  for (size_t i = 0; i < kColumns; ++i) rules[i] = std::string(widths[i], '-');
  lines.insert(lines.begin() + 1, rules);
  std::string out;
  for (const Cells& cells : lines) out += line_of(cells, widths);
  return out + notes_of(matrix) + "\n" + summary_of(matrix);
}

std::string matrix_json(const Matrix& matrix) {
  base::JsonWriter json;
  json.begin_object();
  json.key("model").value(matrix.model);
  json.key("kv_integrity").value(matrix.mode);
  json.key("pass").value(passed(matrix));
  json.key("rows").begin_array();
  for (const Row& row : matrix.rows) write_row(json, row, matrix.mode);
  json.end_array().end_object();
  return std::move(json).take();
}

}  // namespace bulkhead::apps
