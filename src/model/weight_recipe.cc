#include "model/weight_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace bulkhead::model {
namespace {

using kernels::WeightFormat;

template <typename T>
std::optional<T> named(const auto& all, std::string_view name) {
  const auto found = std::ranges::find_if(all, [&](T one) { return to_string(one) == name; });
  return found == all.end() ? std::nullopt : std::optional<T>(*found);
}

base::Error not_understood(std::string_view part) {
  std::string presets;
  for (const RecipePreset& preset : recipe_presets()) {
    presets += fmt::format("{}{}", presets.empty() ? "" : ", ", preset.name);
  }
  return base::invalid_argument(
      "recipe",
      fmt::format("\"{}\" is no weight recipe: give one of {}, or KIND=FORMAT by commas "
                  "with the kinds experts, shared, attention, mlp, head, embedding and the "
                  "formats bf16, fp8, int4",
                  part, presets));
}

}  // namespace

std::string_view to_string(TensorKind kind) {
  switch (kind) {
    case TensorKind::kRoutedExperts:
      return "experts";
    case TensorKind::kSharedExperts:
      return "shared";
    case TensorKind::kAttention:
      return "attention";
    case TensorKind::kDenseMlp:
      return "mlp";
    case TensorKind::kHead:
      return "head";
    case TensorKind::kEmbedding:
      return "embedding";
  }
  return "unknown";
}

std::string_view to_string(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16:
      return "bf16";
    case WeightFormat::kFp8:
      return "fp8";
    case WeightFormat::kInt4:
      return "int4";
  }
  return "unknown";
}

std::string_view to_string(kernels::Activations activations) {
  switch (activations) {
    case kernels::Activations::kFp32:
      return "fp32";
    case kernels::Activations::kInt8:
      return "int8";
  }
  return "unknown";
}

std::string products_text(const std::string& weights, kernels::Activations activations) {
  if (activations == kernels::Activations::kFp32) return weights;
  return fmt::format("{} x {}", weights, to_string(activations));
}

const std::vector<RecipePreset>& recipe_presets() {
  constexpr WeightFormat kB = WeightFormat::kBf16;
  constexpr WeightFormat kF = WeightFormat::kFp8;
  constexpr WeightFormat kI = WeightFormat::kInt4;
  static const std::vector<RecipePreset> kPresets = {
      {"bf16", {{kB, kB, kB, kB, kB, kB}}, "everything in BF16"},
      {"fp8",
       {{kF, kF, kF, kF, kB, kB}},
       "every linear layer but the head in FP8, as DeepSeek and GLM"},
      {"int4", {{kI, kI, kI, kI, kB, kB}}, "every linear layer but the head in INT4"},
      {"kimi", {{kI, kB, kB, kB, kB, kB}}, "routed experts in INT4, the rest in BF16, as Kimi"},
      {"kimi-fp8",
       {{kI, kF, kF, kF, kB, kB}},
       "routed experts in INT4, the rest but the head in FP8"},
  };
  return kPresets;
}

std::string WeightRecipe::text() const {
  // No preset touches head and embedding: with those in a format of their own, the rest may still
  // be a preset.
  WeightRecipe rest = *this;
  for (const TensorKind kind : {TensorKind::kHead, TensorKind::kEmbedding}) {
    rest.formats[static_cast<size_t>(kind)] = WeightFormat::kBf16;
  }
  const auto& presets = recipe_presets();
  const auto preset = std::ranges::find(presets, rest, &RecipePreset::recipe);
  if (*this == WeightRecipe{}) return std::string(preset->name);
  // BF16 says nothing that is not said without it.
  const bool has_name = preset != presets.end() && rest != WeightRecipe{};
  std::string text(has_name ? preset->name : "");
  for (const TensorKind kind : kAllKinds) {
    if (of(kind) == (has_name ? preset->recipe.of(kind) : WeightFormat::kBf16)) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", to_string(kind), to_string(of(kind)));
  }
  return text;
}

base::Result<WeightRecipe> parse_recipe(std::string_view text) {
  WeightRecipe recipe;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      const auto& presets = recipe_presets();
      const auto preset = std::ranges::find(presets, part, &RecipePreset::name);
      if (begin > 0 || preset == presets.end()) return not_understood(part);
      recipe = preset->recipe;
    } else {
      const auto kind = named<TensorKind>(kAllKinds, part.substr(0, equals));
      const auto format = named<WeightFormat>(kAllFormats, part.substr(equals + 1));
      if (!kind || !format) return not_understood(part);
      recipe.formats[static_cast<size_t>(*kind)] = *format;
    }
    begin = end + 1;
  }
  return recipe;
}

}  // namespace bulkhead::model
