// Checkpoints of random weights in the formats that checkpoints have, for tests.
//
// Threads: one test at a time. Invariant: the values before quantisation are a function of a
// tensor's name and shape, the same in every format; they are BF16 values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/testing/files.h"
#include "model/weight_recipe.h"
#include "quant/scale_rule.h"

namespace bulkhead::model::testing {

// How linear layers are stored. INT4 needs whole groups of 32 columns: other matrices stay BF16, as
// does everything else that no recipe is about.
struct StoredAs {
  kernels::WeightFormat format = kernels::WeightFormat::kBf16;
  quant::ScaleRule rule = quant::ScaleRule::kAmax;
  // Scales are powers of two, so that every weight is a BF16 value.
  bool whole_scales = false;
  // Tensors whose names have this part stay BF16; empty: none does.
  std::string_view plain = {};
};

// config.json and model.safetensors for a configuration in JSON.
void write_random_model(std::string_view config, const StoredAs& stored,
                        const TemporaryDirectory& out);

// Several scale groups to a row, several blocks to a matrix: grouped-query attention with experts
// (qwen3_moe), and latent attention with an indexer, shared experts and a dense layer
// (glm_moe_dsa). Its heads have 80 rows of kv_b_proj: a block's rows are of several, and the 48
// that make a head's values lie in two. `latent` is kv_b_proj's columns.
std::string gqa_config();
std::string latent_config(int32_t latent = 160);

}  // namespace bulkhead::model::testing
