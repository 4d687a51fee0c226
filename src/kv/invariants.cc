#include "kv/invariants.h"

#include <fmt/format.h>

#include <unordered_set>

namespace bulkhead::kv {
namespace {

void check_free_list(const PoolSnapshot& pool, std::vector<Violation>& out) {
  std::vector<uint32_t> listed(pool.tags.size(), 0);
  for (const PageId page : pool.free_list) {
    if (page < 0 || static_cast<size_t>(page) >= pool.tags.size()) {
      out.push_back({page, "on the free list but not in the pool"});
      continue;
    }
    ++listed[static_cast<size_t>(page)];
  }
  std::vector<uint8_t> apart(pool.tags.size(), 0);
  for (const PageId page : pool.quarantined) apart[static_cast<size_t>(page)] = 1;
  for (size_t i = 0; i < pool.tags.size(); ++i) {
    const auto page = static_cast<PageId>(i);
    if (apart[i] != 0 && (listed[i] > 0 || pool.lease_count[i] > 0)) {
      out.push_back({page, "quarantined but free or leased"});
    }
    if (listed[i] > 1) out.push_back({page, "on the free list more than once"});
    if (listed[i] > 0 && pool.lease_count[i] > 0) {
      out.push_back({page, "on the free list while leased"});
    }
    if (listed[i] == 0 && pool.lease_count[i] == 0 && apart[i] == 0) {
      out.push_back({page, "lost: neither leased nor on the free list"});
    }
  }
}

void check_tags(const PoolSnapshot& pool, std::vector<Violation>& out) {
  std::unordered_set<Tag> seen;
  for (size_t i = 0; i < pool.tags.size(); ++i) {
    const auto page = static_cast<PageId>(i);
    if (!seen.insert(pool.tags[i]).second) out.push_back({page, "tag used twice"});
    if (pool.tags[i] > pool.last_tag) out.push_back({page, "tag that was never given out"});
    if ((pool.tags[i] >> 48) != (pool.last_tag >> 48)) out.push_back({page, "tag of another boot"});
  }
}

}  // namespace

std::vector<Violation> validate(const PoolSnapshot& pool) {
  std::vector<Violation> out;
  if (pool.lease_count.size() != pool.tags.size()) {
    out.push_back({-1, "arrays of different length"});
    return out;
  }
  check_free_list(pool, out);
  check_tags(pool, out);
  if (pool.reserved < 0 || static_cast<size_t>(pool.reserved) > pool.free_list.size()) {
    out.push_back(
        {-1, fmt::format("{} pages promised but {} free", pool.reserved, pool.free_list.size())});
  }
  return out;
}

std::vector<Violation> validate(const PoolSnapshot& pool, const std::vector<PageRef>& holders) {
  std::vector<Violation> out = validate(pool);
  std::vector<uint32_t> held(pool.tags.size(), 0);
  for (const PageRef& ref : holders) {
    if (ref.page < 0 || static_cast<size_t>(ref.page) >= pool.tags.size()) {
      out.push_back({ref.page, "held but not in the pool"});
      continue;
    }
    const auto index = static_cast<size_t>(ref.page);
    ++held[index];
    if (ref.tag != pool.tags[index]) out.push_back({ref.page, "held with the tag of another life"});
  }
  for (size_t i = 0; i < pool.tags.size(); ++i) {
    if (held[i] != pool.lease_count[i]) {
      out.push_back({static_cast<PageId>(i),
                     fmt::format("{} leases but {} holders", pool.lease_count[i], held[i])});
    }
  }
  return out;
}

std::vector<Violation> validate_idle(const PoolSnapshot& pool) {
  std::vector<Violation> out = validate(pool, {});
  if (pool.reserved != 0)
    out.push_back({-1, fmt::format("{} pages still promised", pool.reserved)});
  return out;
}

std::string describe(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& violation : violations) {
    if (!text.empty()) text += "; ";
    text += violation.page < 0 ? std::string("pool") : fmt::format("page {}", violation.page);
    text += ": " + violation.what;
  }
  return text;
}

}  // namespace bulkhead::kv
