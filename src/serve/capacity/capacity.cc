#include "serve/capacity/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "model/weight_sizes.h"

namespace bulkhead::serve {

CacheRoom cache_room(const kv::PageLayout& layout, uint64_t bytes) {
  const uint64_t page_bytes = layout.page_bytes();
  BH_CHECK(page_bytes > 0, "a layout with layers");
  CacheRoom room;
  room.pages = static_cast<int64_t>(bytes / page_bytes);
  room.tokens = room.pages * layout.page_tokens;
  room.bytes = static_cast<uint64_t>(room.pages) * page_bytes;
  return room;
}

int64_t pages_of(const kv::PageLayout& layout, int64_t tokens) {
  return (tokens + layout.page_tokens - 1) / layout.page_tokens;
}

int64_t requests_at(const CacheRoom& room, const kv::PageLayout& layout, int64_t tokens) {
  return room.pages / std::max<int64_t>(pages_of(layout, tokens), 1);
}

double token_bytes(const kv::PageLayout& layout) {
  return static_cast<double>(layout.page_bytes()) / layout.page_tokens;
}

base::Status check_ranks(const model::ModelConfig& config, int32_t ranks) {
  const int32_t kv_heads = config.is_latent() ? ranks : config.kv_heads;
  const auto works = [&](int32_t n) {
    return config.heads % n == 0 && (config.is_latent() || kv_heads % n == 0 || n % kv_heads == 0);
  };
  if (ranks >= 1 && works(ranks)) return {};
  std::string good;
  for (int32_t n = 1; n <= std::min(config.heads, 64); ++n) {
    if (works(n)) good += fmt::format("{}{}", good.empty() ? "" : ", ", n);
  }
  const std::string what = config.is_latent() ? fmt::format("{} heads", config.heads)
                                              : fmt::format("{} heads over {} key/value heads",
                                                            config.heads, config.kv_heads);
  return base::invalid_argument(
      "--ranks", fmt::format("--ranks {}: a model with {} cannot be divided so; give one of {}",
                             ranks, what, good));
}

kv::PageLayout layout_on_rank(const kv::PageLayout& layout, int32_t ranks) {
  kv::PageLayout out = layout;
  if (layout.latent_dim == 0) out.kv_heads = std::max(layout.kv_heads / ranks, 1);
  return out;
}

std::string sharing_text(const kv::PageLayout& layout, int32_t ranks) {
  if (ranks == 1) return "on the one rank";
  if (layout.latent_dim > 0) return fmt::format("latent, whole on each of {} ranks", ranks);
  if (ranks <= layout.kv_heads) {
    return fmt::format("{} heads divided over {} ranks", layout.kv_heads, ranks);
  }
  return fmt::format("{} heads divided over {} ranks, each head on {}", layout.kv_heads, ranks,
                     ranks / layout.kv_heads);
}

std::string weight_kinds_text(const model::ModelConfig& config, const model::WeightRecipe& recipe) {
  const std::vector<model::WeightShare> shares = model::packed_sizes_of(config, recipe).shares;
  std::vector<const model::WeightShare*> order;
  order.reserve(shares.size());
  for (const model::WeightShare& share : shares) order.push_back(&share);
  std::ranges::sort(order, [](const model::WeightShare* a, const model::WeightShare* b) {
    return a->total() != b->total() ? a->total() > b->total() : a < b;
  });
  std::string text;
  for (const model::WeightShare* share : order) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", share->name,
                        base::format_bytes(share->total()));
  }
  return text;
}

double cost_per_million(double price_per_rank_hour, int32_t ranks, double tokens_per_second) {
  return price_per_rank_hour * ranks / 3600.0 / tokens_per_second * 1e6;
}

}  // namespace bulkhead::serve
