// The physical pages of one cache: an arena, who holds each page, and the tag of each page's life.
//
// Threads: step thread only, except counts(), which any thread may read.
// Invariants: (1) a page is on the free list exactly while nobody holds a lease on it; (2) the tag
// of a page changes when it is handed out and again when it comes back, and no tag value is ever
// used twice; (3) pages are reused in the order they came back; (4) free pages are never fewer than
// the pages promised to open reservations; (5) nothing here allocates after construction; (6) the
// count of pages that only the prefix index holds is right at every moment; (7) a page that was
// quarantined has a new tag, so that no lease on it is good any more, and is never handed out
// again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "device/buffer.h"
#include "kv/integrity/tracker.h"
#include "kv/invariants.h"
#include "kv/layout.h"
#include "kv/lease.h"
#include "kv/page_ref.h"

namespace bulkhead::kv {

namespace integrity {
class FaultPort;
class Injector;
}  // namespace integrity

// Who holds pages for whoever comes next: told when one of them must not be kept.
class PageKeeper {
 public:
  virtual void discard(PageId page) = 0;

 protected:
  ~PageKeeper() = default;
};

// A promise of pages that are free now and will be there when taken. Drops what it has left.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), pages_(std::exchange(other.pages_, 0)) {}
  Reservation& operator=(Reservation&& other) noexcept;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation() { release(); }

  int32_t pages() const { return pages_; }
  // The next promised page, for content of this label and place; there must be one left.
  Lease take(Label label = 0, Place place = kNoPlace);
  void release();

 private:
  friend class PagePool;
  Reservation(PagePool* pool, int32_t pages) : pool_(pool), pages_(pages) {}

  PagePool* pool_ = nullptr;
  int32_t pages_ = 0;
};

struct PagePoolOptions {
  int32_t pages = 0;
  uint16_t boot_nonce = 0;   // upper bits of every tag: a tag from before a restart is never valid
  bool poison_free = false;  // free pages read as NaN (tests)
  integrity::Options integrity = {};
  integrity::FaultPort* faults = nullptr;  // of a server under test; outlives the pool
};

struct PageCounts {
  int32_t total = 0;
  int32_t available = 0;  // free and not promised to anybody
  int32_t cached = 0;     // held by the prefix index and nobody else
  int32_t quarantined = 0;
};

class PagePool {
 public:
  // Errors: kInvalidArgument for a layout or page count that makes no arena; kResourceExhausted
  // when the system has no such memory.
  static base::Result<std::unique_ptr<PagePool>> create(const PageLayout& layout,
                                                        const PagePoolOptions& options);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
  ~PagePool();  // every lease and reservation is back by then

  const PageLayout& layout() const { return layout_; }
  // Pages that hold `tokens` tokens.
  int32_t pages_for(int64_t tokens) const;
  // All or nothing; empty when so many pages are not available now.
  Reservation reserve(int32_t pages);

  // The tag of each page's current life, by page id.
  std::span<const Tag> tags() const { return tags_; }
  CacheView view() { return {arena_.data(), layout_, counts().total}; }
  PageCounts counts() const;
  // A copy of the whole state for validate(); allocates.
  PoolSnapshot snapshot() const;

  // Watches over this pool's pages.
  integrity::Tracker& integrity() const { return *tracker_; }
  integrity::FaultPort* faults() const { return faults_; }
  std::span<const std::byte> page_bytes(PageId page) const {
    const size_t bytes = layout_.page_bytes();
    return {arena_.data() + static_cast<size_t>(page) * bytes, bytes};
  }

  // The prefix index, while there is one.
  void set_keeper(PageKeeper* keeper) { keeper_ = keeper; }
  void remove_keeper(const PageKeeper* keeper) {
    if (keeper_ == keeper) keeper_ = nullptr;
  }
  // Takes the page from all its holders for the rest of this pool's life: it has a new tag, the
  // leases on it are good for nothing, and it is not handed out again; the prefix index forgets it
  // with everything that goes on from it. Nothing happens to a free page that is promised already.
  void quarantine(PageId page);
  // Nobody who comes next shall find the page.
  void forget(PageId page) {
    if (keeper_ != nullptr) keeper_->discard(page);
  }
  // One lease, which is not the prefix index's.
  bool held_once(PageId page) const {
    return indexed_[static_cast<size_t>(page)] == 0 && lease_count_[static_cast<size_t>(page)] == 1;
  }
  // The page's content turned out to be of this label.
  void relabel(Lease& lease, Label label);

  // The prefix index was offered a page that it knows by another name.
  void meet_misplaced(const Lease& lease);
  // The prefix index says that the lease is its own, or no longer.
  void set_indexed(const Lease& lease, bool indexed);
  // The lease is what the books say it is: on the present life of a page that is held.
  bool is_good(const Lease& lease) const {
    return lease && !is_stale(lease) && lease_count_[static_cast<size_t>(lease.page())] > 0;
  }
  // Held by the prefix index and nobody else.
  bool is_cached_only(PageId page) const {
    return indexed_[static_cast<size_t>(page)] != 0 && lease_count_[static_cast<size_t>(page)] == 1;
  }

 private:
  friend class Lease;
  friend class Reservation;
  friend class integrity::Injector;

  PagePool(const PageLayout& layout, const PagePoolOptions& options, device::Buffer arena);
  Lease take_reserved(Label label, Place place);
  void unreserve(int32_t pages);
  void add_lease(const Lease& lease);
  void drop_lease(const Lease& lease);
  bool is_stale(const Lease& lease) const {
    return tags_[static_cast<size_t>(lease.page())] != lease.tag();
  }
  void meet_stale(const Lease& lease);
  void meet_broken_books(PageId page, const char* what);
  void push_free(PageId page);
  PageId pop_free();
  bool is_free(PageId page) const;
  void remove_free(PageId page);
  void poison(PageId page);
  void add_cached(int32_t change) {
    cached_.store(cached_.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
  }
  Tag next_tag() { return ++last_tag_; }
  void renew_tag(PageId page) {
    issued_[static_cast<size_t>(page)] = tags_[static_cast<size_t>(page)] = next_tag();
  }

  const PageLayout layout_;
  const bool poison_free_;
  device::Buffer arena_;
  std::vector<Tag> tags_;              // [pages]
  std::vector<Tag> issued_;            // [pages], the same while no tag is damaged
  std::vector<uint32_t> lease_count_;  // [pages]
  std::vector<uint8_t> indexed_;       // [pages]
  std::vector<uint8_t> quarantined_;   // [pages]
  std::vector<PageId> free_ring_;      // [pages], FIFO
  size_t free_head_ = 0;
  int32_t free_ = 0;
  int32_t reserved_ = 0;
  Tag last_tag_;
  std::unique_ptr<integrity::Tracker> tracker_;
  integrity::FaultPort* faults_;
  PageKeeper* keeper_ = nullptr;
  std::atomic<int32_t> available_{0};  // free_ - reserved_, for other threads
  std::atomic<int32_t> cached_{0};     // pages for which is_cached_only() holds
  std::atomic<int32_t> quarantined_count_{0};
};

}  // namespace bulkhead::kv
