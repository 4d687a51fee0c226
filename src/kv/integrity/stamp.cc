#include "kv/integrity/stamp.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace bulkhead::kv::integrity {
namespace {

Mark mark_of(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }

// Names the pages of one sequence, one after the other.
class StampChain {
 public:
  StampChain(const Mark& key, int32_t page_tokens)
      : key_(key), page_tokens_(static_cast<size_t>(page_tokens)) {}

  // Of the page that holds the first of `rest`.
  Mark next(std::span<const int32_t> rest, Label label) {
    const auto here = rest.first(std::min(page_tokens_, rest.size()));
    const Mark text =
        mark_of(XXH3_128bits_withSeed(here.data(), here.size_bytes(), key_.high ^ chain_.high));
    const std::array<uint64_t, 6> link = {key_.low,  chain_.high, chain_.low,
                                          text.high, text.low,    here.size()};
    chain_ = mark_of(XXH3_128bits(link.data(), sizeof link));
    const std::array<uint64_t, 6> name = {chain_.high,   chain_.low, key_.high,
                                          kStampVersion, number_++,  uint64_t{label}};
    return mark_of(XXH3_128bits(name.data(), sizeof name));
  }

 private:
  const Mark key_;
  const size_t page_tokens_;
  Mark chain_;
  uint64_t number_ = 0;
};

int32_t page_tokens_of(const PageTable& table) {
  const auto pages = static_cast<int64_t>(table.pages().size());
  return pages == 0 ? 1 : static_cast<int32_t>(table.covered_tokens() / pages);
}

}  // namespace

void stamp_pages(Tracker& tracker, const PageTable& table, std::span<const int32_t> tokens,
                 int32_t first) {
  if (!tracker.is_on() || tokens.empty()) return;
  const auto page_tokens = static_cast<size_t>(page_tokens_of(table));
  StampChain chain(tracker.stamp_key(), static_cast<int32_t>(page_tokens));
  for (size_t i = 0; i * page_tokens < tokens.size(); ++i) {
    const Lease& lease = table.leases()[i];
    const Mark stamp = chain.next(tokens.subspan(i * page_tokens), lease.label());
    if ((i + 1) * page_tokens > static_cast<size_t>(first)) {
      tracker.set_stamp(lease.page(), stamp);
    }
  }
}

std::optional<size_t> find_foreign_page(const Tracker& tracker, const PageTable& table,
                                        std::span<const int32_t> tokens) {
  if (!tracker.is_on() || tokens.empty()) return std::nullopt;
  const auto page_tokens = static_cast<size_t>(page_tokens_of(table));
  StampChain chain(tracker.stamp_key(), static_cast<int32_t>(page_tokens));
  for (size_t i = 0; i * page_tokens < tokens.size(); ++i) {
    BH_CHECK(i < table.leases().size(), "what is written has pages");
    const Lease& lease = table.leases()[i];
    const Mark expected = chain.next(tokens.subspan(i * page_tokens), lease.label());
    if (tracker.stamp(lease.page()) != expected) return i;
  }
  return std::nullopt;
}

void tell_foreign_page(Tracker& tracker, const PageTable& table, size_t entry, Phase phase,
                       uint64_t reader) {
  const Lease& lease = table.leases()[entry];
  tracker.found({.kind = Kind::kStamp,
                 .phase = phase,
                 .reader = reader,
                 .entry = static_cast<int64_t>(entry),
                 .page = lease.page(),
                 .found_tag = lease.tag(),
                 .found_label = tracker.label(lease.page()),
                 .expected_page = lease.page(),
                 .expected_tag = lease.tag(),
                 .expected_label = lease.label()});
}

}  // namespace bulkhead::kv::integrity
