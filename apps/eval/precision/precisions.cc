#include "apps/eval/precision/precisions.h"

#include <fmt/format.h>

#include <algorithm>

namespace bulkhead::apps::eval {
namespace {

base::Result<const Precision*> named(std::string_view name) {
  std::string names;
  for (const Precision& precision : precisions()) {
    if (precision.name == name) return &precision;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", precision.name);
  }
  return base::invalid_argument(
      "--pairs", fmt::format("there is no precision '{}'; there are {}", name, names));
}

}  // namespace

// Weights are compared under an FP8 cache, as in the published comparison of FP8 with INT4 weights:
// its deployments differ in the weights alone.
const std::vector<Precision>& precisions() {
  static const std::vector<Precision> all = {
      {"bf16", "bf16", "bf16", "fp32", "BF16 weights, BF16 cache"},
      {"fp8kv", "bf16", "fp8_e4m3", "fp32", "BF16 weights, FP8 cache"},
      {"fp8", "fp8", "fp8_e4m3", "fp32", "FP8 weights, FP8 cache"},
      {"int4", "int4", "fp8_e4m3", "fp32", "INT4 weights, FP8 cache"},
      {"kimi", "kimi", "fp8_e4m3", "fp32",
       "routed experts in INT4, the rest in BF16, as Kimi and GLM publish it; FP8 cache"},
      {"int4-int8", "int4", "fp8_e4m3", "int8", "INT4 weights, activations in bytes, FP8 cache"},
  };
  return all;
}

std::vector<std::string> words_of(const Precision& precision) {
  return {"--weights",        std::string(precision.weights),
          "--kv-cache-dtype", std::string(precision.cache),
          "--activations",    std::string(precision.activations)};
}

std::vector<std::pair<std::string, std::string>> settings_of(const Precision& precision) {
  return {{"weights", std::string(precision.weights)},
          {"cache", std::string(precision.cache)},
          {"activations", std::string(precision.activations)}};
}

std::string PrecisionPair::name() const { return fmt::format("{}/{}", before->name, after->name); }

bool PrecisionPair::caches_alone() const {
  return before->weights == after->weights && before->activations == after->activations;
}

base::Result<std::vector<PrecisionPair>> parse_pairs(const std::vector<std::string>& texts) {
  std::vector<PrecisionPair> pairs;
  for (const std::string& text : texts) {
    const size_t slash = text.find('/');
    if (slash == std::string::npos) {
      return base::invalid_argument(
          "--pairs", fmt::format("'{}' is no pair; write two precisions as in bf16/fp8kv", text));
    }
    PrecisionPair pair;
    BH_ASSIGN(pair.before, named(std::string_view(text).substr(0, slash)));
    BH_ASSIGN(pair.after, named(std::string_view(text).substr(slash + 1)));
    if (pair.before == pair.after) {
      return base::invalid_argument(
          "--pairs", fmt::format("'{}' compares a precision with itself; name two", text));
    }
    const bool twice = std::any_of(pairs.begin(), pairs.end(), [&pair](const PrecisionPair& one) {
      return one.name() == pair.name();
    });
    if (!twice) pairs.push_back(pair);
  }
  if (pairs.empty()) return base::invalid_argument("--pairs", "which pairs? e.g. bf16/fp8kv");
  return pairs;
}

std::vector<const Precision*> needed(const std::vector<PrecisionPair>& pairs) {
  std::vector<const Precision*> out;
  for (const PrecisionPair& pair : pairs) {
    for (const Precision* one : {pair.before, pair.after}) {
      if (std::find(out.begin(), out.end(), one) == out.end()) out.push_back(one);
    }
  }
  return out;
}

}  // namespace bulkhead::apps::eval
