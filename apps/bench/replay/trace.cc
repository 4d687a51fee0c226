#include "apps/bench/replay/trace.h"

#include <fmt/format.h>

#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/bench/bounded_lines.h"

namespace bulkhead::apps {
namespace {

namespace json = boost::json;

constexpr int64_t kMooncakeBlockTokens = 512;
constexpr double kMillisecondsMax = 1e15;
constexpr std::string_view kAzureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";

// A row with its time as the file tells it, in seconds since some moment.
struct Stamped {
  double seconds = 0.0;
  TraceRow row;
};

base::Error not_whole(std::string_view name, int64_t low) {
  return base::corrupt(
      fmt::format("\"{}\" is not a whole number from {} to {}", name, low, kTraceTokensMax));
}

// --- Mooncake

base::Result<int64_t> whole_field(const json::object& object, std::string_view name, int64_t low) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_int64() || value->as_int64() < low ||
      value->as_int64() > kTraceTokensMax) {
    return not_whole(name, low);
  }
  return value->as_int64();
}

base::Result<double> timestamp_of(const json::object& object) {
  const json::value* value = object.if_contains("timestamp");
  const bool number = value != nullptr && (value->is_int64() || value->is_double());
  const double milliseconds = !number             ? -1.0
                              : value->is_int64() ? static_cast<double>(value->as_int64())
                                                  : value->as_double();
  if (!(milliseconds >= 0.0) || milliseconds > kMillisecondsMax) {
    return base::corrupt(fmt::format("\"timestamp\" is not a number of milliseconds from 0 to {:g}",
                                     kMillisecondsMax));
  }
  return milliseconds / 1e3;
}

base::Result<std::vector<int64_t>> block_names(const json::object& object, int64_t input_tokens) {
  const json::value* value = object.if_contains("hash_ids");
  if (value == nullptr || !value->is_array()) return base::corrupt("\"hash_ids\" is not an array");
  const json::array& ids = value->as_array();
  const auto wanted =
      static_cast<size_t>((input_tokens + kMooncakeBlockTokens - 1) / kMooncakeBlockTokens);
  if (ids.size() != wanted) {
    return base::corrupt(fmt::format(
        "\"hash_ids\" has {} entries, and \"input_length\" {} is {} blocks of {} tokens",
        ids.size(), input_tokens, wanted, kMooncakeBlockTokens));
  }
  std::vector<int64_t> names;
  names.reserve(ids.size());
  for (const json::value& id : ids) {
    if (!id.is_int64() || id.as_int64() < 0) {
      return base::corrupt(
          fmt::format("\"hash_ids\"[{}] is not a whole number from 0 on", names.size()));
    }
    names.push_back(id.as_int64());
  }
  return names;
}

base::Result<Stamped> mooncake_row(std::string_view line) {
  boost::system::error_code bad;
  const json::value value = json::parse(json::string_view(line.data(), line.size()), bad);
  if (bad || !value.is_object()) return base::corrupt("is not a JSON object");
  const json::object& object = value.as_object();
  Stamped out;
  BH_ASSIGN(out.seconds, timestamp_of(object));
  BH_ASSIGN(out.row.input_tokens, whole_field(object, "input_length", 1));
  BH_ASSIGN(out.row.output_tokens, whole_field(object, "output_length", 0));
  BH_ASSIGN(out.row.blocks, block_names(object, out.row.input_tokens));
  return out;
}

// --- Azure

// The digits of `text` from `at` on, all `count` of them; -1: they are not.
int64_t digits(std::string_view text, size_t at, size_t count) {
  int64_t value = 0;
  if (count == 0 || text.size() < at + count || text[at] == '-') return -1;
  const char* end = text.data() + at + count;
  const auto [rest, error] = std::from_chars(text.data() + at, end, value);
  return error == std::errc{} && rest == end ? value : -1;
}

bool has(std::string_view text, size_t at, char wanted) {
  return text.size() > at && text[at] == wanted;
}

// "2023-11-16 18:17:03.9799600" in seconds since 1970; nothing where it is no such time.
std::optional<double> seconds_of(std::string_view text) {
  const std::array<int64_t, 6> parts = {digits(text, 0, 4),  digits(text, 5, 2),
                                        digits(text, 8, 2),  digits(text, 11, 2),
                                        digits(text, 14, 2), digits(text, 17, 2)};
  for (const int64_t part : parts) {
    if (part < 0) return std::nullopt;
  }
  if (!has(text, 4, '-') || !has(text, 7, '-') || !has(text, 10, ' ') || !has(text, 13, ':') ||
      !has(text, 16, ':') || parts[3] > 23 || parts[4] > 59 || parts[5] > 60) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(parts[0])),
                                         std::chrono::month(static_cast<unsigned>(parts[1])),
                                         std::chrono::day(static_cast<unsigned>(parts[2])));
  if (!date.ok()) return std::nullopt;
  double fraction = 0.0;
  if (text.size() > 19) {
    const size_t places = text.size() - 20;
    const int64_t value = digits(text, 20, places);
    if (text[19] != '.' || places > 9 || value < 0) return std::nullopt;
    fraction = static_cast<double>(value) / std::pow(10.0, static_cast<double>(places));
  }
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  const int64_t whole = ((int64_t{days} * 24 + parts[3]) * 60 + parts[4]) * 60 + parts[5];
  return static_cast<double>(whole) + fraction;
}

base::Result<int64_t> whole_column(std::string_view text, std::string_view name) {
  const int64_t value = text.size() > 9 ? -1 : digits(text, 0, text.size());
  if (value < 0 || value > kTraceTokensMax) return not_whole(name, 0);
  return value;
}

base::Result<Stamped> azure_row(std::string_view line) {
  const size_t first = line.find(',');
  const size_t second = first == line.npos ? first : line.find(',', first + 1);
  if (second == line.npos || line.find(',', second + 1) != line.npos) {
    return base::corrupt("does not have three columns");
  }
  Stamped out;
  const std::optional<double> seconds = seconds_of(line.substr(0, first));
  if (!seconds) {
    return base::corrupt("\"TIMESTAMP\" is not a time like 2023-11-16 18:17:03.9799600");
  }
  out.seconds = *seconds;
  BH_ASSIGN(out.row.input_tokens,
            whole_column(line.substr(first + 1, second - first - 1), "ContextTokens"));
  BH_ASSIGN(out.row.output_tokens, whole_column(line.substr(second + 1), "GeneratedTokens"));
  return out;
}

// --- both

using RowReader = base::Result<Stamped> (*)(std::string_view);

class Reader {
 public:
  Reader(std::istream& in, const std::string& name, uint64_t start, uint64_t count)
      : in_(in), name_(name), lines_(in, name, kTraceLineBytesMax), start_(start), count_(count) {}

  base::Result<Trace> read() {
    const bool is_json = in_.peek() == '{';
    trace_.kind = is_json ? "mooncake" : "azure";
    trace_.block_tokens = is_json ? kMooncakeBlockTokens : 0;
    if (!is_json) BH_TRY(check_header());
    const RowReader reader = is_json ? &mooncake_row : &azure_row;
    uint64_t seen = 0;
    std::string_view line;
    while (trace_.rows.size() < count_) {
      BH_ASSIGN(const bool more, lines_.next(line));
      if (!more) break;
      if (line.empty() || seen++ < start_) continue;
      BH_TRY(take(reader(line)));
    }
    if (trace_.rows.empty()) {
      return base::invalid_argument(
          name_, fmt::format("{} has {} rows, none from row {} on", name_, seen, start_));
    }
    return std::move(trace_);
  }

 private:
  base::Status check_header() {
    std::string_view line;
    BH_ASSIGN(const bool more, lines_.next(line));
    if (more && line == kAzureHeader) return {};
    return base::invalid_argument(
        name_, fmt::format("{} is no trace: it begins neither with a JSON object nor with {}",
                           name_, kAzureHeader));
  }

  base::Status take(base::Result<Stamped> read) {
    if (!read.ok()) return lines_.wrong(read.error().message);
    Stamped stamped = std::move(read).value();
    if (!trace_.rows.empty() && stamped.seconds < last_seconds_) {
      return lines_.wrong("its time is before that of the row above");
    }
    if (trace_.rows.empty()) first_seconds_ = stamped.seconds;
    last_seconds_ = stamped.seconds;
    blocks_ += stamped.row.blocks.size();
    if (blocks_ > kTraceBlocksMax) {
      return lines_.wrong(fmt::format(
          "more than {} blocks up to here: take fewer rows with --requests", kTraceBlocksMax));
    }
    stamped.row.line = lines_.number();
    stamped.row.arrival_s = stamped.seconds - first_seconds_;
    trace_.rows.push_back(std::move(stamped.row));
    return {};
  }

  std::istream& in_;
  const std::string& name_;
  BoundedLines lines_;
  const uint64_t start_;
  const uint64_t count_;
  Trace trace_;
  double first_seconds_ = 0.0;
  double last_seconds_ = 0.0;
  uint64_t blocks_ = 0;
};

}  // namespace

base::Result<Trace> read_trace(std::istream& in, const std::string& name, uint64_t start,
                               uint64_t count) {
  return Reader(in, name, start, count).read();
}

base::Result<Trace> read_trace(const std::string& path, uint64_t start, uint64_t count) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return base::Error{base::ErrorCode::kNotFound, "cannot read the trace " + path, "TRACE"};
  }
  return read_trace(file, path, start, count);
}

}  // namespace bulkhead::apps
