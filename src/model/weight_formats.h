// The format that each matrix of a model has in memory: as a recipe says, or as the checkpoint
// stores it; and what that makes of the checkpoint's tensors.
//
// Threads: immutable once made. Invariant: the tensors that make one matrix (q, k and v; gate and
// up; the two that lead into latent attention) have one format: as stored, the one they share, else
// BF16.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "kernels/packed_weights.h"
#include "model/model_tensors.h"
#include "model/weight_recipe.h"

namespace bulkhead::model {

class WeightFormats {
 public:
  // Nothing as the recipe: as stored.
  WeightFormats(const TensorMatch& match, const std::optional<WeightRecipe>& recipe);

  // Of the matrix that a tensor of this role is, or is a part of; of kv_b_proj what makes values,
  // for what makes keys is BF16 in memory.
  kernels::WeightFormat of(WeightRole role, int32_t layer = -1, int32_t expert = -1) const;
  // As weight_sizes.h has it, but for a tied head.
  std::optional<TensorKind> kind_of(WeightRole role) const;
  // The recipe's text; as stored, that of the recipe which it amounts to, or, where a kind has
  // several formats, "attention=bf16+fp8".
  const std::string& text() const { return text_; }

 private:
  // Of a tensor in the checkpoint; nothing where there is none.
  std::optional<kernels::WeightFormat> stored(WeightRole role, int32_t layer, int32_t expert) const;
  std::string stored_text(const TensorMatch& match) const;

  bool tied_;
  std::optional<WeightRecipe> recipe_;
  std::unordered_map<uint64_t, kernels::WeightFormat> stored_;
  std::string text_;
};

}  // namespace bulkhead::model
