#include "kv/page_pool.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "base/units.h"

namespace bulkhead::kv {

using integrity::Transition;

// --- Lease

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    release();
    pool_ = std::exchange(other.pool_, nullptr);
    tag_ = other.tag_;
    page_ = other.page_;
    label_ = other.label_;
  }
  return *this;
}

Lease Lease::share() const {
  BH_CHECK(pool_ != nullptr, "share() of an empty lease");
  // Whoever holds this one may give it up when the pool finds something wrong.
  PagePool* const pool = pool_;
  pool->add_lease(*this);
  return Lease(pool, ref(), label_);
}

void Lease::release() {
  if (PagePool* pool = std::exchange(pool_, nullptr)) pool->drop_lease(*this);
}

// --- Reservation

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    release();
    pool_ = std::exchange(other.pool_, nullptr);
    pages_ = std::exchange(other.pages_, 0);
  }
  return *this;
}

Lease Reservation::take(Label label, Place place) {
  BH_CHECK(pool_ != nullptr && pages_ > 0, "take() of an exhausted reservation");
  --pages_;
  return pool_->take_reserved(label, place);
}

void Reservation::release() {
  PagePool* pool = std::exchange(pool_, nullptr);
  const int32_t pages = std::exchange(pages_, 0);
  if (pool != nullptr) pool->unreserve(pages);
}

// --- PagePool

base::Result<std::unique_ptr<PagePool>> PagePool::create(const PageLayout& layout,
                                                         const PagePoolOptions& options) {
  if (layout.page_tokens <= 0 || layout.page_tokens % 16 != 0) {
    return base::invalid_argument("page_tokens",
                                  "page size must be a positive multiple of 16 tokens");
  }
  if (layout.layers <= 0 || layout.kv_heads <= 0 || layout.head_dim <= 0) {
    return base::invalid_argument("layout", "a page needs layers, heads and dimensions");
  }
  if (options.pages <= 0) return base::invalid_argument("pages", "a pool needs at least one page");
  uint64_t bytes = 0;
  if (!base::checked_mul(layout.page_bytes(), static_cast<uint64_t>(options.pages), &bytes)) {
    return base::invalid_argument("pages", "the cache would exceed the address space");
  }
  auto arena = device::Buffer::allocate(bytes);
  if (!arena.ok()) {
    return std::move(arena).error().within(
        fmt::format("cache of {} pages", base::format_count(static_cast<uint64_t>(options.pages))));
  }
  return std::unique_ptr<PagePool>(new PagePool(layout, options, std::move(arena).value()));
}

PagePool::PagePool(const PageLayout& layout, const PagePoolOptions& options, device::Buffer arena)
    : layout_(layout),
      poison_free_(options.poison_free),
      arena_(std::move(arena)),
      tags_(static_cast<size_t>(options.pages)),
      issued_(static_cast<size_t>(options.pages)),
      lease_count_(static_cast<size_t>(options.pages), 0),
      indexed_(static_cast<size_t>(options.pages), 0),
      quarantined_(static_cast<size_t>(options.pages), 0),
      free_ring_(static_cast<size_t>(options.pages)),
      last_tag_(static_cast<Tag>(options.boot_nonce) << 48),
      tracker_(integrity::make_tracker(options.integrity, tags_)),
      faults_(options.faults) {
  for (PageId page = 0; page < options.pages; ++page) {
    renew_tag(page);
    poison(page);
    push_free(page);
  }
}

PagePool::~PagePool() {
  const PageCounts now = counts();
  BH_CHECK(now.available + now.quarantined == now.total,
           "leases or reservations outlive their pool");
}

int32_t PagePool::pages_for(int64_t tokens) const {
  BH_CHECK(tokens >= 0, "a count of tokens");
  return static_cast<int32_t>((tokens + layout_.page_tokens - 1) / layout_.page_tokens);
}

Reservation PagePool::reserve(int32_t pages) {
  BH_CHECK(pages > 0, "a reservation of at least one page");
  if (pages > free_ - reserved_) return {};
  reserved_ += pages;
  available_.store(free_ - reserved_, std::memory_order_relaxed);
  return Reservation(this, pages);
}

PageCounts PagePool::counts() const {
  return {static_cast<int32_t>(tags_.size()), available_.load(std::memory_order_relaxed),
          cached_.load(std::memory_order_relaxed),
          quarantined_count_.load(std::memory_order_relaxed)};
}

PoolSnapshot PagePool::snapshot() const {
  PoolSnapshot snapshot{tags_, lease_count_, {}, reserved_, last_tag_, {}};
  for (size_t i = 0; i < static_cast<size_t>(free_); ++i) {
    snapshot.free_list.push_back(free_ring_[(free_head_ + i) % free_ring_.size()]);
  }
  for (size_t page = 0; page < quarantined_.size(); ++page) {
    if (quarantined_[page] != 0) snapshot.quarantined.push_back(static_cast<PageId>(page));
  }
  return snapshot;
}

Lease PagePool::take_reserved(Label label, Place place) {
  BH_CHECK(reserved_ > 0 && free_ > 0, "a reserved page is free");
  --reserved_;
  const PageId page = pop_free();
  const auto index = static_cast<size_t>(page);
  BH_CHECK(lease_count_[index] == 0, "a page on the free list has no lease");
  lease_count_[index] = 1;
  renew_tag(page);
  tracker_->set_label(page, label);
  tracker_->set_place(page, place);
  tracker_->note(page, Transition::kAllocated, tags_[index]);
  return Lease(this, PageRef{page, tags_[index]}, label);
}

void PagePool::unreserve(int32_t pages) {
  BH_CHECK(pages <= reserved_, "a reservation gives back what it was promised");
  reserved_ -= pages;
  available_.store(free_ - reserved_, std::memory_order_relaxed);
}

void PagePool::add_lease(const Lease& lease) {
  if (is_stale(lease)) return meet_stale(lease);
  auto& count = lease_count_[static_cast<size_t>(lease.page())];
  if (count == 0) return meet_broken_books(lease.page(), "only a held page is shared");
  if (is_cached_only(lease.page())) add_cached(-1);
  ++count;
  tracker_->note(lease.page(), Transition::kShared, lease.tag());
}

void PagePool::drop_lease(const Lease& lease) {
  if (is_stale(lease)) return meet_stale(lease);
  const PageId page = lease.page();
  const auto index = static_cast<size_t>(page);
  if (lease_count_[index] == 0) return meet_broken_books(page, "a lease is dropped once");
  if (--lease_count_[index] > 0) {
    if (is_cached_only(page)) add_cached(1);
    tracker_->note(page, Transition::kDropped, lease.tag());
    return;
  }
  if (indexed_[index] != 0) {
    add_cached(-1);  // as it was while this seemed to be the index's lease
    return meet_broken_books(page, "the index lets go of a page by its own lease");
  }
  renew_tag(page);
  tracker_->note(page, Transition::kFreed, tags_[index]);
  poison(page);
  push_free(page);
}

// A lease on a life of the page that is over. It says nothing about the page's count. If it is on
// the page's present life all the same, then the tag is damaged and no lease can end that life.
void PagePool::meet_stale(const Lease& lease) {
  BH_CHECK(tracker_->is_on(), "a lease is on a page's current life");
  const auto index = static_cast<size_t>(lease.page());
  if (quarantined_[index] != 0) return;  // as is to be expected
  tracker_->found({.kind = integrity::Kind::kBooks,
                   .phase = integrity::Phase::kBooks,
                   .page = lease.page(),
                   .found_tag = tags_[index],
                   .found_label = tracker_->label(lease.page()),
                   .expected_page = lease.page(),
                   .expected_tag = lease.tag(),
                   .expected_label = lease.label()});
  if (issued_[index] == lease.tag()) quarantine(lease.page());
}

// What is wrong is the table that names it.
void PagePool::meet_misplaced(const Lease& lease) {
  BH_CHECK(tracker_->is_on(), "a page is in one node");
  tracker_->found({.kind = integrity::Kind::kBooks,
                   .phase = integrity::Phase::kBooks,
                   .page = lease.page(),
                   .found_tag = tags_[static_cast<size_t>(lease.page())],
                   .found_label = tracker_->label(lease.page()),
                   .expected_page = lease.page(),
                   .expected_tag = lease.tag(),
                   .expected_label = lease.label()});
}

// A tracked pool goes on without the page.
void PagePool::meet_broken_books(PageId page, const char* what) {
  BH_CHECK(tracker_->is_on(), what);
  tracker_->found({.kind = integrity::Kind::kBooks,
                   .phase = integrity::Phase::kBooks,
                   .page = page,
                   .found_tag = tags_[static_cast<size_t>(page)],
                   .expected_page = page});
  // Nobody holds it, so it is neither cached nor free.
  quarantine(page);
}

void PagePool::quarantine(PageId page) {
  const auto index = static_cast<size_t>(page);
  forget(page);
  // The index may have met what is wrong with it, too.
  if (quarantined_[index] != 0) return;
  const bool on_free_list = lease_count_[index] == 0 && is_free(page);
  if (on_free_list && free_ == reserved_) return;
  if (on_free_list) remove_free(page);
  if (is_cached_only(page)) add_cached(-1);
  indexed_[index] = 0;
  lease_count_[index] = 0;
  renew_tag(page);
  quarantined_[index] = 1;
  quarantined_count_.fetch_add(1, std::memory_order_relaxed);
  tracker_->note(page, Transition::kQuarantined, tags_[index]);
}

void PagePool::relabel(Lease& lease, Label label) {
  if (is_stale(lease)) return meet_stale(lease);
  lease.label_ = label;
  tracker_->set_label(lease.page(), label);
  tracker_->note(lease.page(), Transition::kLabelled, lease.tag());
}

void PagePool::set_indexed(const Lease& lease, bool indexed) {
  if (is_stale(lease)) return meet_stale(lease);
  const PageId page = lease.page();
  const auto index = static_cast<size_t>(page);
  if (lease_count_[index] == 0) return meet_broken_books(page, "an indexed page is leased");
  if (is_cached_only(page)) add_cached(-1);
  indexed_[index] = indexed ? 1 : 0;
  if (is_cached_only(page)) add_cached(1);
  tracker_->note(page, indexed ? Transition::kIndexed : Transition::kForgotten, lease.tag());
  if (indexed) tracker_->want_seal(page);
}

bool PagePool::is_free(PageId page) const {
  for (size_t i = 0; i < static_cast<size_t>(free_); ++i) {
    if (free_ring_[(free_head_ + i) % free_ring_.size()] == page) return true;
  }
  return false;
}

void PagePool::remove_free(PageId page) {
  size_t kept = 0;
  for (size_t i = 0; i < static_cast<size_t>(free_); ++i) {
    const PageId one = free_ring_[(free_head_ + i) % free_ring_.size()];
    if (one != page) free_ring_[(free_head_ + kept++) % free_ring_.size()] = one;
  }
  free_ = static_cast<int32_t>(kept);
  available_.store(free_ - reserved_, std::memory_order_relaxed);
}

void PagePool::push_free(PageId page) {
  free_ring_[(free_head_ + static_cast<size_t>(free_)) % free_ring_.size()] = page;
  ++free_;
  available_.store(free_ - reserved_, std::memory_order_relaxed);
}

PageId PagePool::pop_free() {
  const PageId page = free_ring_[free_head_];
  free_head_ = (free_head_ + 1) % free_ring_.size();
  --free_;
  available_.store(free_ - reserved_, std::memory_order_relaxed);
  return page;
}

void PagePool::poison(PageId page) {
  if (!poison_free_) return;
  const size_t bytes = layout_.page_bytes();
  // NaN in every format (0xFFFF in BF16, 0xFF as an e4m3 code and as a power of two): whoever reads
  // a slot it has not written shows it in its logits.
  std::memset(arena_.data() + static_cast<size_t>(page) * bytes, 0xFF, bytes);
}

}  // namespace bulkhead::kv
