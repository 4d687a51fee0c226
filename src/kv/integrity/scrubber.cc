#include "kv/integrity/scrubber.h"

namespace bulkhead::kv::integrity {

void Scrubber::after_step(int32_t seals) {
  if (!active_) return;
  seal(seals);
  if (++steps_ < options_.steps_between) return;
  steps_ = 0;
  visit(1);
}

void Scrubber::at_rest() {
  if (active_) visit(options_.pages_at_rest - seal(options_.pages_at_rest));
}

int32_t Scrubber::seal(int32_t pages) {
  int32_t sealed = 0;
  for (; sealed < pages; ++sealed) {
    const auto page = pool_.integrity().next_to_seal();
    if (!page) break;
    pool_.integrity().seal(*page, pool_.page_bytes(*page));
  }
  return sealed;
}

void Scrubber::visit(int32_t pages) {
  const int32_t total = pool_.counts().total;
  for (int32_t seen = 0; seen < total && pages > 0; ++seen) {
    const PageId page = next_;
    next_ = (next_ + 1) % total;
    if (!pool_.integrity().is_sealed(page)) continue;
    look_at(page);
    --pages;
  }
}

void Scrubber::look_at(PageId page) {
  Tracker& tracker = pool_.integrity();
  if (tracker.scrub(page, pool_.page_bytes(page))) return;
  const Tag tag = pool_.tags()[static_cast<size_t>(page)];
  tracker.found({.kind = Kind::kDigest,
                 .phase = Phase::kScrub,
                 .page = page,
                 .found_tag = tag,
                 .found_label = tracker.label(page),
                 .expected_page = page,
                 .expected_tag = tag,
                 .expected_label = tracker.label(page)});
  if (tracker.mode() == Mode::kAbort) pool_.quarantine(page);
}

}  // namespace bulkhead::kv::integrity
