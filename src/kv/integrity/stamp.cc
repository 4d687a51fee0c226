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
  StampChain(const Mark& key, size_t page_tokens, const StampTrail& trail = {})
      : key_(key), page_tokens_(page_tokens), chain_(trail.chain), number_(trail.pages) {}

  // After next() of pages that were all full.
  StampTrail trail() const { return {chain_, number_}; }

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
  size_t number_;
};

size_t page_tokens_of(const PageTable& table) {
  const auto pages = static_cast<int64_t>(table.pages().size());
  return pages == 0 ? 1 : static_cast<size_t>(table.covered_tokens() / pages);
}

// Where stamps of the tokens from `first` on begin: behind what the table knows of, or at the first
// token where it knows of more.
StampTrail trail_before(const PageTable& table, size_t first, size_t page_tokens) {
  const StampTrail& known = table.stamp_trail();
  return known.pages * page_tokens <= first ? known : StampTrail{};
}

}  // namespace

void stamp_pages(Tracker& tracker, PageTable& table, std::span<const int32_t> tokens,
                 int32_t first) {
  if (!tracker.is_on() || tokens.empty()) return;
  const size_t page_tokens = page_tokens_of(table);
  const auto from = static_cast<size_t>(first);
  StampTrail trail = trail_before(table, from, page_tokens);
  StampChain chain(tracker.stamp_key(), page_tokens, trail);
  for (size_t i = trail.pages; i * page_tokens < tokens.size(); ++i) {
    const Lease& lease = table.leases()[i];
    const Mark stamp = chain.next(tokens.subspan(i * page_tokens), lease.label());
    const size_t end = (i + 1) * page_tokens;
    if (end > from) tracker.set_stamp(lease.page(), stamp);
    if (end <= tokens.size()) trail = chain.trail();
  }
  table.set_stamp_trail(trail);
}

std::optional<size_t> find_foreign_page(const Tracker& tracker, const PageTable& table,
                                        std::span<const int32_t> tokens) {
  if (!tracker.is_on() || tokens.empty()) return std::nullopt;
  const size_t page_tokens = page_tokens_of(table);
  StampChain chain(tracker.stamp_key(), page_tokens);
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
