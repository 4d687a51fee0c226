#include "kv/prefix_index.h"

#include <openssl/sha.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace bulkhead::kv {
namespace {

constexpr size_t kKeyBytes = sizeof(PrefixKey);

PrefixKey sha256(std::span<const uint8_t> bytes) {
  PrefixKey out;
  SHA256(bytes.data(), bytes.size(), out.data());
  return out;
}

}  // namespace

PrefixIndex::PrefixIndex(PagePool& pool, const PrefixIndexOptions& options)
    : pool_(pool),
      enabled_(options.enabled),
      key_bits_(options.key_bits),
      page_tokens_(static_cast<size_t>(pool.layout().page_tokens)),
      scratch_(2 * kKeyBytes + page_tokens_ * sizeof(int32_t)) {
  if (!enabled_) return;
  pool.set_keeper(this);
  const auto pages = static_cast<size_t>(pool.counts().total);
  nodes_.resize(pages);
  tokens_.resize(pages * page_tokens_);
  buckets_.assign(std::bit_ceil(2 * pages), kNone);
  std::copy(options.secret.begin(), options.secret.end(), scratch_.begin());
  const std::string layout = pool.layout().id();
  std::vector<uint8_t> facts(options.identity.begin(), options.identity.end());
  facts.push_back(0);  // apart from the layout that follows
  facts.insert(facts.end(), layout.begin(), layout.end());
  identity_ = sha256(facts);
}

PrefixIndex::~PrefixIndex() {
  clear();
  pool_.remove_keeper(this);
}

int32_t PrefixIndex::match(const Tenant& tenant, std::span<const int32_t> tokens,
                           PageTable& table) {
  BH_CHECK(table.pages().empty(), "shared pages come first");
  if (!enabled_ || tokens.empty()) return 0;
  const size_t whole = (tokens.size() - 1) / page_tokens_;
  const PrefixKey root = root_key(tenant);
  PrefixChain& chain = table.chain_;
  chain = {root, 0};
  PageId last = kNone;
  for (size_t i = 0; i < whole; ++i) {
    const auto page_tokens = tokens.subspan(i * page_tokens_, page_tokens_);
    const PrefixKey key = child_key(chain.key, page_tokens);
    const PageId found = find_sound({key, root, last, page_tokens});
    if (found == kNone) break;
    table.append(node(found).lease.share());
    chain = {key, chain.pages + 1};
    last = found;
  }
  touch_chain(last);
  return static_cast<int32_t>(static_cast<size_t>(chain.pages) * page_tokens_);
}

void PrefixIndex::insert(const Tenant& tenant, std::span<const int32_t> tokens, PageTable& table) {
  if (!enabled_ || !table.trusted()) return;
  const PrefixKey root = root_key(tenant);
  PrefixChain& chain = table.chain_;
  PageId last = known_end(table);
  if (last == kNone) chain = {root, 0};
  const size_t whole = tokens.size() / page_tokens_;
  for (auto i = static_cast<size_t>(chain.pages); i < whole; ++i) {
    const auto page_tokens = tokens.subspan(i * page_tokens_, page_tokens_);
    const Name name{child_key(chain.key, page_tokens), root, last, page_tokens};
    const PageId found = find_sound(name);
    const PageId own = table.pages()[i];
    if (found == kNone) {
      if (!may_add(table.leases()[i])) break;
      add(name, table.leases()[i]);
    } else if (found != own) {
      table.replace(i, node(found).lease.share());
    }
    last = found == kNone ? own : found;
    chain = {name.key, chain.pages + 1};
    // The table's own page, given back, may have turned out to be damaged and have been above it.
    if (!node(last).lease) break;
  }
  touch_chain(last);
}

// Told by the page itself, which the table holds: a table that matched nothing has none, and after
// clear() its pages are nobody's nodes any more.
PageId PrefixIndex::known_end(const PageTable& table) const {
  if (table.chain_.pages == 0) return kNone;
  const PageRef ref = table.leases()[static_cast<size_t>(table.chain_.pages) - 1].ref();
  const Node& one = nodes_[static_cast<size_t>(ref.page)];
  return one.lease && one.lease.ref() == ref ? ref.page : kNone;
}

bool PrefixIndex::make_room(int32_t pages) {
  const PageCounts counts = pool_.counts();
  if (counts.available >= pages) return true;
  if (counts.available + counts.cached < pages) return false;
  while (pool_.counts().available < pages) {
    if (!evict_one()) return false;
  }
  return true;
}

void PrefixIndex::clear() {
  while (newest_ != kNone) remove(newest_);
}

// Whether the chain of nodes that ends in `page` has `above` in it.
bool PrefixIndex::goes_through(PageId page, PageId above) const {
  for (; page != kNone; page = nodes_[static_cast<size_t>(page)].parent) {
    if (page == above) return true;
  }
  return false;
}

void PrefixIndex::discard(PageId page) {
  if (!enabled_ || !node(page).lease) return;
  // Parents last: a chain is followed from its end.
  std::vector<PageId> gone;
  for (PageId one = newest_; one != kNone; one = node(one).older) {
    if (one != page && goes_through(one, page)) gone.push_back(one);
  }
  gone.push_back(page);
  for (const PageId one : gone) {
    if (node(one).lease) remove(one);
  }
}

std::vector<PageRef> PrefixIndex::holders() const {
  std::vector<PageRef> refs;
  for (const Node& one : nodes_) {
    if (one.lease) refs.push_back(one.lease.ref());
  }
  return refs;
}

// --- keys

PrefixKey PrefixIndex::root_key(const Tenant& tenant) {
  std::array<uint8_t, 3 * kKeyBytes> bytes;
  std::copy_n(scratch_.begin(), kKeyBytes, bytes.begin());
  std::copy(identity_.begin(), identity_.end(), bytes.begin() + kKeyBytes);
  std::copy(tenant.begin(), tenant.end(), bytes.begin() + 2 * kKeyBytes);
  return sha256(bytes);
}

PrefixKey PrefixIndex::child_key(const PrefixKey& parent, std::span<const int32_t> tokens) {
  std::copy(parent.begin(), parent.end(), scratch_.begin() + kKeyBytes);
  std::memcpy(scratch_.data() + 2 * kKeyBytes, tokens.data(), tokens.size_bytes());
  PrefixKey key = sha256(scratch_);
  for (int bit = key_bits_; bit < 256; ++bit) {
    key[static_cast<size_t>(bit / 8)] &= static_cast<uint8_t>(~(1u << (bit % 8)));
  }
  return key;
}

size_t PrefixIndex::bucket_of(const PrefixKey& key) const {
  uint64_t bits = 0;
  std::memcpy(&bits, key.data(), sizeof bits);
  return static_cast<size_t>(bits & (buckets_.size() - 1));
}

// --- nodes

std::span<int32_t> PrefixIndex::tokens_of(PageId page) {
  return std::span(tokens_).subspan(static_cast<size_t>(page) * page_tokens_, page_tokens_);
}

PageId PrefixIndex::find(const Name& name) {
  PageId page = buckets_[bucket_of(name.key)];
  while (page != kNone) {
    const Node& one = node(page);
    if (one.key == name.key && one.root == name.root && one.parent == name.parent &&
        std::ranges::equal(tokens_of(page), name.tokens)) {
      return page;
    }
    page = one.bucket_next;
  }
  return kNone;
}

// A node whose page is not what it was is forgotten, with everything below it; the pool tells.
PageId PrefixIndex::find_sound(const Name& name) {
  const PageId found = find(name);
  if (found == kNone || pool_.is_good(node(found).lease)) return found;
  discard(found);
  return kNone;
}

// Not a page that the books contradict, nor one that has a node: then either the node is of a life
// that is over, or the table names the page in a wrong place.
bool PrefixIndex::may_add(const Lease& lease) {
  if (!pool_.is_good(lease)) {
    BH_CHECK(pool_.integrity().is_on(), "a lease is on a page's current life");
    return false;
  }
  const Lease& known = node(lease.page()).lease;
  if (!known) return true;
  if (known.ref() == lease.ref()) {
    pool_.meet_misplaced(lease);
  } else {
    discard(lease.page());
  }
  return false;
}

void PrefixIndex::add(const Name& name, const Lease& lease) {
  const PageId page = lease.page();
  Node& fresh = node(page);
  BH_CHECK(!fresh.lease, "a page is in one node");
  fresh.lease = lease.share();
  fresh.key = name.key;
  fresh.root = name.root;
  fresh.parent = name.parent;
  fresh.children = 0;
  PageId& bucket = buckets_[bucket_of(name.key)];
  fresh.bucket_next = std::exchange(bucket, page);
  std::ranges::copy(name.tokens, tokens_of(page).begin());
  if (name.parent != kNone) ++node(name.parent).children;
  link_newest(page);
  ++nodes_used_;
  pool_.set_indexed(fresh.lease, true);
}

void PrefixIndex::remove(PageId page) {
  Node& gone = node(page);
  // What the pool finds wrong about it is not to be discarded once more.
  Lease lease = std::move(gone.lease);
  PageId* at = &buckets_[bucket_of(gone.key)];
  while (*at != page) at = &node(*at).bucket_next;
  *at = gone.bucket_next;
  // Its parent may be gone already, when everything is forgotten at once.
  if (gone.parent != kNone && node(gone.parent).lease) --node(gone.parent).children;
  unlink(page);
  --nodes_used_;
  pool_.set_indexed(lease, false);
}

// The oldest node that nobody uses and nothing depends on. Nodes passed over are in use or lead to
// younger ones, so they count as young again: no node is passed over twice for the same reason.
bool PrefixIndex::evict_one() {
  for (int32_t seen = nodes_used_; seen > 0; --seen) {
    const PageId page = oldest_;
    if (pool_.is_cached_only(page) && node(page).children == 0) {
      remove(page);
      evicted_.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    touch(page);
  }
  return false;
}

// --- order of use

void PrefixIndex::touch_chain(PageId last) {
  // Parents end up younger than their children: the oldest node is then a leaf.
  for (PageId page = last; page != kNone && node(page).lease; page = node(page).parent) {
    touch(page);
  }
}

void PrefixIndex::touch(PageId page) {
  unlink(page);
  link_newest(page);
}

void PrefixIndex::link_newest(PageId page) {
  Node& one = node(page);
  one.newer = kNone;
  one.older = newest_;
  if (newest_ != kNone) node(newest_).newer = page;
  newest_ = page;
  if (oldest_ == kNone) oldest_ = page;
}

void PrefixIndex::unlink(PageId page) {
  Node& one = node(page);
  (one.older == kNone ? oldest_ : node(one.older).newer) = one.newer;
  (one.newer == kNone ? newest_ : node(one.newer).older) = one.older;
}

}  // namespace bulkhead::kv
