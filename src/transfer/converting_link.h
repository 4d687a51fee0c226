// The link of the split placement: prefill and decode have pages of their own in one process, and
// every page is converted (or copied) from one pool's format to the other's on the way.
//
// Threads: step thread only; `convert` is called on the pool's threads, one page on each.
// Invariants: a handoff holds prefill's leases until its last page is written, and decode's pages
// from the promise made at admission on; what is withdrawn or ended gives both back at once, for
// nothing writes between two steps; pages are converted in the order of the handoffs and of their
// positions, at most pages_per_step in one advance(); only pages that hold written tokens are; both
// ends are verified before a page is converted and after it, and a handoff with a page that fails
// is received as one that is not intact.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/thread_pool.h"
#include "kv/integrity/tracker.h"
#include "kv/page_pool.h"
#include "transfer/link.h"

namespace bulkhead::transfer {

// A page's way from one pool to the other.
struct PageMove {
  kv::PageId from = 0;
  kv::PageId to = 0;
  int32_t tokens = 0;  // slots that hold something, from the first on
};
// Writes the target page. Any thread; nobody else writes either page.
using ConvertPage =
    std::function<void(const kv::CacheView& from, const kv::CacheView& to, const PageMove& move)>;

// Between pools of these layouts. kUnsupported: nobody converts between their formats.
base::Result<ConvertPage> page_conversion(const kv::PageLayout& from, const kv::PageLayout& to);

// One page alone, as it goes to another process: `tokens` slots of it, and zeros for the others,
// whatever the last tenant of the page left there.
using PageToBytes =
    std::function<void(std::span<const std::byte> page, int32_t tokens, std::span<std::byte> out)>;
base::Result<PageToBytes> page_to_bytes(const kv::PageLayout& from, const kv::PageLayout& to);

struct ConvertingLinkOptions {
  size_t capacity = 64;  // requests admitted at once
  int32_t pages_per_step = 16;
};

struct ConvertingLinkDeps {
  kv::PagePool& from;
  kv::PagePool& to;
  ConvertPage convert;
  device::ThreadPool* threads = nullptr;  // null: the caller's alone
};

class ConvertingLink final : public Link {
 public:
  ConvertingLink(const ConvertingLinkOptions& options, ConvertingLinkDeps deps);

  bool reserve(wire::Slot slot, int64_t tokens) override;
  void unreserve(wire::Slot slot) override;
  void offer(Handoff handoff) override;
  void advance() override;
  std::optional<Handoff> receive() override;
  std::optional<Handoff> withdraw(wire::Slot slot) override;
  size_t in_transit() const override { return parcels_.size(); }

  // One handoff on its way, oldest first. A failed one waits for its receiver with what it has.
  struct Parcel {
    Handoff handoff;        // with prefill's pages, until all are converted
    kv::PageTable pages;    // decode's
    int32_t converted = 0;  // pages
    int32_t before = 0;     // pages that were converted before this advance()
  };
  std::span<const Parcel> parcels() const { return parcels_; }

 private:
  struct Promise {
    wire::Slot slot = 0;
    kv::Reservation pages;
  };
  int32_t pages_of(const Parcel& parcel) const;
  void plan(Parcel& parcel);
  bool is_done(const Parcel& parcel) const;
  // Whether the pages of this advance() are those that were promised and filled, at both ends.
  bool verify(const Parcel& parcel, kv::integrity::Phase phase);
  bool verify(kv::PagePool& pool, const kv::PageTable& table, const Parcel& parcel,
              kv::integrity::Phase phase);
  void fail(Parcel& parcel);
  void hand_marks_on(Parcel& parcel);

  const ConvertingLinkOptions options_;
  ConvertingLinkDeps deps_;
  std::vector<Promise> promises_;  // of requests that are with prefill
  std::vector<Parcel> parcels_;
  std::vector<PageMove> moves_;  // of one advance()
};

}  // namespace bulkhead::transfer
