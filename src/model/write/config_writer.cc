#include "model/write/config_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <vector>

#include "model/fields.h"
#include "model/write/json_text.h"
#include "quant/fp8_blocks.h"
#include "quant/int4_groups.h"

namespace bulkhead::model::write {
namespace {

namespace json = boost::json;
using kernels::WeightFormat;

constexpr std::string_view kKey = "quantization_config";
constexpr std::string_view kTextConfig = "text_config";
constexpr std::string_view kWeight = ".weight";

// The module a job's matrix belongs to; empty for what is no matrix of a module.
std::string_view module_of(const TensorJob& job) {
  const bool matrix = job.source->shape.size() == 2 && job.name.ends_with(kWeight);
  return matrix ? std::string_view(job.name).substr(0, job.name.size() - kWeight.size()) : "";
}

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// The same module of every layer and expert, as compressed-tensors' regular expressions: numbers
// are any numbers, and a prefix may stand in front. The word "experts" is left to the routed ones:
// transformers takes the group that says it for theirs.
std::string pattern_of(std::string_view module) {
  std::string out = "re:";
  for (size_t begin = 0; begin <= module.size();) {
    const size_t end = std::min(module.find('.', begin), module.size());
    const std::string_view part = module.substr(begin, end - begin);
    out += begin == 0 ? ".*" : "\\.";
    if (is_number(part)) {
      out += "\\d+";
    } else if (part == "shared_experts") {
      out += "shared_[a-z]+";
    } else {
      out += part;
    }
    begin = end + 1;
  }
  return out + "$";
}

void add_once(std::vector<std::string>& list, std::string text) {
  if (std::ranges::find(list, text) == list.end()) list.push_back(std::move(text));
}

// The output head of a tied model has no tensor of its own, but is a module that would be
// converted.
std::string tied_head(const WritePlan& plan) {
  constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
  std::string head;
  for (const TensorJob& job : plan.jobs) {
    if (job.name.ends_with("lm_head.weight")) return "";
    if (job.name.ends_with(kEmbedding)) {
      head = job.name.substr(0, job.name.size() - kEmbedding.size()) + "lm_head";
    }
  }
  return head;
}

// Patterns of the modules whose weights have the format, in the order of the file.
std::vector<std::string> patterns_of(const WritePlan& plan, WeightFormat format) {
  std::vector<std::string> out;
  for (const TensorJob& job : plan.jobs) {
    const std::string_view module = module_of(job);
    if (!module.empty() && job.format == format) add_once(out, pattern_of(module));
  }
  return out;
}

json::array to_array(const std::vector<std::string>& list) {
  json::array out;
  out.reserve(list.size());
  for (const std::string& text : list) out.emplace_back(text);
  return out;
}

json::object int4_group(const std::vector<std::string>& targets) {
  return {{"targets", to_array(targets)},
          {"format", "pack-quantized"},
          {"weights",
           {{"num_bits", 4},
            {"type", "int"},
            {"symmetric", true},
            {"strategy", "group"},
            {"group_size", static_cast<int64_t>(quant::kInt4Group)},
            {"dynamic", false},
            {"actorder", nullptr}}},
          {"input_activations", nullptr},
          {"output_activations", nullptr}};
}

json::object fp8_group(const std::vector<std::string>& targets) {
  return {{"targets", to_array(targets)},
          {"format", "float-quantized"},
          {"weights",
           {{"num_bits", 8},
            {"type", "float"},
            {"symmetric", true},
            {"strategy", "block"},
            {"block_structure", json::array{quant::kFp8Block, quant::kFp8Block}},
            {"dynamic", false}}},
          {"input_activations",
           {{"num_bits", 8},
            {"type", "float"},
            {"symmetric", true},
            {"strategy", "group"},
            {"group_size", quant::kFp8Block},
            {"dynamic", true}}},
          {"output_activations", nullptr}};
}

json::object compressed_tensors(const WritePlan& plan) {
  json::object groups;
  std::vector<std::string> ignored = patterns_of(plan, WeightFormat::kBf16);
  if (const std::string head = tied_head(plan); !head.empty()) add_once(ignored, head);
  if (plan.scheme == QuantisationScheme::kPacked) {
    groups["group_0"] = int4_group({"Linear"});
  } else {
    // What is named by targets need not be ignored.
    groups["group_0"] = int4_group(patterns_of(plan, WeightFormat::kInt4));
    groups["group_1"] = fp8_group(patterns_of(plan, WeightFormat::kFp8));
  }
  const bool mixed = plan.scheme == QuantisationScheme::kMixed;
  return {{"quant_method", "compressed-tensors"},
          {"format", mixed ? "mixed-precision" : "pack-quantized"},
          {"quantization_status", "compressed"},
          {"kv_cache_scheme", nullptr},
          {"config_groups", std::move(groups)},
          {"ignore", to_array(ignored)}};
}

json::object fp8(const WritePlan& plan) {
  json::array kept;
  for (const TensorJob& job : plan.jobs) {
    const std::string_view module = module_of(job);
    if (!module.empty() && job.format == WeightFormat::kBf16) kept.emplace_back(module);
  }
  if (const std::string head = tied_head(plan); !head.empty()) kept.emplace_back(head);
  return {{"quant_method", "fp8"},
          {"fmt", "e4m3"},
          {"activation_scheme", "dynamic"},
          {"weight_block_size", json::array{quant::kFp8Block, quant::kFp8Block}},
          {"modules_to_not_convert", std::move(kept)}};
}

}  // namespace

base::Result<std::string> quantised_config(std::string_view text, const WritePlan& plan) {
  BH_ASSIGN(const json::object config, parse_json_object("config.json", text));
  const json::value* inner = config.if_contains(kTextConfig);
  const json::object* writer = inner == nullptr ? nullptr : inner->if_object();
  const bool inside = writer != nullptr && (writer->contains(kKey) || !config.contains(kKey));
  std::string out = without_member(std::string(text), "", kKey);
  out = without_member(std::move(out), kTextConfig, kKey);
  if (plan.scheme == QuantisationScheme::kNone) return out;
  const json::object settings =
      plan.scheme == QuantisationScheme::kFp8 ? fp8(plan) : compressed_tensors(plan);
  return with_member(std::move(out), inside ? kTextConfig : "", kKey, settings);
}

}  // namespace bulkhead::model::write
