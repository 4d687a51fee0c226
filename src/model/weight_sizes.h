// How large a model's weights are in a recipe, kind by kind, as a checkpoint stores them and as a
// server holds them: from its configuration alone.
//
// Threads: pure functions.
// Invariants: the tensors are those of model_tensors.h. FP8 has an FP32 scale for each block of
// 128x128 or what is left of one, INT4 a BF16 scale for each 32 columns; what is in no recipe is
// BF16 (a router's selection bias FP32), and in a checkpoint so is the embedding table. kv_b_proj
// counts as attention, as in published checkpoints, though in memory the half that makes keys is
// BF16; in a checkpoint a matrix whose columns are no multiple of 32 is BF16 in place of INT4.
// Layers for prediction follow the recipe like the model's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/model_config.h"
#include "model/model_tensors.h"
#include "model/weight_recipe.h"

namespace bulkhead::model {

// Where a tensor of this role is counted: "routed experts", "attention", "norms, biases", ...
std::string_view share_of(WeightRole role);

// What a recipe says about a tensor of this role; none for what is in no recipe: norms, biases, the
// router, the weights of the indexer's heads.
std::optional<TensorKind> kind_of(WeightRole role);

// The format that a matrix of the kind has in a checkpoint.
kernels::WeightFormat stored_format(const WeightRecipe& recipe, TensorKind kind, int64_t columns);

// The bytes of a tensor: of its codes (or values), and of the scales that stand beside them. Packed
// in memory, scales lie among the codes and count as these.
struct StoredBytes {
  uint64_t codes = 0;
  uint64_t scales = 0;
};
// In a checkpoint.
StoredBytes stored_bytes(kernels::WeightFormat format, int64_t rows, int64_t columns);

// The model with its layers for prediction as layers of its own, behind the others: each of them is
// sparse where the model has experts, and has an indexer where the model has any.
ModelConfig with_prediction_layers(const ModelConfig& config);

struct WeightShare {
  std::string_view name;  // "routed experts", "embedding", "prediction layers", ...
  uint64_t elements = 0;
  StoredBytes bytes;
  // Of the bytes: those that every rank of a tensor-parallel group holds, because the tensor is not
  // divided (norms, routers, the projections down to latent vectors, the indexer).
  uint64_t replicated = 0;

  uint64_t total() const { return bytes.codes + bytes.scales; }
};

struct WeightSizes {
  std::vector<WeightShare> shares;  // in a fixed order, none empty; prediction layers last

  uint64_t elements() const;
  uint64_t bytes() const;
  // Evenly divided over `ranks`, up to whole bytes.
  uint64_t even_bytes(int32_t ranks) const;
  // What a rank holds when it serves: replicated tensors whole, its part of the others, and no
  // prediction layers.
  uint64_t serving_bytes(int32_t ranks) const;
  const WeightShare* find(std::string_view name) const;  // null when there is none
};

// Layers for prediction count, and the copies of embedding and head that families other than GLM-5
// store with them; other towers do not (a configuration does not say how large they are).
WeightSizes sizes_of(const ModelConfig& config, const WeightRecipe& recipe);

// The same packed in a server's memory (kernels/packed_weights.h): FP8 has a scale for each row and
// 128 columns, the half of kv_b_proj that makes keys is BF16, vectors and routers are FP32. Layers
// for prediction are not held, nor is the little that lies between matrices of one arena.
WeightSizes packed_sizes_of(const ModelConfig& config, const WeightRecipe& recipe);

}  // namespace bulkhead::model
