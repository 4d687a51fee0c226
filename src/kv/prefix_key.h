// Names of token prefixes, as the prefix index knows them.
//
// Threads: plain values. Invariant: a key is a keyed hash over everything that a page's content
// depends on: model, formats, tenant, every token before and in the page.
#pragma once

#include <array>
#include <cstdint>

namespace bulkhead::kv {

using PrefixKey = std::array<uint8_t, 32>;

// The first `pages` pages of a sequence and the key of the last of them.
struct PrefixChain {
  PrefixKey key{};
  int32_t pages = 0;
};

}  // namespace bulkhead::kv
