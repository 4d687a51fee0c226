// Names one life of one page.
//
// Threads: plain values. Invariant: a tag value belongs to one page and one life of it, never
// reused.
#pragma once

#include <array>
#include <cstdint>

#include "kv/layout.h"

namespace bulkhead::kv {

// Upper 16 bits: nonce of this start of the process; lower 48: one counter for the whole pool.
using Tag = uint64_t;

// Whose content a page holds: 32 bits of its tenant's scope; 0: nobody's in particular, so
// everybody may read it.
using Label = uint32_t;

// Of a scope that comes from the authenticated key. Two scopes have one label once in 2^32.
inline Label label_of(const std::array<uint8_t, 32>& tenant) {
  Label label = 0;
  bool any = false;
  for (size_t i = 0; i < tenant.size(); ++i) {
    if (i < sizeof(Label)) label = label << 8 | tenant[i];
    any = any || tenant[i] != 0;
  }
  return any && label == 0 ? 1 : label;
}

// Which page of its sequence's text a page holds, counted from 0. It belongs to the page's life:
// whoever shares the page has it in this place, since what is shared are common starts.
using Place = int32_t;
constexpr Place kNoPlace = -1;  // in no sequence's table

struct PageRef {
  PageId page = -1;
  Tag tag = 0;

  friend bool operator==(const PageRef&, const PageRef&) = default;
};

}  // namespace bulkhead::kv
