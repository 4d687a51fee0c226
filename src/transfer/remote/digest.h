// A digest of one page's bytes, bound to where and whose they are.
//
// Threads: pure functions. Invariant: the same bytes for another page, life of a page, position,
// transfer or layout have another digest. It finds accidents, not enemies: a peer that holds a
// grant may write what it likes anyway.
#pragma once

#include <span>

#include "transfer/remote/messages.h"

namespace bulkhead::transfer::remote {

Digest page_digest(const GrantId& grant, const GrantPage& page, std::span<const std::byte> bytes);

}  // namespace bulkhead::transfer::remote
