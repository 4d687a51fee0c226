// What becomes of the pages of a reading that failed its check.
//
// Threads: step thread. Invariants: pages that others hold in good standing stay with them; a page
// that may hold wrong bytes, or that the books contradict, is quarantined and leaves the prefix
// index with everything below it; one that is in order, but not for this reader or not in this
// place, is only forgotten by the index.
#pragma once

#include "kv/integrity/tracker.h"
#include "kv/page_pool.h"

namespace bulkhead::kv::integrity {

// Before a step reads, nothing was touched: only expected pages are quarantined, those that are
// another life's now and those that the reader holds alone. After it, the pages that were found in
// their place as well, and those that were found in a place that is not theirs.
void isolate(PagePool& pool, const Reading& reading, Phase phase);

}  // namespace bulkhead::kv::integrity
