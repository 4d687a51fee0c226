// The physical pages of one cache: an arena, who holds each page, and the tag of each page's life.
//
// Threads: step thread only, except counts(), which any thread may read.
// Invariants: (1) a page is on the free list exactly while nobody holds a lease on it; (2) the tag
// of a page changes when it is handed out and again when it comes back, and no tag value is ever
// used twice; (3) pages are reused in the order they came back; (4) free pages are never fewer than
// the pages promised to open reservations; (5) nothing here allocates after construction; (6) the
// count of pages that only the prefix index holds is right at every moment.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "device/buffer.h"
#include "kv/invariants.h"
#include "kv/layout.h"
#include "kv/page_ref.h"

namespace bulkhead::kv {

class PagePool;

// Keeps one page from being reused. Dropping the last lease of a page frees it.
//
// The reference it carries is the one recorded when the page was handed out; it is never read back
// from the pool, so that a check against the pool's tags compares two independent things.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), ref_(other.ref_) {}
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { release(); }

  explicit operator bool() const { return pool_ != nullptr; }
  const PageRef& ref() const { return ref_; }
  PageId page() const { return ref_.page; }

  // One more lease on the same page. From then on the page is read-only to everybody.
  Lease share() const;
  void release();

 private:
  friend class PagePool;
  Lease(PagePool* pool, PageRef ref) : pool_(pool), ref_(ref) {}

  PagePool* pool_ = nullptr;
  PageRef ref_;
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
  // The next promised page; there must be one left.
  Lease take();
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
};

struct PageCounts {
  int32_t total = 0;
  int32_t available = 0;  // free and not promised to anybody
  int32_t cached = 0;     // held by the prefix index and nobody else
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

  // The prefix index says that one of the page's leases is its own, or no longer.
  void set_indexed(PageId page, bool indexed);
  // Held by the prefix index and nobody else.
  bool is_cached_only(PageId page) const {
    return indexed_[static_cast<size_t>(page)] != 0 && lease_count_[static_cast<size_t>(page)] == 1;
  }

 private:
  friend class Lease;
  friend class Reservation;

  PagePool(const PageLayout& layout, const PagePoolOptions& options, device::Buffer arena);
  Lease take_reserved();
  void unreserve(int32_t pages);
  void add_lease(PageId page);
  void drop_lease(PageId page);
  void push_free(PageId page);
  PageId pop_free();
  void poison(PageId page);
  void add_cached(int32_t change) {
    cached_.store(cached_.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
  }
  Tag next_tag() { return ++last_tag_; }

  const PageLayout layout_;
  const bool poison_free_;
  device::Buffer arena_;
  std::vector<Tag> tags_;              // [pages]
  std::vector<uint32_t> lease_count_;  // [pages]
  std::vector<uint8_t> indexed_;       // [pages]
  std::vector<PageId> free_ring_;      // [pages], FIFO
  size_t free_head_ = 0;
  int32_t free_ = 0;
  int32_t reserved_ = 0;
  Tag last_tag_;
  std::atomic<int32_t> available_{0};  // free_ - reserved_, for other threads
  std::atomic<int32_t> cached_{0};     // pages for which is_cached_only() holds
};

}  // namespace bulkhead::kv
