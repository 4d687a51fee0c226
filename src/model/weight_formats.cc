#include "model/weight_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "model/formats/codes.h"
#include "model/weight_sizes.h"

namespace bulkhead::model {
namespace {

using kernels::WeightFormat;

// Tensors that lie side by side in one matrix. Roles that a model lacks do not count.
using Parts = std::array<WeightRole, 3>;
constexpr std::array kMatrices = {
    Parts{WeightRole::kQ, WeightRole::kK, WeightRole::kV},
    Parts{WeightRole::kQDown, WeightRole::kKvDown, WeightRole::kKvDown},
    Parts{WeightRole::kGate, WeightRole::kUp, WeightRole::kUp},
    Parts{WeightRole::kExpertGate, WeightRole::kExpertUp, WeightRole::kExpertUp},
    Parts{WeightRole::kSharedGate, WeightRole::kSharedUp, WeightRole::kSharedUp}};

Parts parts_of_matrix(WeightRole role) {
  for (const Parts& parts : kMatrices) {
    if (std::ranges::find(parts, role) != parts.end()) return parts;
  }
  return {role, role, role};
}

uint64_t key_of(WeightRole role, int32_t layer, int32_t expert) {
  return (static_cast<uint64_t>(layer + 1) << 32) | (static_cast<uint64_t>(expert + 1) << 8) |
         static_cast<uint64_t>(role);
}

uint32_t bit(WeightFormat format) { return 1u << static_cast<uint32_t>(format); }

}  // namespace

WeightFormats::WeightFormats(const TensorMatch& match, const std::optional<WeightRecipe>& recipe)
    : tied_(match.tied), recipe_(recipe) {
  for (const MatchedTensor& tensor : match.tensors) {
    const WeightFormat format = formats::native_format(*tensor.source);
    const ExpectedTensor& expected = tensor.expected;
    stored_.emplace(key_of(expected.role, expected.layer, expected.expert), format);
  }
  text_ = recipe ? recipe->text() : stored_text(match);
}

std::optional<TensorKind> WeightFormats::kind_of(WeightRole role) const {
  if (role == WeightRole::kEmbedding && tied_) return TensorKind::kHead;
  return model::kind_of(role);
}

std::optional<WeightFormat> WeightFormats::stored(WeightRole role, int32_t layer,
                                                  int32_t expert) const {
  const auto found = stored_.find(key_of(role, layer, expert));
  return found == stored_.end() ? std::nullopt : std::optional(found->second);
}

WeightFormat WeightFormats::of(WeightRole role, int32_t layer, int32_t expert) const {
  const std::optional<TensorKind> kind = kind_of(role);
  if (!kind) return WeightFormat::kBf16;
  if (recipe_) return recipe_->of(*kind);
  std::optional<WeightFormat> common;
  for (const WeightRole part : parts_of_matrix(role)) {
    const std::optional<WeightFormat> format = stored(part, layer, expert);
    if (format && common && *format != *common) return WeightFormat::kBf16;
    if (format) common = format;
  }
  return common.value_or(WeightFormat::kBf16);
}

std::string WeightFormats::stored_text(const TensorMatch& match) const {
  std::array<uint32_t, kTensorKinds> seen{};  // a bit for each format
  for (const MatchedTensor& tensor : match.tensors) {
    const auto& [role, layer, expert, name, rows, columns] = tensor.expected;
    if (const auto kind = kind_of(role)) {
      seen[static_cast<size_t>(*kind)] |= bit(of(role, layer, expert));
    }
  }
  const auto fits = [&](const RecipePreset& preset) {
    return std::ranges::all_of(kAllKinds, [&](TensorKind kind) {
      const uint32_t formats = seen[static_cast<size_t>(kind)];
      return formats == 0 || formats == bit(preset.recipe.of(kind));
    });
  };
  const auto preset = std::ranges::find_if(recipe_presets(), fits);
  if (preset != recipe_presets().end()) return std::string(preset->name);
  std::string text;
  for (const TensorKind kind : kAllKinds) {
    const uint32_t formats = seen[static_cast<size_t>(kind)];
    if (formats == 0 || formats == bit(WeightFormat::kBf16)) continue;
    std::string names;
    for (const WeightFormat format : kAllFormats) {
      if ((formats & bit(format)) == 0) continue;
      names += fmt::format("{}{}", names.empty() ? "" : "+", to_string(format));
    }
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", to_string(kind), names);
  }
  return text;
}

}  // namespace bulkhead::model
