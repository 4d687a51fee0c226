#include "base/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>

#include "base/json_writer.h"

namespace bulkhead::base {
namespace {

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "info";
}

std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), ms.count() % 1000);
}

void append_json_value(JsonWriter& json, const LogField& field) {
  json.key(field.name);
  std::visit([&](const auto& value) { json.value(value); }, field.value);
}

std::string text_value(const LogField& field) {
  return std::visit(
      [](const auto& value) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
          // Quoted when a reader could not see where it ends.
          if (value.find_first_of(" \t\n\r\"=") == std::string::npos) return value;
          JsonWriter json;
          json.value(value);
          return std::move(json).take();
        } else if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>) {
          return fmt::format("{:.6g}", value);
        } else {
          return fmt::format("{}", value);
        }
      },
      field.value);
}

}  // namespace

void Logger::write(LogLevel level, std::string_view message,
                   std::initializer_list<LogField> fields) {
  if (level < threshold_) return;
  std::string line;
  if (format_ == LogFormat::kJson) {
    JsonWriter json;
    json.begin_object();
    json.key("time").value(timestamp());
    json.key("level").value(name_of(level));
    json.key("message").value(message);
    for (const LogField& field : fields) append_json_value(json, field);
    json.end_object();
    line = std::move(json).take();
  } else {
    line = fmt::format("{} {:<7} {}", timestamp(), name_of(level), message);
    for (const LogField& field : fields) {
      line += fmt::format(" {}={}", field.name, text_value(field));
    }
  }
  line += '\n';
  std::lock_guard lock(mutex_);
  out_ << line << std::flush;
}

}  // namespace bulkhead::base
