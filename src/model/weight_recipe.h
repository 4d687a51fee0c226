// Which format each kind of weight has: in a pool's memory, or in a checkpoint that is written.
//
// Threads: plain values. Invariant: norms, biases, the router, the indexer's weights of its heads
// (a few rows that published checkpoints keep as they are) are in no recipe: they are BF16 or FP32.
// In memory the half of kv_b_proj that makes keys, absorbed into queries, is BF16 as well; the
// other half is attention.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/gemm.h"
#include "kernels/packed_weights.h"

namespace bulkhead::model {

enum class TensorKind : uint8_t {
  kRoutedExperts,
  kSharedExperts,
  kAttention,  // the indexer's queries and keys among them
  kDenseMlp,
  kHead,       // the output head; a tied one is read as the embedding too
  kEmbedding,  // the table, where it is not the head; in memory only: checkpoints have it in BF16
};
// All kinds and all formats, in the order in which texts name them.
inline constexpr std::array kAllKinds = {TensorKind::kRoutedExperts, TensorKind::kSharedExperts,
                                         TensorKind::kAttention,     TensorKind::kDenseMlp,
                                         TensorKind::kHead,          TensorKind::kEmbedding};
inline constexpr std::array kAllFormats = {
    kernels::WeightFormat::kBf16, kernels::WeightFormat::kFp8, kernels::WeightFormat::kInt4};
inline constexpr size_t kTensorKinds = kAllKinds.size();
// "experts", "shared", "attention", "mlp", "head", "embedding"
std::string_view to_string(TensorKind kind);

std::string_view to_string(kernels::WeightFormat format);      // "bf16", "fp8", "int4"
std::string_view to_string(kernels::Activations activations);  // "fp32", "int8"

struct WeightRecipe {
  std::array<kernels::WeightFormat, kTensorKinds> formats{};  // by kind; BF16 unless set

  bool operator==(const WeightRecipe&) const = default;
  kernels::WeightFormat of(TensorKind kind) const { return formats[static_cast<size_t>(kind)]; }
  // The preset's name where it is one, "int4,head=int4" where it is one but for the head and the
  // embedding, else "experts=int4,attention=fp8": what parse_recipe() reads.
  std::string text() const;
};

struct RecipePreset {
  std::string_view name;
  WeightRecipe recipe;
  std::string_view meaning;  // for --help
};
// bf16; fp8: DeepSeek's and GLM's published form; int4: every linear layer; kimi: Kimi's and the
// published INT4 form of GLM, routed experts alone in INT4; kimi-fp8: those, and the rest in FP8.
const std::vector<RecipePreset>& recipe_presets();

// A preset, or kinds with their formats by commas; kinds that are not named are BF16. A preset may
// come first: "int4,attention=bf16". Errors name what was not understood and what there is.
base::Result<WeightRecipe> parse_recipe(std::string_view text);

// Weights and what they are multiplied by: "int4"; in bytes "int4 x int8".
std::string products_text(const std::string& weights, kernels::Activations activations);

}  // namespace bulkhead::model
