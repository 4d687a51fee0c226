#include "transfer/by_reference.h"

#include <gtest/gtest.h>

namespace bulkhead::transfer {
namespace {

std::unique_ptr<kv::PagePool> make_pool() {
  kv::PageLayout layout;
  layout.page_tokens = 16;
  layout.layers = layout.kv_heads = 1;
  layout.head_dim = 16;
  return std::move(kv::PagePool::create(layout, {.pages = 8})).value();
}

Handoff make_handoff(kv::PagePool& pool, wire::Slot slot) {
  Handoff handoff;
  handoff.state.slot = slot;
  handoff.pages = kv::PageTable(pool, 32);
  EXPECT_TRUE(handoff.pages.cover(20));
  return handoff;
}

// C056
TEST(ByReference, TheLeasesMoveAndNoPageChangesItsLife) {
  auto pool = make_pool();
  ByReference link(2);
  Handoff handoff = make_handoff(*pool, 5);
  const kv::PageRef ref = handoff.pages.leases()[1].ref();
  const auto before = pool->snapshot();
  link.offer(std::move(handoff));
  EXPECT_EQ(link.in_transit(), 1u);
  auto received = link.receive();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->state.slot, 5u);
  EXPECT_EQ(received->pages.leases()[1].ref(), ref);
  EXPECT_EQ(pool->snapshot().tags, before.tags);
  EXPECT_EQ(link.in_transit(), 0u);
  EXPECT_FALSE(link.receive().has_value());
  received.reset();
  EXPECT_TRUE(kv::validate_idle(pool->snapshot()).empty());
}

TEST(ByReference, ArrivesInTheOrderOffered) {
  auto pool = make_pool();
  ByReference link(3);
  for (const wire::Slot slot : {3u, 1u, 2u}) link.offer(make_handoff(*pool, slot));
  EXPECT_EQ(link.receive()->state.slot, 3u);
  EXPECT_EQ(link.receive()->state.slot, 1u);
  EXPECT_EQ(link.receive()->state.slot, 2u);
}

TEST(ByReference, WhatIsWithdrawnIsNeverReceived) {
  auto pool = make_pool();
  ByReference link(3);
  for (const wire::Slot slot : {3u, 1u, 2u}) link.offer(make_handoff(*pool, slot));
  EXPECT_FALSE(link.withdraw(9).has_value());
  EXPECT_EQ(link.withdraw(1)->state.slot, 1u);
  EXPECT_EQ(pool->counts().available, 4);
  EXPECT_FALSE(link.withdraw(1).has_value());
  EXPECT_EQ(link.receive()->state.slot, 3u);
  EXPECT_EQ(link.receive()->state.slot, 2u);
}

}  // namespace
}  // namespace bulkhead::transfer
