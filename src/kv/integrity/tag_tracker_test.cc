// The batch check, the books around it, and what happens to pages that fail.
#include "kv/integrity/tag_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "kv/integrity/isolate.h"
#include "kv/integrity/scrubber.h"
#include "kv/integrity/stamp.h"
#include "kv/integrity/testing/tracked_pool.h"
#include "kv/invariants.h"
#include "kv/prefix_index.h"

namespace bulkhead::kv::integrity {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TrackedPool;

uint64_t count(const PagePool& pool, Kind kind) {
  return pool.integrity().report().mismatches[static_cast<size_t>(kind)];
}

uint64_t count_all(const PagePool& pool) {
  uint64_t sum = 0;
  for (const uint64_t one : pool.integrity().report().mismatches) sum += one;
  return sum;
}

// What a sequence of the label reads of its table.
Reading reading_of(const PageTable& table, uint64_t reader = 1) {
  return {table.pages(), table.leases(), table.label(), reader};
}

bool passes(PagePool& pool, const Reading& reading) {
  uint8_t bad = 0;
  return pool.integrity().check(std::span(&reading, 1), Phase::kBefore, std::span(&bad, 1)) == 0;
}

TEST(TagTracker, WhatWasHandedOutPasses) {
  TrackedPool pool(8);
  PageTable table = pool.table(40, 7);
  EXPECT_TRUE(passes(*pool, reading_of(table)));
  EXPECT_EQ(count_all(*pool), 0u);
  EXPECT_EQ(pool->integrity().report().pages_checked, 3u);
}

TEST(TagTracker, AnEntryThatNamesAnotherPageFailsWithItsStory) {
  std::ostringstream log;
  base::Logger logger(log, base::LogFormat::kJson, base::LogLevel::kInfo);
  TrackedPool pool(8, Mode::kAbort, &logger);
  PageTable table = pool.table(40, 7);
  PageTable other = pool.table(16, 7);
  std::vector<PageId> pages(table.pages().begin(), table.pages().end());
  pages[1] = other.pages()[0];
  Reading reading = reading_of(table, 42);
  reading.pages = pages;
  EXPECT_FALSE(passes(*pool, reading));
  EXPECT_EQ(count(*pool, Kind::kTag), 1u);
  const Report report = pool->integrity().report();
  ASSERT_EQ(report.events.size(), 1u);
  const Mismatch& event = report.events[0];
  EXPECT_EQ(event.reader, 42u);
  EXPECT_EQ(event.entry, 1);
  EXPECT_EQ(event.page, other.pages()[0]);
  EXPECT_EQ(event.expected_page, table.pages()[1]);
  EXPECT_EQ(event.expected_tag, table.leases()[1].tag());
  ASSERT_EQ(event.history.size(), 1u);
  EXPECT_EQ(event.history[0].what, Transition::kAllocated);
  EXPECT_THAT(log.str(), HasSubstr("\"kind\":\"tag\""));
  EXPECT_THAT(log.str(), HasSubstr("allocated"));
}

TEST(TagTracker, IdsOutsideOfThePoolAreMismatchesOfTheirOwnKind) {
  TrackedPool pool(4);
  PageTable table = pool.table(16);
  for (const PageId id : {-1, -2000000000, 4, 2000000000}) {
    const std::vector<PageId> pages = {id};
    Reading reading = reading_of(table);
    reading.pages = pages;
    EXPECT_FALSE(passes(*pool, reading)) << id;
  }
  EXPECT_EQ(count(*pool, Kind::kOutOfRange), 4u);
}

TEST(TagTracker, FewerOrMorePagesThanExpectedFail) {
  TrackedPool pool(4);
  PageTable table = pool.table(32);
  Reading reading = reading_of(table);
  reading.pages = table.pages().first(1);
  EXPECT_FALSE(passes(*pool, reading));
  const std::vector<PageId> more = {table.pages()[0], table.pages()[1], 3};
  reading.pages = more;
  EXPECT_FALSE(passes(*pool, reading));
  EXPECT_EQ(count(*pool, Kind::kOutOfRange), 2u);
}

TEST(TagTracker, AnotherTenantsPageFailsAndAPublicOneDoesNot) {
  TrackedPool pool(4);
  PageTable table = pool.table(16, 5);
  Reading reading = reading_of(table);
  reading.label = 6;
  EXPECT_FALSE(passes(*pool, reading));
  EXPECT_EQ(count(*pool, Kind::kLabel), 1u);
  PageTable shared = pool.table(16, 0);
  reading = reading_of(shared);
  reading.label = 6;
  EXPECT_TRUE(passes(*pool, reading));
}

TEST(TagTracker, ALabelThatChangedUnderItsHolderFails) {
  TrackedPool pool(4);
  PageTable table = pool.table(16, 5);
  pool->integrity().set_label(table.pages()[0], 4);
  EXPECT_FALSE(passes(*pool, reading_of(table)));
  EXPECT_EQ(count(*pool, Kind::kLabel), 1u);
}

// With the leases: each entry still is what it is expected to be, and in the wrong place.
TEST(TagTracker, ExchangedPagesOfOneTableFailWhereverTheyAre) {
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = i + 1; j < 4; ++j) {
      TrackedPool pool(8);
      PageTable table = pool.table(64, 7);
      testing::exchange(table, i, j);
      EXPECT_FALSE(passes(*pool, reading_of(table, 42))) << i << " and " << j;
      EXPECT_EQ(count(*pool, Kind::kMisplaced), 2u);
      EXPECT_EQ(count_all(*pool), 2u);
      const Report report = pool->integrity().report();
      ASSERT_EQ(report.events.size(), 1u);
      EXPECT_EQ(report.events[0].entry, static_cast<int64_t>(i));
      EXPECT_EQ(report.events[0].found_place, static_cast<Place>(j));
      EXPECT_EQ(report.events[0].page, report.events[0].expected_page);
      testing::exchange(table, i, j);
      EXPECT_TRUE(passes(*pool, reading_of(table)));
    }
  }
}

TEST(TagTracker, APartOfATableBeginsAtItsOwnPlace) {
  TrackedPool pool(8);
  PageTable table = pool.table(64);
  Reading reading = reading_of(table);
  reading.pages = reading.pages.subspan(1, 2);
  reading.expected = reading.expected.subspan(1, 2);
  reading.first = 1;
  EXPECT_TRUE(passes(*pool, reading));
  reading.first = 0;
  EXPECT_FALSE(passes(*pool, reading));
  EXPECT_EQ(count(*pool, Kind::kMisplaced), 2u);
}

TEST(TagTracker, APlaceGoesWithTheLifeOfThePage) {
  TrackedPool pool(1);
  {
    const Lease in_no_table = pool->reserve(1).take();
  }
  EXPECT_EQ(pool->integrity().place(0), kNoPlace);
  PageTable table = pool.table(16);
  EXPECT_EQ(pool->integrity().place(0), 0);
  EXPECT_TRUE(passes(*pool, reading_of(table)));
}

TEST(TagTracker, RepeatedStoriesAreCountedAndToldOnce) {
  TrackedPool pool(4, Mode::kObserve);
  PageTable table = pool.table(16);
  const std::vector<PageId> pages = {3};
  Reading reading = reading_of(table);
  reading.pages = pages;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(passes(*pool, reading));
  EXPECT_EQ(count(*pool, Kind::kTag), 10u);
  EXPECT_EQ(pool->integrity().report().events.size(), 1u);
}

TEST(TagTracker, KeepsTheLastMomentsOfAPage) {
  TrackedPool pool(1);
  for (int i = 0; i < 10; ++i) PageTable table = pool.table(16);
  PageTable table = pool.table(16);
  const std::vector<PageId> pages = {1};
  Reading reading = reading_of(table);
  reading.pages = pages;
  EXPECT_FALSE(passes(*pool, reading));
  const auto history = pool->integrity().report().events.at(0).history;
  ASSERT_EQ(history.size(), kMomentsKept);
  for (size_t i = 1; i < history.size(); ++i) {
    EXPECT_EQ(history[i].number, history[i - 1].number + 1);
  }
  EXPECT_EQ(history.back().what, Transition::kAllocated);
  EXPECT_EQ(history[6].what, Transition::kFreed);
}

TEST(TagTracker, OffKeepsNothingAndFindsNothing) {
  TrackedPool pool(4, Mode::kOff);
  PageTable table = pool.table(16, 5);
  const std::vector<PageId> pages = {99};
  Reading reading = reading_of(table);
  reading.pages = pages;
  EXPECT_TRUE(passes(*pool, reading));
  EXPECT_EQ(pool->integrity().label(table.pages()[0]), 0u);
  EXPECT_EQ(pool->integrity().report().pages_checked, 0u);
}

TEST(Quarantine, APageThatIsHeldFailsAllItsHoldersAndNeverComesBack) {
  TrackedPool pool(4);
  PageTable table = pool.table(16);
  Lease second = table.leases()[0].share();
  const PageId page = second.page();
  pool->quarantine(page);
  pool->quarantine(page);
  EXPECT_FALSE(passes(*pool, reading_of(table)));
  EXPECT_EQ(count(*pool, Kind::kQuarantined), 1u);
  table.clear();
  second.release();
  EXPECT_EQ(pool->counts().quarantined, 1);
  EXPECT_EQ(pool->counts().available, 3);
  EXPECT_THAT(pool->integrity().report().quarantined, ElementsAre(page));
  for (int i = 0; i < 20; ++i) {
    PageTable next = pool.table(48);
    for (const PageId one : next.pages()) EXPECT_NE(one, page);
  }
  EXPECT_EQ(count(*pool, Kind::kBooks), 0u);  // stale leases of a quarantined page are no news
  EXPECT_THAT(validate_idle(pool->snapshot()), IsEmpty());
}

TEST(Quarantine, AFreePageLeavesTheFreeListUnlessItIsPromised) {
  TrackedPool pool(3);
  Reservation promise = pool->reserve(2);
  pool->quarantine(1);
  EXPECT_EQ(pool->counts().quarantined, 1);
  pool->quarantine(2);  // both that are left are promised
  EXPECT_EQ(pool->counts().quarantined, 1);
  EXPECT_NE(promise.take().page(), 1);
  EXPECT_NE(promise.take().page(), 1);
  promise.release();
  EXPECT_THAT(validate_idle(pool->snapshot()), IsEmpty());
}

TEST(Quarantine, TheIndexForgetsThePageAndWhatGoesOnFromIt) {
  TrackedPool pool(8);
  PrefixIndex index(*pool, {.identity = "m"});
  const std::vector<int32_t> tokens(64, 3);
  PageTable table = pool.table(64);
  index.insert({}, tokens, table);
  ASSERT_EQ(index.size(), 4);
  const PageId second = table.pages()[1];
  table.clear();
  pool->quarantine(second);
  EXPECT_EQ(index.size(), 1);
  PageTable hit(*pool, 65);
  EXPECT_EQ(index.match({}, std::vector<int32_t>(65, 3), hit), 16);
  EXPECT_EQ(pool->counts().quarantined, 1);
  hit.clear();
  index.clear();
  EXPECT_THAT(validate_idle(pool->snapshot()), IsEmpty());
}

TEST(Isolate, PagesThatOthersHoldInGoodStandingStay) {
  TrackedPool pool(8);
  PageTable table = pool.table(32);
  const Lease neighbour = table.leases()[0].share();
  // Both entries name a foreign page; the first one's own is shared.
  PageTable foreign = pool.table(16);
  const std::vector<PageId> pages(2, foreign.pages()[0]);
  Reading reading = reading_of(table);
  reading.pages = pages;
  isolate(*pool, reading, Phase::kBefore);
  EXPECT_THAT(pool->integrity().report().quarantined, ElementsAre(table.pages()[1]));
  // After the step has read, and written, the page in their place is suspect too.
  isolate(*pool, reading, Phase::kAfter);
  EXPECT_FALSE(passes(*pool, reading_of(foreign)));
}

// Their bytes are in order, and so are the books; only nobody finds them where they may be wrong.
TEST(Isolate, MisplacedPagesAreForgottenAndQuarantinedOnlyOnceTheStepMayHaveWritten) {
  for (const Phase phase : {Phase::kBefore, Phase::kAfter}) {
    TrackedPool pool(8);
    PrefixIndex index(*pool, {.identity = "m"});
    PageTable table = pool.table(64);
    index.insert({}, std::vector<int32_t>(64, 3), table);
    testing::exchange(table, 1, 3);
    isolate(*pool, reading_of(table), phase);
    EXPECT_EQ(index.size(), 1);
    EXPECT_EQ(pool->counts().quarantined, phase == Phase::kBefore ? 0 : 2);
    table.clear();
    index.clear();
    EXPECT_THAT(validate_idle(pool->snapshot()), IsEmpty());
  }
}

TEST(Isolate, AStaleIndexNodeFailsAndIsForgotten) {
  TrackedPool pool(8);
  PrefixIndex index(*pool, {.identity = "m"});
  const std::vector<int32_t> tokens(33, 3);
  PageTable table = pool.table(32);
  index.insert({}, std::span(tokens).first(32), table);
  const PageId page = table.pages()[0];
  pool->integrity().set_label(page, 9);  // the books say something else than the node
  table.clear();
  PageTable hit(*pool, 33);
  ASSERT_EQ(index.match({}, tokens, hit), 32);
  const Reading reading = reading_of(hit);
  ASSERT_FALSE(passes(*pool, reading));
  isolate(*pool, reading, Phase::kBefore);
  hit.clear();
  PageTable again(*pool, 33);
  EXPECT_EQ(index.match({}, tokens, again), 0);
}

TEST(Stamps, SayWhichTextAndWhichPlaceAPageHolds) {
  TrackedPool pool(8);
  Tracker& tracker = pool->integrity();
  std::vector<int32_t> tokens(40);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i);
  PageTable table = pool.table(48, 5);
  EXPECT_EQ(find_foreign_page(tracker, table, tokens), 0u);  // what is absent never passes
  stamp_pages(tracker, table, tokens, 0);
  EXPECT_EQ(find_foreign_page(tracker, table, tokens), std::nullopt);
  // The last page goes on being written; those before stay.
  EXPECT_EQ(find_foreign_page(tracker, table, std::span(tokens).first(32)), std::nullopt);
  tokens.push_back(7);
  EXPECT_EQ(find_foreign_page(tracker, table, tokens), 2u);
  stamp_pages(tracker, table, tokens, 40);
  EXPECT_EQ(find_foreign_page(tracker, table, tokens), std::nullopt);
  // Another token in the first page makes every page another one.
  auto other = tokens;
  other[3] = 99;
  EXPECT_EQ(find_foreign_page(tracker, table, other), 0u);
  stamp_pages(tracker, table, other, 0);
  EXPECT_EQ(find_foreign_page(tracker, table, tokens), 0u);
}

// Whoever stamps page by page hashes each page once; the stamps are those of the whole text.
TEST(Stamps, PieceByPieceAreThoseOfTheWholeText) {
  std::vector<int32_t> tokens(5 * 16 + 3);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(3 * i);
  for (const size_t piece : {1, 5, 16, 24, 33, 83}) {
    TrackedPool pool(8);
    PageTable table = pool.table(96, 5);
    for (size_t first = 0; first < tokens.size(); first += piece) {
      const size_t written = std::min(first + piece, tokens.size());
      stamp_pages(pool->integrity(), table, std::span(tokens).first(written),
                  static_cast<int32_t>(first));
      ASSERT_EQ(find_foreign_page(pool->integrity(), table, std::span(tokens).first(written)),
                std::nullopt)
          << written << " tokens in pieces of " << piece;
    }
    EXPECT_EQ(table.stamp_trail().pages, 5u);
    table.clear();
    EXPECT_EQ(table.stamp_trail().pages, 0u) << "a table that is used again has another text";
  }
}

TEST(Stamps, OfATableThatTookAnothersTrailAreOfNoText) {
  TrackedPool pool(8);
  std::vector<int32_t> tokens(48, 1);
  std::vector<int32_t> others(48, 2);
  PageTable table = pool.table(48);
  PageTable other = pool.table(48);
  stamp_pages(pool->integrity(), table, std::span(tokens).first(32), 0);
  stamp_pages(pool->integrity(), other, std::span(others).first(32), 0);
  other.set_stamp_trail(table.stamp_trail());
  stamp_pages(pool->integrity(), other, others, 32);
  EXPECT_EQ(find_foreign_page(pool->integrity(), other, others), 2u);
  EXPECT_EQ(find_foreign_page(pool->integrity(), other, tokens), 0u);
}

TEST(Stamps, GoWithTheLifeOfThePage) {
  TrackedPool pool(1);
  const std::vector<int32_t> tokens(16, 1);
  {
    PageTable table = pool.table(16);
    stamp_pages(pool->integrity(), table, tokens, 0);
  }
  PageTable table = pool.table(16);
  EXPECT_EQ(find_foreign_page(pool->integrity(), table, tokens), 0u);
}

TEST(Scrubber, SeesEverySealedPageAndFindsOneFlippedBit) {
  TrackedPool pool(8);
  PrefixIndex index(*pool, {.identity = "m"});
  PageTable table = pool.table(64);
  index.insert({}, std::vector<int32_t>(64, 3), table);
  Scrubber scrubber(*pool, {.pages_at_rest = 2, .steps_between = 3});
  for (int i = 0; i < 10; ++i) scrubber.at_rest();  // the first two take digests
  for (int i = 0; i < 9; ++i) scrubber.after_step();
  EXPECT_EQ(pool->integrity().report().pages_scrubbed, 19u);
  EXPECT_EQ(count_all(*pool), 0u);
  const PageId page = table.pages()[3];
  pool->view().arena[static_cast<size_t>(page) * pool->layout().page_bytes() + 77] ^= std::byte{4};
  for (int i = 0; i < 2; ++i) scrubber.at_rest();
  EXPECT_EQ(count(*pool, Kind::kDigest), 1u);
  EXPECT_THAT(pool->integrity().report().quarantined, ElementsAre(page));
  EXPECT_EQ(index.size(), 3);
  EXPECT_FALSE(passes(*pool, reading_of(table)));
}

TEST(Scrubber, APageThatChangedMeanwhileIsNotSealed) {
  TrackedPool pool(4);
  PrefixIndex index(*pool, {.identity = "m"});
  PageTable table = pool.table(16);
  index.insert({}, std::vector<int32_t>(16, 3), table);
  index.clear();
  Scrubber scrubber(*pool, {.pages_at_rest = 4, .steps_between = 1});
  scrubber.after_step();
  EXPECT_FALSE(pool->integrity().is_sealed(table.pages()[0]));
  // What is still in use after the index gave it up is written no more, but nobody finds it either.
  index.insert({}, std::vector<int32_t>(16, 3), table);
  scrubber.after_step();
  EXPECT_TRUE(pool->integrity().is_sealed(table.pages()[0]));
}

TEST(Scrubber, OnlyObservesWhenToldTo) {
  TrackedPool pool(4, Mode::kObserve);
  PrefixIndex index(*pool, {.identity = "m"});
  PageTable table = pool.table(16);
  index.insert({}, std::vector<int32_t>(16, 3), table);
  Scrubber scrubber(*pool, {});
  scrubber.at_rest();
  pool->view().arena[0] ^= std::byte{1};
  scrubber.at_rest();
  EXPECT_EQ(count(*pool, Kind::kDigest), 1u);
  EXPECT_EQ(pool->counts().quarantined, 0);
  EXPECT_EQ(index.size(), 1);
}

}  // namespace
}  // namespace bulkhead::kv::integrity
