#include "router/prefix_affinity.h"

#include <openssl/sha.h>

#include <cstring>

namespace bulkhead::router {
namespace {

using Key = PrefixAffinity::Key;

}  // namespace

size_t PrefixAffinity::KeyHash::operator()(const Key& key) const {
  size_t value = 0;
  std::memcpy(&value, key.data(), sizeof(value));
  return value;
}

std::vector<Key> PrefixAffinity::keys(const wire::CacheScope& scope,
                                      std::span<const wire::TokenId> prompt) {
  const auto page = static_cast<size_t>(options_.page_tokens);
  const size_t pages = prompt.empty() ? 0 : (prompt.size() - 1) / page;
  std::vector<Key> out(pages);
  pages_hashed_ += pages;
  // Every field has a fixed length, so that no two inputs run together.
  std::vector<uint8_t> bytes(options_.secret.begin(), options_.secret.end());
  bytes.insert(bytes.end(), scope.tenant.begin(), scope.tenant.end());
  Key parent{};
  SHA256(bytes.data(), bytes.size(), parent.data());
  bytes.resize(parent.size() + page * sizeof(wire::TokenId));
  for (size_t i = 0; i < pages; ++i) {
    std::memcpy(bytes.data(), parent.data(), parent.size());
    std::memcpy(bytes.data() + parent.size(), prompt.data() + i * page,
                page * sizeof(wire::TokenId));
    SHA256(bytes.data(), bytes.size(), parent.data());
    out[i] = parent;
  }
  return out;
}

int32_t PrefixAffinity::known_tokens(std::span<const Key> keys, size_t worker) const {
  // Who holds a page holds those before it, even where somebody else computed them since.
  for (size_t i = keys.size(); i-- > 0;) {
    const auto found = by_key_.find(keys[i]);
    if (found == by_key_.end() || found->second->worker != worker) continue;
    return static_cast<int32_t>(i + 1) * options_.page_tokens;
  }
  return 0;
}

void PrefixAffinity::computed(const wire::CacheScope& scope, std::span<const Key> keys,
                              size_t worker) {
  if (!scope.insert) return;
  for (const Key& key : keys) {
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      found->second->worker = worker;
      entries_.splice(entries_.end(), entries_, found->second);
      continue;
    }
    if (entries_.size() >= options_.entries_max) {
      by_key_.erase(entries_.front().key);
      entries_.pop_front();
    }
    entries_.push_back({key, worker});
    by_key_.emplace(key, std::prev(entries_.end()));
  }
}

void PrefixAffinity::forget(size_t worker) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (entry->worker != worker) {
      ++entry;
      continue;
    }
    by_key_.erase(entry->key);
    entry = entries_.erase(entry);
  }
}

void PrefixAffinity::clear() {
  by_key_.clear();
  entries_.clear();
}

}  // namespace bulkhead::router
