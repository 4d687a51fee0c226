// What must be true of a page pool, as pure functions over a copy of its state.
//
// Threads: pure functions. Used by tests after every step, when idle, and by debug endpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv/page_ref.h"

namespace bulkhead::kv {

struct PoolSnapshot {
  std::vector<Tag> tags;              // by page
  std::vector<uint32_t> lease_count;  // by page
  std::vector<PageId> free_list;      // in the order of reuse
  int32_t reserved = 0;
  Tag last_tag = 0;  // the newest tag given out
  std::vector<PageId> quarantined = {};
};

struct Violation {
  PageId page = -1;  // -1: the pool as a whole
  std::string what;
};

// Everything the pool alone must satisfy. A page is free, leased or quarantined.
std::vector<Violation> validate(const PoolSnapshot& pool);
// The same, and that `holders` (every lease that exists, with its recorded tag) explains each lease
// count and names only current lives.
std::vector<Violation> validate(const PoolSnapshot& pool, const std::vector<PageRef>& holders);
// The same with no holder and no reservation: what an idle server must look like.
std::vector<Violation> validate_idle(const PoolSnapshot& pool);

// "page 3: ...; page 7: ..." for messages; empty when there is no violation.
std::string describe(const std::vector<Violation>& violations);

}  // namespace bulkhead::kv
