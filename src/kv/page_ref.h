// Names one life of one page.
//
// Threads: plain values. Invariant: a tag value belongs to one page and one life of it, never
// reused.
#pragma once

#include <cstdint>

#include "kv/layout.h"

namespace bulkhead::kv {

// Upper 16 bits: nonce of this start of the process; lower 48: one counter for the whole pool.
using Tag = uint64_t;

struct PageRef {
  PageId page = -1;
  Tag tag = 0;

  friend bool operator==(const PageRef&, const PageRef&) = default;
};

}  // namespace bulkhead::kv
