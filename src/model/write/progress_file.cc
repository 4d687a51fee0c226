#include "model/write/progress_file.h"

#include <bit>
#include <cmath>

#include "base/json_writer.h"
#include "model/byte_source.h"
#include "model/fields.h"
#include "model/safetensors.h"

namespace bulkhead::model::write {
namespace {

constexpr uint64_t kBytesMax = 256u << 20;
constexpr int32_t kCountMax = 1 << 20;

// Sums are kept as the bits of the double: a decimal that is read back may be another number.
uint64_t bits_of(double sum) { return std::bit_cast<uint64_t>(sum); }

base::Result<double> read_sum(const JsonFields& fields, std::string_view key) {
  const boost::json::value* value = fields.value(key);
  const int64_t* bits = value == nullptr ? nullptr : value->if_int64();
  const double sum = bits == nullptr ? -1.0 : std::bit_cast<double>(*bits);
  if (!(sum >= 0.0) || std::isinf(sum)) return fields.refuse(key, "must be the bits of a sum");
  return sum;
}

base::Result<TensorError> read_error(const JsonFields& fields) {
  TensorError error;
  BH_ASSIGN(error.squares, read_sum(fields, "squares"));
  BH_ASSIGN(error.squared, read_sum(fields, "squared"));
  BH_ASSIGN(error.amax_squared, read_sum(fields, "amax_squared"));
  BH_ASSIGN(error.largest, read_sum(fields, "largest"));
  return error;
}

}  // namespace

base::Result<std::optional<Progress>> read_progress(const std::filesystem::path& directory) {
  auto source = open_file(directory / kProgressName);
  if (!source.ok() && source.error().code == base::ErrorCode::kNotFound) {
    return std::optional<Progress>{};
  }
  if (!source.ok()) return std::move(source).error();
  BH_ASSIGN(const std::string text, read_text(**source, kBytesMax));
  BH_ASSIGN(const boost::json::object object, parse_json_object(kProgressName, text));
  const JsonFields fields{std::string(kProgressName), object};
  Progress progress;
  BH_ASSIGN(progress.digest, fields.text_or("digest", ""));
  BH_ASSIGN(progress.recipe, fields.text_or("recipe", ""));
  BH_ASSIGN(const int32_t shards, fields.count_or("shards", kCountMax, 0));
  progress.shards = static_cast<size_t>(shards);
  const boost::json::value* errors = fields.value("errors");
  if (errors == nullptr || !errors->is_array() || errors->get_array().size() > kTensorsMax) {
    return fields.refuse("errors", "must be a list");
  }
  progress.errors.reserve(errors->get_array().size());
  for (const boost::json::value& one : errors->get_array()) {
    if (!one.is_object()) return fields.refuse("errors", "must hold objects");
    BH_ASSIGN(const TensorError error, read_error(JsonFields("errors", one.get_object())));
    progress.errors.push_back(error);
  }
  return std::optional<Progress>(std::move(progress));
}

base::Status write_progress(const std::filesystem::path& directory, const Progress& progress) {
  base::JsonWriter json;
  json.begin_object();
  json.key("digest").value(progress.digest);
  json.key("recipe").value(progress.recipe);
  json.key("shards").value(static_cast<uint64_t>(progress.shards));
  json.key("errors").begin_array();
  for (const TensorError& error : progress.errors) {
    json.begin_object();
    json.key("squares").value(bits_of(error.squares));
    json.key("squared").value(bits_of(error.squared));
    json.key("amax_squared").value(bits_of(error.amax_squared));
    json.key("largest").value(bits_of(error.largest));
    json.end_object();
  }
  json.end_array().end_object();
  return write_file_aside(directory / kProgressName, json.text());
}

}  // namespace bulkhead::model::write
