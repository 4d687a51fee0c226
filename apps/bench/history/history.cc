#include "apps/bench/history/history.h"

#include <fmt/format.h>

#include <array>
#include <boost/json.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <utility>

#include "apps/bench/bounded_lines.h"
#include "base/json_writer.h"

namespace bulkhead::apps {
namespace {

namespace json = boost::json;

constexpr size_t kLineBytesMax = size_t{1} << 16;
constexpr size_t kLinesMax = size_t{1} << 20;
constexpr size_t kTextBytesMax = 1024;

struct TextField {
  std::string_view name;
  std::string HistoryEntry::* at;
  bool required;
};
constexpr std::array<TextField, 10> kTextFields = {{
    {"bench", &HistoryEntry::bench, true},
    {"date", &HistoryEntry::date, true},
    {"commit", &HistoryEntry::commit, true},
    {"machine", &HistoryEntry::machine, true},
    {"model", &HistoryEntry::model, false},
    {"isa", &HistoryEntry::isa, false},
    {"engine", &HistoryEntry::engine, false},
    {"settings", &HistoryEntry::settings, false},
    {"figure", &HistoryEntry::figure, true},
    {"unit", &HistoryEntry::unit, true},
}};

base::Status take_text(const json::object& object, const TextField& field, HistoryEntry& entry) {
  const json::value* value = object.if_contains(field.name);
  if (value == nullptr && !field.required) return {};
  if (value == nullptr || !value->is_string() || value->as_string().size() > kTextBytesMax ||
      (field.required && value->as_string().empty())) {
    return base::corrupt(fmt::format("\"{}\" is not a text of {} to {} bytes", field.name,
                                     field.required ? 1 : 0, kTextBytesMax));
  }
  entry.*field.at = std::string(value->as_string());
  return {};
}

base::Result<double> number_of(const json::value* value, std::string_view name) {
  const bool whole = value != nullptr && value->is_int64();
  const bool real = value != nullptr && value->is_double();
  const double number = whole  ? static_cast<double>(value->as_int64())
                        : real ? value->as_double()
                               : std::nan("");
  if (!std::isfinite(number)) return base::corrupt(fmt::format("\"{}\" is not a number", name));
  return number;
}

base::Result<HistoryEntry> parse_line(std::string_view line) {
  boost::system::error_code bad;
  const json::value value = json::parse(json::string_view(line.data(), line.size()), bad);
  if (bad || !value.is_object()) return base::corrupt("is not a JSON object");
  const json::object& object = value.as_object();
  HistoryEntry entry;
  for (const TextField& field : kTextFields) BH_TRY(take_text(object, field, entry));
  BH_ASSIGN(entry.median, number_of(object.if_contains("median"), "median"));
  const json::value* values = object.if_contains("values");
  if (values == nullptr) return entry;
  if (!values->is_array()) return base::corrupt("\"values\" is not an array");
  entry.values.reserve(values->as_array().size());
  for (const json::value& one : values->as_array()) {
    BH_ASSIGN(const double number, number_of(&one, "values"));
    entry.values.push_back(number);
  }
  return entry;
}

}  // namespace

std::string history_line(const HistoryEntry& entry) {
  base::JsonWriter out;
  out.begin_object();
  for (const TextField& field : kTextFields) {
    const std::string& text = entry.*field.at;
    if (field.required || !text.empty()) out.key(field.name).value(text);
  }
  out.key("median").value(entry.median).key("values").begin_array();
  for (const double value : entry.values) out.value(value);
  out.end_array().end_object();
  return std::move(out).take();
}

base::Result<std::vector<HistoryEntry>> read_history(std::istream& in, const std::string& name) {
  BoundedLines lines(in, name, kLineBytesMax);
  std::vector<HistoryEntry> entries;
  std::string_view line;
  for (;;) {
    BH_ASSIGN(const bool more, lines.next(line));
    if (!more) return entries;
    if (line.empty()) continue;
    base::Result<HistoryEntry> entry = parse_line(line);
    if (!entry.ok()) return lines.wrong(entry.error().message);
    if (entries.size() == kLinesMax) {
      return lines.wrong(fmt::format("more than {} figures", kLinesMax));
    }
    entries.push_back(std::move(entry).value());
  }
}

base::Result<std::vector<HistoryEntry>> read_history(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return base::Error{base::ErrorCode::kNotFound, "cannot read the history " + path, "FILE"};
  }
  return read_history(file, path);
}

base::Status append_history(const std::string& path, const std::vector<HistoryEntry>& entries) {
  std::string text;
  for (const HistoryEntry& entry : entries) text += history_line(entry) + '\n';
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << text;
  file.close();
  if (!file) return base::Error{base::ErrorCode::kIo, "cannot write " + path, "--history"};
  return {};
}

std::string history_date() {
  const std::chrono::year_month_day today(
      std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(today.year()),
                     static_cast<unsigned>(today.month()), static_cast<unsigned>(today.day()));
}

void set_figure(HistoryEntry& entry, std::string figure, std::string unit, double value) {
  entry.figure = std::move(figure);
  entry.unit = std::move(unit);
  entry.median = std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
  entry.values = {entry.median};
}

}  // namespace bulkhead::apps
