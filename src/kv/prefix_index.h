// Finds cached pages that hold the start of a prompt, and keeps pages for whoever comes next.
//
// A tree of whole, written pages. The key of a page is SHA-256 over a secret of this process, the
// key of the page before and the page's tokens; the chain starts from a key over the model, the
// page layout and the tenant. A hit compares the stored tokens too, so that not even a collision
// can hand one request the pages of another.
//
// Threads: step thread only, except evicted_pages(). Invariants: a node holds one lease on its
// page, with the tag recorded when the page was handed out; a page that is found to be damaged is
// neither handed out nor taken in (with a tracker; without one it ends the process); whoever holds
// the page of a node holds the pages of all nodes above it, so a node that nobody uses has no
// descendant in use; a page that a sequence uses is never evicted; nothing here allocates after
// construction, except holders().
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "kv/prefix_key.h"

namespace bulkhead::kv {

struct PrefixIndexOptions {
  bool enabled = true;  // false: it stays empty and finds nothing
  // Everything besides tokens and tenant that decides what a page holds: model and formats.
  std::string_view identity = {};
  PrefixKey secret{};  // drawn at start, so that nobody outside can compute a key
  int key_bits = 256;  // of a page's key that count; fewer let tests see collisions
};

// Who may share pages with whom: from the authenticated key.
using Tenant = std::array<uint8_t, 32>;

class PrefixIndex final : public PageKeeper {
 public:
  PrefixIndex(PagePool& pool, const PrefixIndexOptions& options);
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // Appends to the empty `table` the pages known for the start of `tokens`, and returns how many
  // tokens they hold: always fewer than there are, since the last one has to be computed.
  int32_t match(const Tenant& tenant, std::span<const int32_t> tokens, PageTable& table);
  // Makes the whole pages of `tokens`, all of them written, known, up to the first that is damaged,
  // and none of a table that is distrusted. Where a page is known already
  // the table changes over to it and gives its own back.
  void insert(const Tenant& tenant, std::span<const int32_t> tokens, PageTable& table);
  // Gives up pages that nobody uses, the longest unused first, until so many are available.
  bool make_room(int32_t pages);
  // Forgets everything. Pages in use stay with their users.
  void clear();
  // Forgets the page, if it is known, and everything that goes on from it.
  void discard(PageId page) override;

  PagePool& pool() const { return pool_; }
  int32_t size() const { return nodes_used_; }
  // Any thread.
  uint64_t evicted_pages() const { return evicted_.load(std::memory_order_relaxed); }
  // The page of every node, with its recorded tag.
  std::vector<PageRef> holders() const;

 private:
  // A node's index is its page's id: a page is in one node at most.
  static constexpr PageId kNone = -1;
  struct Node {
    Lease lease;
    PrefixKey key{};
    PrefixKey root{};  // of its tenant
    PageId parent = kNone;
    int32_t children = 0;
    PageId bucket_next = kNone;
    PageId newer = kNone;
    PageId older = kNone;
  };

  Node& node(PageId page) { return nodes_[static_cast<size_t>(page)]; }
  std::span<int32_t> tokens_of(PageId page);
  PrefixKey root_key(const Tenant& tenant);
  // The node of the last page that `table` and the index have in common; kNone without one.
  PageId known_end(const PageTable& table) const;
  PrefixKey child_key(const PrefixKey& parent, std::span<const int32_t> tokens);
  size_t bucket_of(const PrefixKey& key) const;
  // What names a page: compared whole, so that a key alone decides nothing.
  struct Name {
    PrefixKey key;
    PrefixKey root;
    PageId parent;
    std::span<const int32_t> tokens;
  };
  PageId find(const Name& name);
  PageId find_sound(const Name& name);
  bool may_add(const Lease& lease);
  void add(const Name& name, const Lease& lease);
  void remove(PageId page);
  bool goes_through(PageId page, PageId above) const;
  bool evict_one();
  void touch(PageId page);
  void touch_chain(PageId last);
  void link_newest(PageId page);
  void unlink(PageId page);

  PagePool& pool_;
  const bool enabled_;
  const int key_bits_;
  const size_t page_tokens_;
  PrefixKey identity_{};
  std::vector<uint8_t> scratch_;  // secret, parent key, tokens: what is hashed
  std::vector<Node> nodes_;       // [pages]
  std::vector<int32_t> tokens_;   // [pages][page_tokens]
  std::vector<PageId> buckets_;   // first node of each
  PageId newest_ = kNone;
  PageId oldest_ = kNone;
  int32_t nodes_used_ = 0;
  std::atomic<uint64_t> evicted_{0};
};

}  // namespace bulkhead::kv
