#include "apps/bench/replay/cache_simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"

namespace bulkhead::apps {
namespace {

// A page costs memory here too: the tokens it stands for, and the books.
constexpr int64_t kCacheTokensMax = int64_t{1} << 25;
constexpr int64_t kPageTokensMax = 1024;
constexpr int64_t kTokensMax = std::numeric_limits<int32_t>::max();
constexpr kv::Tenant kTenant{};
constexpr uint64_t kAnswers = 0x616e7377657273;

// As few bytes as a page can have.
kv::PageLayout smallest_layout(int64_t page_tokens) {
  kv::PageLayout layout;
  layout.page_tokens = static_cast<int32_t>(page_tokens);
  layout.layers = 1;
  layout.kv_heads = 1;
  layout.head_dim = 1;
  layout.latent_dim = 1;
  return layout;
}

uint64_t name_of(std::span<const int32_t> prompt) {
  uint64_t name = prompt.size();
  for (const int32_t token : prompt) name = base::mix64(name ^ static_cast<uint32_t>(token));
  return name;
}

// Negative, as no token of a prompt is.
int32_t answer_token(uint64_t answer, int64_t index) {
  const uint64_t bits = base::random_bits(kAnswers, answer, static_cast<uint64_t>(index));
  return -1 - static_cast<int32_t>(bits & 0x3fffffff);
}

}  // namespace

CacheSimulator::CacheSimulator(std::unique_ptr<kv::PagePool> pool, bool keeps_answers)
    : pool_(std::move(pool)),
      index_(*pool_, {.identity = "simulated", .secret = {1}}),
      keeps_answers_(keeps_answers) {}

base::Result<std::unique_ptr<CacheSimulator>> CacheSimulator::create(const CacheShape& shape) {
  const int64_t page_tokens = shape.page_tokens;
  if (page_tokens < 16 || page_tokens % 16 != 0 || page_tokens > kPageTokensMax ||
      shape.pages < 1 || shape.pages > kCacheTokensMax / page_tokens) {
    return base::unsupported(fmt::format(
        "a cache of {} pages of {} tokens is not simulated: pages of 16 to {} tokens in steps of "
        "16 are, up to {} tokens in all",
        shape.pages, page_tokens, kPageTokensMax, kCacheTokensMax));
  }
  kv::PagePoolOptions options;
  options.pages = static_cast<int32_t>(shape.pages);
  BH_ASSIGN(std::unique_ptr<kv::PagePool> pool,
            kv::PagePool::create(smallest_layout(page_tokens), options));
  return std::unique_ptr<CacheSimulator>(new CacheSimulator(std::move(pool), shape.keeps_answers));
}

std::optional<int64_t> CacheSimulator::run(std::span<const int32_t> prompt, int64_t output_tokens,
                                           bool own_answer) {
  const uint64_t number = requests_++;
  const auto tokens = static_cast<int64_t>(prompt.size());
  const auto capacity = int64_t{pool_->counts().total} * pool_->layout().page_tokens;
  BH_CHECK(tokens > 0 && output_tokens > 0, "a request has a prompt and an answer");
  if (output_tokens > kTokensMax - tokens ||
      tokens + (keeps_answers_ ? output_tokens : 0) > capacity) {
    return std::nullopt;
  }
  kv::PageTable table(*pool_, tokens + output_tokens);
  const int32_t found = index_.match(kTenant, prompt, table);
  // Room for the first token of the answer is promised along with the prompt.
  const int64_t promised = keeps_answers_ ? tokens + 1 : tokens;
  const int32_t missing = pool_->pages_for(promised) - static_cast<int32_t>(table.pages().size());
  if (!index_.make_room(missing) || !table.promise(promised)) return std::nullopt;
  BH_CHECK(table.cover(tokens), "promised");
  index_.insert(kTenant, prompt, table);
  if (!keeps_answers_ || output_tokens == 1) return found;
  if (!decode(prompt, output_tokens, own_answer ? number : name_of(prompt), table)) {
    return std::nullopt;
  }
  return found;
}

// The last token of an answer is told and never written.
bool CacheSimulator::decode(std::span<const int32_t> prompt, int64_t output_tokens, uint64_t answer,
                            kv::PageTable& table) {
  std::vector<int32_t> written(prompt.begin(), prompt.end());
  written.reserve(prompt.size() + static_cast<size_t>(output_tokens));
  for (int64_t i = 0; i < output_tokens - 1; ++i) {
    while (!table.cover(static_cast<int64_t>(written.size()) + 1)) {
      if (!index_.make_room(1)) return false;
    }
    written.push_back(answer_token(answer, i));
  }
  index_.insert(kTenant, written, table);
  return true;
}

void CacheSimulator::clear() { index_.clear(); }

}  // namespace bulkhead::apps
