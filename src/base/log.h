// Log lines for operators, as text or as JSON, one line per event.
//
// Threads: any thread; a line is written whole. Invariants: field values are escaped; prompts and
// generated text are never logged. There is no global logger: it comes in at construction.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <variant>

namespace bulkhead::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

struct LogField {
  std::string_view name;
  std::variant<std::string, int64_t, uint64_t, double, bool> value;
};

class Logger {
 public:
  Logger(std::ostream& out, LogFormat format, LogLevel threshold)
      : out_(out), format_(format), threshold_(threshold) {}

  void debug(std::string_view message, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kDebug, message, fields);
  }
  void info(std::string_view message, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kInfo, message, fields);
  }
  void warning(std::string_view message, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kWarning, message, fields);
  }
  void error(std::string_view message, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kError, message, fields);
  }

 private:
  void write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields);

  std::mutex mutex_;
  std::ostream& out_;
  const LogFormat format_;
  const LogLevel threshold_;
};

}  // namespace bulkhead::base
