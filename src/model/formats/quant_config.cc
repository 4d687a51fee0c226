#include "model/formats/quant_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "model/fields.h"

namespace bulkhead::model::formats {
namespace {

constexpr std::string_view kKey = "quantization_config";
constexpr std::string_view kLoadable =
    "fp8 (e4m3 in blocks), compressed-tensors (pack-quantized with 4 bits, float-quantized in "
    "blocks), awq (gemm, 4 bits) and gptq (4 bits) can be loaded";
constexpr std::string_view kPackedFormat = "pack-quantized";
constexpr std::string_view kFloatFormat = "float-quantized";
constexpr int32_t kGroupMax = 1 << 20;
constexpr size_t kConfigGroupsMax = 64;

base::Error refuse_value(const JsonFields& fields, std::string_view key, std::string_view value,
                         std::string_view instead) {
  return fields.unsupported(
      key, fmt::format("\"{}\" cannot be loaded; {}", value.substr(0, 64), instead));
}

// Present, and neither null nor false nor empty.
bool is_set(const JsonFields& fields, std::string_view key) {
  const boost::json::value* value = fields.value(key);
  if (value == nullptr) return false;
  if (value->is_bool()) return value->get_bool();
  if (value->is_object()) return !value->get_object().empty();
  if (value->is_array()) return !value->get_array().empty();
  return !value->is_string() || !value->get_string().empty();
}

base::Status expect_text(const JsonFields& fields, std::string_view key, std::string_view wanted) {
  BH_ASSIGN(const std::string value, fields.text_or(key, wanted));
  if (value == wanted) return {};
  return refuse_value(fields, key, value, fmt::format("\"{}\" can", wanted));
}

base::Status expect_four_bits(const JsonFields& fields, std::string_view key) {
  BH_ASSIGN(const int32_t bits, fields.dimension(key, 64));
  if (bits == 4) return {};
  return fields.unsupported(key, fmt::format("{} bits cannot be loaded; 4 can", bits));
}

// A number of columns, whole words of codes; -1: all of a row.
base::Result<uint64_t> group_columns(const JsonFields& fields, std::string_view key) {
  const boost::json::value* value = fields.value(key);
  if (value != nullptr && value->is_int64() && value->get_int64() == -1) return uint64_t{0};
  BH_ASSIGN(const int32_t columns, fields.dimension(key, kGroupMax));
  if (columns % 8 == 0) return static_cast<uint64_t>(columns);
  return fields.unsupported(key, fmt::format("{} is no multiple of 8", columns));
}

base::Status read_block(const JsonFields& fields, std::string_view key, QuantConfig& out) {
  const boost::json::value* block = fields.value(key);
  if (block == nullptr) {
    return fields.unsupported(key, "missing, and FP8 is loaded with a scale for each block only");
  }
  const auto is_size = [](const boost::json::value& size) {
    return size.is_int64() && size.get_int64() >= 1 && size.get_int64() <= kGroupMax;
  };
  const bool pair = block->is_array() && block->get_array().size() == 2;
  if (!pair || !std::all_of(block->get_array().begin(), block->get_array().end(), is_size)) {
    return fields.refuse(key, "must be the rows and the columns of a block");
  }
  const auto rows = static_cast<uint64_t>(block->get_array()[0].get_int64());
  const auto columns = static_cast<uint64_t>(block->get_array()[1].get_int64());
  if (out.block_rows != 0 && (rows != out.block_rows || columns != out.block_columns)) {
    return fields.unsupported(key, "blocks of two sizes in one checkpoint cannot be loaded");
  }
  out.block_rows = rows;
  out.block_columns = columns;
  return {};
}

base::Result<QuantConfig> read_fp8(const JsonFields& fields) {
  QuantConfig out;
  out.method = QuantMethod::kFp8;
  BH_TRY(expect_text(fields, "fmt", "e4m3"));
  BH_TRY(expect_text(fields, "activation_scheme", "dynamic"));
  BH_TRY(read_block(fields, "weight_block_size", out));
  return out;
}

// FP8 in blocks. Activations that are quantised as they come, like those of quant_method fp8, are
// computed as they are instead.
base::Status read_float_group(const JsonFields& group, QuantConfig& out) {
  BH_ASSIGN(const auto inputs, group.object("input_activations"));
  if (inputs && !is_set(*inputs, "dynamic")) {
    return inputs->unsupported("dynamic", "activations with stored scales cannot be computed");
  }
  if (is_set(group, "output_activations")) {
    return group.unsupported("output_activations", "quantised activations cannot be computed");
  }
  BH_ASSIGN(const auto weights, group.object("weights"));
  if (!weights) return group.refuse("weights", "missing");
  BH_TRY(expect_text(*weights, "type", "float"));
  BH_ASSIGN(const int32_t bits, weights->dimension("num_bits", 64));
  if (bits != 8) {
    return weights->unsupported("num_bits", fmt::format("{} bits cannot be loaded; 8 can", bits));
  }
  if (is_set(*weights, "dynamic")) return weights->unsupported("dynamic", "must be false");
  BH_ASSIGN(const bool symmetric, weights->flag_or("symmetric", true));
  if (!symmetric) return weights->unsupported("symmetric", "false cannot be loaded; true can");
  BH_TRY(expect_text(*weights, "strategy", "block"));
  return read_block(*weights, "block_structure", out);
}

// Four-bit integers in groups of a row's columns.
base::Result<GroupRule> read_packed_group(const JsonFields& group) {
  for (const std::string_view key : {"input_activations", "output_activations"}) {
    if (is_set(group, key)) {
      return group.unsupported(key, "quantised activations cannot be computed");
    }
  }
  BH_ASSIGN(const auto weights, group.object("weights"));
  if (!weights) return group.refuse("weights", "missing");
  BH_TRY(expect_text(*weights, "type", "int"));
  BH_TRY(expect_four_bits(*weights, "num_bits"));
  if (is_set(*weights, "dynamic")) return weights->unsupported("dynamic", "must be false");
  const boost::json::value* order = weights->value("actorder");
  const bool known =
      order == nullptr || (order->is_bool() && !order->get_bool()) ||
      (order->is_string() && (order->get_string() == "weight" || order->get_string() == "static"));
  if (!known) {
    return weights->unsupported("actorder",
                                "groups ordered by activation cannot be loaded; null, \"weight\" "
                                "and \"static\" can");
  }
  GroupRule rule;
  BH_ASSIGN(rule.symmetric, weights->flag_or("symmetric", true));
  BH_ASSIGN(const std::string strategy, weights->text_or("strategy", "group"));
  if (strategy == "channel") return rule;
  if (strategy != "group") {
    return refuse_value(*weights, "strategy", strategy, "\"group\" and \"channel\" can");
  }
  BH_ASSIGN(rule.columns, group_columns(*weights, "group_size"));
  return rule;
}

// What would change the numbers beside the packed weights.
base::Status refuse_extras(const JsonFields& fields) {
  if (is_set(fields, "kv_cache_scheme")) {
    return fields.unsupported("kv_cache_scheme", "only null can be loaded");
  }
  BH_ASSIGN(const auto transform, fields.object("transform_config"));
  if (transform && is_set(*transform, "config_groups")) {
    return transform->unsupported("config_groups", "rotated weights cannot be loaded");
  }
  BH_ASSIGN(const auto sparsity, fields.object("sparsity_config"));
  if (sparsity) BH_TRY(expect_text(*sparsity, "format", "dense"));
  return {};
}

// One entry of config_groups; its format is `format` unless it names one.
base::Status read_config_group(const JsonFields& group, std::string_view format, QuantConfig& out) {
  BH_ASSIGN(const std::string own, group.text_or("format", format));
  if (own == kFloatFormat) return read_float_group(group, out);
  if (own != kPackedFormat) {
    return refuse_value(group, "format", own, "\"pack-quantized\" and \"float-quantized\" can");
  }
  BH_ASSIGN(const GroupRule rule, read_packed_group(group));
  out.groups.push_back(rule);
  return {};
}

base::Result<QuantConfig> read_compressed_tensors(const JsonFields& fields) {
  QuantConfig out;
  out.method = QuantMethod::kCompressedTensors;
  BH_ASSIGN(const std::string format, fields.text_or("format", kPackedFormat));
  if (format != kPackedFormat && format != kFloatFormat && format != "mixed-precision") {
    return refuse_value(fields, "format", format,
                        "\"pack-quantized\", \"float-quantized\" and \"mixed-precision\" can");
  }
  BH_TRY(expect_text(fields, "quantization_status", "compressed"));
  BH_TRY(refuse_extras(fields));
  BH_ASSIGN(const auto groups, fields.object("config_groups"));
  const boost::json::value* all = fields.value("config_groups");
  if (!groups || all->get_object().empty() || all->get_object().size() > kConfigGroupsMax) {
    return fields.refuse("config_groups",
                         fmt::format("must hold from 1 to {} groups", kConfigGroupsMax));
  }
  out.groups.reserve(all->get_object().size());
  for (const auto& [name, unused] : all->get_object()) {
    BH_ASSIGN(const auto group, groups->object({name.data(), name.size()}));
    if (!group) return groups->refuse({name.data(), name.size()}, "must be an object");
    BH_TRY(read_config_group(*group, format, out));
  }
  return out;
}

// The names of a setting that AWQ's and GPTQ's tools spell in two ways.
std::string_view spelling(const JsonFields& fields, std::string_view usual,
                          std::string_view other) {
  return !fields.has(usual) && fields.has(other) ? other : usual;
}

base::Result<QuantConfig> read_awq(const JsonFields& fields) {
  QuantConfig out;
  out.method = QuantMethod::kAwq;
  BH_TRY(expect_four_bits(fields, spelling(fields, "bits", "w_bit")));
  const std::string_view version_key = spelling(fields, "version", "format");
  BH_ASSIGN(std::string version, fields.text_or(version_key, "gemm"));
  std::transform(version.begin(), version.end(), version.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (version != "gemm") return refuse_value(fields, version_key, version, "\"gemm\" can");
  BH_ASSIGN(const bool zero_point, fields.flag_or("zero_point", true));
  if (!zero_point) return fields.unsupported("zero_point", "false cannot be loaded; true can");
  BH_ASSIGN(const uint64_t columns,
            group_columns(fields, spelling(fields, "group_size", "q_group_size")));
  out.groups.push_back({.columns = columns, .symmetric = false});
  return out;
}

base::Result<QuantConfig> read_gptq(const JsonFields& fields) {
  QuantConfig out;
  out.method = QuantMethod::kGptq;
  BH_TRY(expect_four_bits(fields, "bits"));
  const std::string_view format_key = spelling(fields, "checkpoint_format", "format");
  BH_ASSIGN(const std::string format, fields.text_or(format_key, "gptq"));
  if (format != "gptq" && format != "gptq_v2") {
    return refuse_value(fields, format_key, format, "\"gptq\" and \"gptq_v2\" can");
  }
  if (is_set(fields, "dynamic")) {
    return fields.unsupported("dynamic", "settings for single modules cannot be loaded");
  }
  if (is_set(fields, "is_marlin_format")) {
    return fields.unsupported("is_marlin_format", "true cannot be loaded; false can");
  }
  BH_TRY(expect_text(fields, "pack_dtype", "int32"));
  out.zeros_less_one = format == "gptq";
  BH_ASSIGN(out.ordered, fields.flag_or("desc_act", false));
  BH_ASSIGN(const uint64_t columns, group_columns(fields, "group_size"));
  out.groups.push_back({.columns = columns, .symmetric = false});
  return out;
}

base::Result<QuantConfig> read_method(const JsonFields& fields) {
  if (!fields.has("quant_method")) {
    return fields.unsupported("quant_method", fmt::format("missing; {}", kLoadable));
  }
  BH_ASSIGN(const std::string method, fields.text_or("quant_method", ""));
  if (method == to_string(QuantMethod::kFp8)) return read_fp8(fields);
  if (method == to_string(QuantMethod::kCompressedTensors)) return read_compressed_tensors(fields);
  if (method == to_string(QuantMethod::kAwq)) return read_awq(fields);
  if (method == to_string(QuantMethod::kGptq)) return read_gptq(fields);
  // NVIDIA's tool has one method and says in a second key what it did.
  BH_ASSIGN(const std::string algorithm, fields.text_or("quant_algo", ""));
  const std::string called = algorithm.empty() ? method : fmt::format("{} {}", method, algorithm);
  return refuse_value(fields, "quant_method", called, kLoadable);
}

}  // namespace

std::string_view to_string(QuantMethod method) {
  switch (method) {
    case QuantMethod::kNone:
      return "none";
    case QuantMethod::kFp8:
      return "fp8";
    case QuantMethod::kCompressedTensors:
      return "compressed-tensors";
    case QuantMethod::kAwq:
      return "awq";
    case QuantMethod::kGptq:
      return "gptq";
  }
  return "?";
}

base::Result<QuantConfig> take_quant_config(std::string_view name, boost::json::object& config) {
  QuantConfig out;
  boost::json::value* text = config.if_contains("text_config");
  boost::json::object* inner = text == nullptr ? nullptr : text->if_object();
  const struct {
    boost::json::object* object;
    std::string where;
  } places[] = {{&config, std::string(name)}, {inner, fmt::format("{}: text_config", name)}};
  for (const auto& [object, where] : places) {
    if (object == nullptr) continue;
    const JsonFields fields(where, *object);
    BH_ASSIGN(const auto settings, fields.object(kKey));
    if (settings && out.method != QuantMethod::kNone) {
      return fields.refuse(kKey, "stands at the top and in text_config");
    }
    if (settings) {
      BH_ASSIGN(out, read_method(*settings));
    }
    object->erase(kKey);
  }
  return out;
}

base::Result<QuantConfig> parse_quant_config(std::string_view name, std::string_view text) {
  BH_ASSIGN(boost::json::object config, parse_json_object(name, text));
  return take_quant_config(name, config);
}

}  // namespace bulkhead::model::formats
