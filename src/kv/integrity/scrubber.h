// Takes the digests of pages that nobody writes any more, and looks again at them later: do they
// still have the bytes they were sealed with?
//
// Threads: step thread, between steps. Invariants: a bounded number of pages a call; every sealed
// page is seen before any is seen again; a page with other bytes is withdrawn from all its holders,
// whose next check ends them (mode abort), or is told and left (mode observe).
#pragma once

#include <cstdint>

#include "kv/page_pool.h"

namespace bulkhead::kv::integrity {

struct ScrubOptions {
  int32_t pages_at_rest = 16;  // of one call of at_rest(); 0: never scrubs
  int32_t steps_between = 64;  // under load: one page after so many steps
};

class Scrubber {
 public:
  Scrubber(PagePool& pool, const ScrubOptions& options)
      : pool_(pool),
        options_(options),
        active_(pool.integrity().is_on() && options.pages_at_rest > 0) {}

  // So many digests of what waits for one are taken.
  void after_step(int32_t seals = 1);
  void at_rest();

 private:
  int32_t seal(int32_t pages);  // how many there were
  void visit(int32_t pages);
  void look_at(PageId page);

  PagePool& pool_;
  const ScrubOptions options_;
  const bool active_;
  int32_t steps_ = 0;
  PageId next_ = 0;
};

}  // namespace bulkhead::kv::integrity
