// Identity stamps: which text, and which place in it, a page holds.
//
// The stamp of a page is a keyed hash over every token up to its last written slot, the page's
// number in its sequence, its label and the version of this scheme. It does not look at the page's
// bytes: that is what digests do. Stamping one more page hashes the tokens of that page: a table
// keeps where its stamps go on from. What is compared is computed anew from the first token on.
//
// Threads: step thread. Invariants: nothing is computed where the tracker is off; a page without a
// stamp has none that could be right.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kv/integrity/tracker.h"
#include "kv/page_table.h"

namespace bulkhead::kv::integrity {

constexpr uint64_t kStampVersion = 1;

// Stamps the pages of `table` that hold the tokens from `first` on. `tokens` are all written, and
// those before `first` are the ones that it was stamped for before.
void stamp_pages(Tracker& tracker, PageTable& table, std::span<const int32_t> tokens,
                 int32_t first);

// The first page whose stamp is not that of `tokens`, all of which are written; with it the pages
// behind the last token are not looked at. Nothing: all are right, or the tracker is off.
std::optional<size_t> find_foreign_page(const Tracker& tracker, const PageTable& table,
                                        std::span<const int32_t> tokens);

// Counts and logs what find_foreign_page() found.
void tell_foreign_page(Tracker& tracker, const PageTable& table, size_t entry, Phase phase,
                       uint64_t reader);

}  // namespace bulkhead::kv::integrity
