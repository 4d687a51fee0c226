#include "kv/page_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"
#include "kv/integrity/injector.h"
#include "kv/page_table.h"

namespace bulkhead::kv {
namespace {

PageLayout tiny_layout() {
  PageLayout layout;
  layout.page_tokens = 16;
  layout.layers = 1;
  layout.kv_heads = 1;
  layout.head_dim = 16;
  return layout;
}

std::unique_ptr<PagePool> make_pool(int32_t pages, bool poison = false, uint16_t nonce = 7) {
  auto pool =
      PagePool::create(tiny_layout(), {.pages = pages, .boot_nonce = nonce, .poison_free = poison});
  EXPECT_TRUE(pool.ok());
  return std::move(pool).value();
}

Lease take_one(PagePool& pool) { return pool.reserve(1).take(); }

TEST(PagePool, RefusesShapesThatMakeNoArena) {
  PageLayout layout = tiny_layout();
  EXPECT_FALSE(PagePool::create(layout, {.pages = 0}).ok());
  layout.page_tokens = 20;
  EXPECT_FALSE(PagePool::create(layout, {.pages = 4}).ok());
  layout = tiny_layout();
  layout.layers = 0;
  EXPECT_FALSE(PagePool::create(layout, {.pages = 4}).ok());
}

TEST(PagePool, SaysSoWhenTheSystemHasNoSuchMemory) {
  PageLayout layout = tiny_layout();
  layout.layers = 1000;
  layout.kv_heads = 1000;
  layout.head_dim = 256;
  const auto pool = PagePool::create(layout, {.pages = 1 << 30});
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.error().code, base::ErrorCode::kResourceExhausted);
}

TEST(PagePool, ReusesPagesInTheOrderTheyCameBack) {
  auto pool = make_pool(4);
  std::vector<Lease> leases;
  for (int i = 0; i < 4; ++i) leases.push_back(take_one(*pool));
  leases[2].release();
  leases[0].release();
  leases[3].release();
  EXPECT_EQ(take_one(*pool).page(), 2);  // dropped at once: goes to the end of the line
  EXPECT_EQ(take_one(*pool).page(), 0);
  EXPECT_EQ(take_one(*pool).page(), 3);
  EXPECT_EQ(take_one(*pool).page(), 2);
}

// C057
TEST(PagePool, AReservationIsAllOrNothing) {
  auto pool = make_pool(4);
  Reservation first = pool->reserve(3);
  EXPECT_EQ(first.pages(), 3);
  EXPECT_EQ(pool->counts().available, 1);
  EXPECT_EQ(pool->reserve(2).pages(), 0);
  EXPECT_EQ(pool->counts().available, 1);
  Reservation second = pool->reserve(1);
  EXPECT_EQ(pool->counts().available, 0);
  first.release();
  EXPECT_EQ(pool->counts().available, 3);
  EXPECT_TRUE(validate(pool->snapshot()).empty());
}

TEST(PagePool, TakingFromAReservationDoesNotChangeWhatOthersMayHave) {
  auto pool = make_pool(4);
  Reservation promise = pool->reserve(3);
  const Lease a = promise.take();
  const Lease b = promise.take();
  EXPECT_EQ(promise.pages(), 1);
  EXPECT_EQ(pool->counts().available, 1);
}

TEST(PagePool, APageIsFreeOnlyWhenItsLastLeaseDrops) {
  auto pool = make_pool(1);
  Lease owner = take_one(*pool);
  Lease reader = owner.share();
  EXPECT_EQ(reader.ref(), owner.ref());
  owner.release();
  EXPECT_EQ(pool->counts().available, 0);
  EXPECT_EQ(pool->tags()[0], reader.ref().tag);
  reader.release();
  EXPECT_EQ(pool->counts().available, 1);
}

TEST(PagePool, MovingALeaseMovesTheRightAndNothingElse) {
  auto pool = make_pool(2);
  Lease a = take_one(*pool);
  Lease b = std::move(a);
  EXPECT_FALSE(static_cast<bool>(a));  // NOLINT: the moved-from state is the point
  EXPECT_EQ(pool->counts().available, 1);
  b = take_one(*pool);  // drops the page it held
  EXPECT_EQ(pool->counts().available, 1);
  EXPECT_EQ(b.page(), 1);
}

TEST(PagePool, TagsChangeAtAllocationAndAtFreeAndAreNeverRepeated) {
  auto pool = make_pool(2, false, 0xABCD);
  std::set<Tag> seen(pool->tags().begin(), pool->tags().end());
  for (int i = 0; i < 1000; ++i) {
    Lease lease = take_one(*pool);
    EXPECT_TRUE(seen.insert(lease.ref().tag).second);
    EXPECT_EQ(lease.ref().tag >> 48, 0xABCDu);
    EXPECT_EQ(pool->tags()[static_cast<size_t>(lease.page())], lease.ref().tag);
    const PageId page = lease.page();
    lease.release();
    EXPECT_TRUE(seen.insert(pool->tags()[static_cast<size_t>(page)]).second);
  }
}

TEST(PagePool, FreePagesReadAsNanWhenPoisoned) {
  auto pool = make_pool(2, true);
  const size_t bytes = pool->layout().page_bytes();
  Lease lease = take_one(*pool);
  std::byte* page = pool->view().arena + static_cast<size_t>(lease.page()) * bytes;
  EXPECT_EQ(page[0], std::byte{0xFF});  // poisoned from the start
  std::fill_n(page, bytes, std::byte{0x11});
  Lease reader = lease.share();
  lease.release();
  EXPECT_EQ(page[0], std::byte{0x11});  // somebody still reads it
  reader.release();
  for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(page[i], std::byte{0xFF});
}

TEST(PageTable, CoversPositionsFromItsPromise) {
  auto pool = make_pool(4);
  PageTable table(*pool, 64);
  ASSERT_TRUE(table.promise(40));  // 3 pages of 16
  EXPECT_EQ(pool->counts().available, 1);
  EXPECT_TRUE(table.cover(1));
  EXPECT_EQ(table.pages().size(), 1u);
  EXPECT_TRUE(table.cover(16));
  EXPECT_EQ(table.pages().size(), 1u);
  EXPECT_TRUE(table.cover(40));
  EXPECT_EQ(table.pages().size(), 3u);
  EXPECT_EQ(table.covered_tokens(), 48);
  PageTable other(*pool, 32);
  EXPECT_FALSE(other.promise(17));
  EXPECT_EQ(pool->counts().available, 1);  // all or nothing
  PageTable moved = std::move(table);
  moved.clear();
  EXPECT_EQ(pool->counts().available, 4);
  EXPECT_TRUE(validate_idle(pool->snapshot()).empty());
}

TEST(PageTable, GrowsBeyondItsPromiseWhileThePoolHasPages) {
  auto pool = make_pool(3);
  PageTable table(*pool, 64);
  ASSERT_TRUE(table.promise(16));
  EXPECT_TRUE(table.cover(33));
  EXPECT_EQ(table.pages().size(), 3u);
  EXPECT_FALSE(table.cover(49));
  EXPECT_EQ(table.covered_tokens(), 48);  // what it had it keeps
}

TEST(PagePool, KnowsWhichPagesOnlyTheIndexHolds) {
  auto pool = make_pool(4);
  Lease user = take_one(*pool);
  Lease index = user.share();
  pool->set_indexed(index, true);
  EXPECT_EQ(pool->counts().cached, 0);
  user.release();
  EXPECT_EQ(pool->counts().cached, 1);
  Lease another = index.share();
  EXPECT_EQ(pool->counts().cached, 0);
  another.release();
  EXPECT_EQ(pool->counts().cached, 1);
  pool->set_indexed(index, false);
  EXPECT_EQ(pool->counts().cached, 0);
  EXPECT_EQ(pool->counts().available, 3);
  index.release();
  EXPECT_EQ(pool->counts().available, 4);
}

// No lease is on the page's life any more, so none could end it.
TEST(PagePool, APageWhoseTagWasDamagedIsQuarantinedWhenItsHolderLetsGo) {
  integrity::Injector injector;
  auto pool =
      std::move(PagePool::create(tiny_layout(), {.pages = 3,
                                                 .integrity = {.mode = integrity::Mode::kObserve},
                                                 .faults = &injector}))
          .value();
  injector.attach(*pool);
  PageTable table(*pool, 32);
  ASSERT_TRUE(table.cover(32));
  std::vector<integrity::Reading> readings{{table.pages(), table.leases(), 0, 1}};
  injector.order(integrity::Fault::kTagFlip);
  injector.after_snapshot_build(readings);
  table.clear();
  EXPECT_EQ(pool->counts().quarantined, 1);
  EXPECT_EQ(pool->counts().available, 2);
  EXPECT_TRUE(validate_idle(pool->snapshot()).empty());
}

// Random reservations, takes, shares and drops against a plain count.
TEST(PagePool, StaysBalancedUnderRandomUse) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    base::Rng rng(seed);
    const auto pages = static_cast<int32_t>(1 + rng.below(12));
    auto pool = make_pool(pages);
    std::vector<Reservation> promises;
    std::vector<Lease> leases;
    for (int op = 0; op < 2000; ++op) {
      const uint64_t kind = rng.below(5);
      if (kind == 0) {
        const auto want = static_cast<int32_t>(1 + rng.below(4));
        const int32_t available = pool->counts().available;
        Reservation promise = pool->reserve(want);
        EXPECT_EQ(promise.pages(), want <= available ? want : 0);
        if (promise.pages() > 0) promises.push_back(std::move(promise));
      } else if (kind == 1 && !promises.empty()) {
        Reservation& promise = promises[rng.below(promises.size())];
        if (promise.pages() > 0) leases.push_back(promise.take());
      } else if (kind == 2 && !leases.empty()) {
        leases.push_back(leases[rng.below(leases.size())].share());
      } else if (kind == 3 && !leases.empty()) {
        leases.erase(leases.begin() + static_cast<std::ptrdiff_t>(rng.below(leases.size())));
      } else if (kind == 4 && !promises.empty() && rng.below(4) == 0) {
        promises.erase(promises.begin() + static_cast<std::ptrdiff_t>(rng.below(promises.size())));
      }
      if (op % 16 != 0) continue;
      std::vector<PageRef> holders;
      for (const Lease& lease : leases) holders.push_back(lease.ref());
      const auto found = validate(pool->snapshot(), holders);
      ASSERT_TRUE(found.empty()) << "seed " << seed << " op " << op << ": " << describe(found);
    }
    leases.clear();
    promises.clear();
    const auto found = validate_idle(pool->snapshot());
    EXPECT_TRUE(found.empty()) << describe(found);
  }
}

}  // namespace
}  // namespace bulkhead::kv
