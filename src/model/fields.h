// Typed, range-checked look-up in a model's configuration, the same for config.json and for GGUF
// metadata; every error names the file and the key.
//
// Threads: immutable; the underlying document must outlive the view.
// Invariants: a value that is returned has the asked type and lies in the asked range; null counts
// as absent.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"

namespace bulkhead::model {

// What is there under a key: nothing, a scalar, or something that is no scalar.
struct NotScalar {};
using FieldValue = std::variant<std::monostate, int64_t, double, bool, std::string_view, NotScalar>;

struct NumberRange {
  double min;
  double max;
};

class Fields {
 public:
  explicit Fields(std::string where) : where_(std::move(where)) {}
  virtual ~Fields() = default;

  virtual FieldValue find(std::string_view key) const = 0;

  bool has(std::string_view key) const;
  // A whole number in [1, max]; absent: an error, or `fallback` (which need not be in range).
  base::Result<int32_t> dimension(std::string_view key, int32_t max) const;
  base::Result<int32_t> dimension_or(std::string_view key, int32_t max, int32_t fallback) const;
  // The same from 0 on.
  base::Result<int32_t> count_or(std::string_view key, int32_t max, int32_t fallback) const;
  base::Result<double> number(std::string_view key, NumberRange range) const;
  base::Result<double> number_or(std::string_view key, NumberRange range, double fallback) const;
  base::Result<bool> flag_or(std::string_view key, bool fallback) const;
  base::Result<std::string> text_or(std::string_view key, std::string_view fallback) const;

  const std::string& where() const { return where_; }
  // "config.json: rope_scaling.factor: <why>".
  base::Error refuse(std::string_view key, std::string_view why) const;
  base::Error unsupported(std::string_view key, std::string_view why) const;

 private:
  std::string where_;  // file, and the path of the object inside it
};

class JsonFields final : public Fields {
 public:
  JsonFields(std::string where, const boost::json::object& object)
      : Fields(std::move(where)), object_(object) {}

  FieldValue find(std::string_view key) const override;
  // The object under `key`, or nothing when it is absent; anything else there is an error.
  base::Result<std::optional<JsonFields>> object(std::string_view key) const;
  // The raw value, null when absent.
  const boost::json::value* value(std::string_view key) const;

 private:
  const boost::json::object& object_;
};

// Parses a JSON document that must be an object. `name` is the file, for messages.
base::Result<boost::json::object> parse_json_object(std::string_view name, std::string_view text);

}  // namespace bulkhead::model
