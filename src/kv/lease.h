// The right that keeps one page from being reused.
//
// Threads: step thread only. Invariants: what a lease says of its page (tag, label) was recorded
// when the page was handed out and is never read back from the pool, so that holding it against the
// pool's own books compares two independent things; dropping the last lease of a page frees it.
#pragma once

#include <utility>

#include "kv/page_ref.h"

namespace bulkhead::kv {

class PagePool;

class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        tag_(other.tag_),
        page_(other.page_),
        label_(other.label_) {}
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { release(); }

  explicit operator bool() const { return pool_ != nullptr; }
  PageRef ref() const { return {page_, tag_}; }
  PageId page() const { return page_; }
  Tag tag() const { return tag_; }
  Label label() const { return label_; }

  // One more lease on the same page. From then on the page is read-only to everybody.
  Lease share() const;
  void release();

 private:
  friend class PagePool;
  Lease(PagePool* pool, PageRef ref, Label label)
      : pool_(pool), tag_(ref.tag), page_(ref.page), label_(label) {}

  PagePool* pool_ = nullptr;
  Tag tag_ = 0;
  PageId page_ = -1;
  Label label_ = 0;
};

}  // namespace bulkhead::kv
