#include "kv/integrity/isolate.h"

#include <algorithm>

namespace bulkhead::kv::integrity {
namespace {

bool in_pool(const PagePool& pool, PageId page) {
  return page >= 0 && static_cast<size_t>(page) < pool.tags().size();
}

}  // namespace

void isolate(PagePool& pool, const Reading& reading, Phase phase) {
  const size_t entries = std::min(reading.pages.size(), reading.expected.size());
  for (size_t i = 0; i < entries; ++i) {
    const PageId found = reading.pages[i];
    const Lease& expected = reading.expected[i];
    const PageId page = expected.page();
    if (!in_pool(pool, page)) continue;
    const bool life_ended = pool.tags()[static_cast<size_t>(page)] != expected.tag();
    const Label label = pool.integrity().label(page);
    const bool foreign =
        label != expected.label() || (expected.label() != 0 && expected.label() != reading.label);
    const bool misplaced = pool.integrity().place(page) != reading.first + static_cast<int64_t>(i);
    if (found == page && !life_ended && !foreign && !misplaced) continue;
    // Another tenant's page is in order, and so is one of another place, but not for this reader;
    // and where the index gave it out it would do so again.
    const bool books_wrong = life_ended || label != expected.label();
    if (books_wrong || (found != page && pool.held_once(page))) {
      pool.quarantine(page);
    } else if (foreign || misplaced) {
      pool.forget(page);
    }
    const bool written_over = found != page || misplaced;
    if (phase == Phase::kAfter && written_over && in_pool(pool, found)) {
      pool.quarantine(found);
    }
  }
}

}  // namespace bulkhead::kv::integrity
