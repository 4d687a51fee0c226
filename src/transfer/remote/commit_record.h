// The record that makes a transfer whole, or refuses it.
//
// Threads: pure functions. Invariants: a record that is accepted names every page that was granted,
// in order, with its tag, its tokens and a digest that the bytes in the pool have; an absent digest
// is a refusal.
#pragma once

#include <optional>
#include <vector>

#include "kv/layout.h"
#include "transfer/remote/landing.h"
#include "transfer/remote/messages.h"

namespace bulkhead::transfer::remote {

// Bytes of every part of a page, in order: layers, then index layers.
std::vector<uint64_t> layer_manifest(const kv::PageLayout& layout);

// What is wrong with the record, given what has landed; nothing when it stands. The pages are
// whole.
std::optional<FaultReport> check_record(const Commit& commit, const TransferId& transfer,
                                        int32_t tokens, const kv::PageLayout& layout,
                                        const Landing& landing);

}  // namespace bulkhead::transfer::remote
