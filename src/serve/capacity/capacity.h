// What a pool of a model holds in a given memory, and what a token of it costs: the arithmetic of
// `bulkhead plan`, and of the plan that `bulkhead serve` prints when it starts.
//
// Threads: pure functions.
// Invariants: sizes are those of this server's own layouts (kv/layout.h, kernels/packed_weights.h);
// pages are whole, and a request's last page is its own. Ranks divide weights evenly; a latent
// cache is whole on every rank, the heads of a grouped-query cache are divided.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "kv/layout.h"
#include "model/model_config.h"
#include "model/weight_recipe.h"

namespace bulkhead::serve {

// Part of memory that weights and cache together may take unless somebody says otherwise; the rest
// is for the system, step buffers and the page cache of the checkpoint.
inline constexpr double kMemoryShare = 0.85;

// Whole pages in some bytes.
struct CacheRoom {
  int64_t pages = 0;
  int64_t tokens = 0;
  uint64_t bytes = 0;  // of the pages
};
CacheRoom cache_room(const kv::PageLayout& layout, uint64_t bytes);

// Pages that a request of so many tokens owns.
int64_t pages_of(const kv::PageLayout& layout, int64_t tokens);
// Requests of so many tokens that are in the cache at once.
int64_t requests_at(const CacheRoom& room, const kv::PageLayout& layout, int64_t tokens);
// Bytes of a token in the cache, exactly: a page's may not divide by its tokens.
double token_bytes(const kv::PageLayout& layout);

// Whether a model's heads can be divided over so many ranks. Errors name `--ranks` and the numbers
// that work.
base::Status check_ranks(const model::ModelConfig& config, int32_t ranks);
// What one of `ranks` ranks keeps of a page; check_ranks() has passed.
kv::PageLayout layout_on_rank(const kv::PageLayout& layout, int32_t ranks);
// "whole on every rank", "8 heads divided over 4 ranks", ...
std::string sharing_text(const kv::PageLayout& layout, int32_t ranks);

// Bytes of weights in memory by kind, the largest first: "routed experts 1.2 GiB, head 64.0 MiB".
std::string weight_kinds_text(const model::ModelConfig& config, const model::WeightRecipe& recipe);

// Price of a million tokens on `ranks` ranks that write `tokens_per_second` together.
double cost_per_million(double price_per_rank_hour, int32_t ranks, double tokens_per_second);

}  // namespace bulkhead::serve
