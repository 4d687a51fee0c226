#include "router/pool_choice.h"

namespace bulkhead::router {
namespace {

// How many times the tokens of the emptiest pool a home may have before a session leaves it.
constexpr int64_t kHomeBias = 2;

// Highest random weight: every session ranks all pools in an order of its own (Thaler and
// Ravishankar, 1996). The mixing is that of SplitMix64.
uint64_t rank_of(uint64_t session, uint64_t pool) {
  uint64_t x = session ^ (pool * 0x9E3779B97F4A7C15u);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

bool has_room(const PoolLoad& pool, const PoolWish& wish) {
  return pool.accepting && pool.tokens_free >= wish.tokens;
}

}  // namespace

std::optional<size_t> choose_pool(std::span<const PoolLoad> pools, const PoolWish& wish) {
  std::optional<size_t> emptiest;
  std::optional<size_t> home;  // with or without room
  for (size_t i = 0; i < pools.size(); ++i) {
    const PoolLoad& pool = pools[i];
    if (has_room(pool, wish) &&
        (!emptiest || pool.tokens_in_flight < pools[*emptiest].tokens_in_flight)) {
      emptiest = i;
    }
    if (pool.accepting && (!home || rank_of(wish.session, pool.key) >
                                        rank_of(wish.session, pools[*home].key))) {
      home = i;
    }
  }
  if (wish.session == 0 || !emptiest || !has_room(pools[*home], wish)) return emptiest;
  const int64_t least = pools[*emptiest].tokens_in_flight;
  const bool fuller = pools[*home].tokens_in_flight > kHomeBias * least + wish.tokens;
  return fuller ? emptiest : home;
}

}  // namespace bulkhead::router
