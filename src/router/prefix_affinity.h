// Which prefill worker last computed the start of a prompt: a hint for the choice, never a promise.
//
// Keys are SHA-256 over a secret of this process, the tenant and every token up to the end of a
// page, chained as in kv/prefix_index.h. The tenant here is that of wire::CacheScope, which a salt
// is part of, so that prompts which may not share pages do not share a hint either.
//
// Threads: step thread only. Invariants: at most entries_max pages are remembered, the longest
// unused are forgotten first; nothing is remembered of a request that may leave nothing behind.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "wire/generate.h"

namespace bulkhead::router {

struct PrefixAffinityOptions {
  int32_t page_tokens = 64;
  size_t entries_max = 1u << 16;
  std::array<uint8_t, 32> secret{};  // drawn at start
};

class PrefixAffinity {
 public:
  using Key = std::array<uint8_t, 32>;

  explicit PrefixAffinity(const PrefixAffinityOptions& options) : options_(options) {}

  // The key of every whole page of the prompt but the one that its last token ends: that token is
  // always computed.
  std::vector<Key> keys(const wire::CacheScope& scope, std::span<const wire::TokenId> prompt);
  // Tokens at the start of the prompt that this worker was the last to compute.
  int32_t known_tokens(std::span<const Key> keys, size_t worker) const;
  void computed(const wire::CacheScope& scope, std::span<const Key> keys, size_t worker);
  // The worker lost what it had.
  void forget(size_t worker);
  void clear();
  size_t size() const { return entries_.size(); }
  uint64_t pages_hashed() const { return pages_hashed_; }

 private:
  struct Entry {
    Key key{};
    size_t worker = 0;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };

  const PrefixAffinityOptions options_;
  uint64_t pages_hashed_ = 0;
  std::list<Entry> entries_;  // the longest unused first
  std::unordered_map<Key, std::list<Entry>::iterator, KeyHash> by_key_;
};

}  // namespace bulkhead::router
