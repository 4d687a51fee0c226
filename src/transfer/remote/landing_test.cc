#include "transfer/remote/landing.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "transfer/remote/commit_record.h"
#include "transfer/remote/digest.h"
#include "transfer/remote/testing/sides.h"

namespace bulkhead::transfer::remote {
namespace {

constexpr size_t kChunk = 1000;
constexpr GrantId kGrant = {4, 2};

class LandingTest : public testing::Test {
 protected:
  LandingTest()
      : pool(std::move(kv::PagePool::create(test_layout(), {.pages = 6, .boot_nonce = 9})).value()),
        landing(*pool, table(40), kGrant, 40, kChunk),
        payload(kChunk, std::byte{0x11}) {}

  kv::PageTable table(int32_t tokens) {
    kv::PageTable out(*pool, tokens);
    EXPECT_TRUE(out.cover(tokens));
    return out;
  }
  Chunk chunk(uint32_t page, uint64_t offset) {
    Chunk out;
    out.grant = kGrant;
    out.page_index = page;
    out.tag = landing.pages()[page].ref.tag;
    out.offset = offset;
    const size_t left = test_layout().page_bytes() - offset;
    out.payload = std::span(payload).first(std::min(kChunk, left));
    return out;
  }
  void land_page(uint32_t page) {
    for (size_t offset = 0; offset < test_layout().page_bytes(); offset += kChunk) {
      EXPECT_EQ(landing.land(chunk(page, offset)), Landed::kWritten);
    }
  }
  std::vector<std::byte> arena() {
    const auto* begin = pool->view().arena;
    return {begin, begin + 6 * test_layout().page_bytes()};
  }
  Commit record() {
    Commit out;
    out.transfer = {1, 1};
    out.tokens = 40;
    out.layout = test_layout().id();
    out.page_bytes = test_layout().page_bytes();
    out.layer_bytes = layer_manifest(test_layout());
    for (size_t i = 0; i < landing.pages().size(); ++i) {
      out.pages.push_back({landing.pages()[i], true, landing.digest(i)});
    }
    return out;
  }
  std::string refusal(const Commit& commit) {
    const auto bad = check_record(commit, {1, 1}, 40, test_layout(), landing);
    return bad ? bad->text : "";
  }

  std::unique_ptr<kv::PagePool> pool;
  Landing landing;
  std::vector<std::byte> payload;
};

// C038
TEST_F(LandingTest, APageIsWholeWhenEveryByteHasArrivedInWhateverOrder) {
  EXPECT_EQ(landing.missing_pages(), (std::vector<uint32_t>{0, 1, 2}));
  land_page(2);
  land_page(0);
  EXPECT_EQ(landing.missing_pages(), std::vector<uint32_t>{1});
  for (const uint64_t k : {3, 0, 5, 1, 2, 4}) {
    EXPECT_EQ(landing.land(chunk(1, k * kChunk)), Landed::kWritten);
  }
  EXPECT_FALSE(landing.is_whole());
  EXPECT_EQ(landing.land(chunk(1, 6 * kChunk)), Landed::kWritten);
  EXPECT_TRUE(landing.is_whole());
}

TEST_F(LandingTest, AByteIsWrittenOnce) {
  EXPECT_EQ(landing.land(chunk(1, 0)), Landed::kWritten);
  payload.assign(kChunk, std::byte{0x22});
  const auto before = arena();
  EXPECT_EQ(landing.land(chunk(1, 0)), Landed::kDuplicate);
  EXPECT_EQ(arena(), before);
}

// C039
TEST_F(LandingTest, ATagOfAnotherLifeIsRefused) {
  const auto before = arena();
  Chunk stale = chunk(0, 0);
  stale.tag -= 1;
  EXPECT_EQ(landing.land(stale), Landed::kStaleTag);
  stale.tag = landing.pages()[1].ref.tag;  // of a live page, but another one
  EXPECT_EQ(landing.land(stale), Landed::kStaleTag);
  stale.tag &= 0xffffffffffff;  // of another start of the process
  EXPECT_EQ(landing.land(stale), Landed::kStaleTag);
  EXPECT_EQ(arena(), before);
}

TEST_F(LandingTest, RandomHeadersWriteOnlyInsideWhatIsGranted) {
  base::Rng rng(3);
  const auto other = table(32);  // somebody else's pages
  const auto before = arena();
  const size_t bytes = test_layout().page_bytes();
  for (int32_t i = 0; i < 200000; ++i) {
    Chunk wild = chunk(static_cast<uint32_t>(rng.below(3)), 0);
    if (rng.below(2) == 0) wild.page_index = static_cast<uint32_t>(rng.bits());
    if (rng.below(2) == 0) wild.tag = rng.below(2) == 0 ? rng.bits() : other.leases()[0].ref().tag;
    wild.offset = rng.below(2) == 0 ? rng.bits() : rng.below(2 * bytes);
    wild.payload = std::span(payload).first(rng.below(kChunk + 1));
    if (rng.below(4) == 0) {  // a chunk like any other, but for where it goes
      wild.offset = rng.below(3 * bytes / kChunk) * kChunk;
      wild.payload = payload;
    }
    landing.land(wild);
  }
  auto after = arena();
  for (const GrantPage& page : landing.pages()) {
    const auto offset = static_cast<std::ptrdiff_t>(static_cast<size_t>(page.ref.page) * bytes);
    std::copy_n(before.begin() + offset, bytes, after.begin() + offset);
  }
  EXPECT_EQ(after, before);
}

TEST_F(LandingTest, TheRecordMustBeThatOfWhatIsThere) {
  for (uint32_t page = 0; page < 3; ++page) land_page(page);
  EXPECT_EQ(refusal(record()), "");

  Commit bad = record();
  bad.pages[1].has_digest = false;
  EXPECT_EQ(refusal(bad), "the record has no digest of page 1");
  bad = record();
  bad.pages[1].digest = {};  // an absent digest never passes for zero
  EXPECT_EQ(refusal(bad), "page 1 does not have the digest of the record");
  bad = record();
  std::swap(bad.pages[0], bad.pages[1]);
  EXPECT_EQ(refusal(bad), "the record's page 0 is not the one granted");
  bad = record();
  bad.pages[2].page.token_count = 16;
  EXPECT_EQ(refusal(bad), "the record's page 2 is not the one granted");
  bad = record();
  bad.pages.pop_back();
  EXPECT_EQ(refusal(bad), "the record has 2 pages, 3 were granted");
  bad = record();
  bad.tokens = 41;
  EXPECT_EQ(refusal(bad), "the record has 41 tokens, 40 were granted");
  bad = record();
  bad.layout = "fp8_e4m3/16x2x2x16";
  EXPECT_EQ(refusal(bad), "the record's layout fp8_e4m3/16x2x2x16 is not bf16/16x2x2x16");
  bad = record();
  bad.transfer = {1, 2};
  EXPECT_EQ(refusal(bad), "the record is of another transfer");
}

// C083
TEST_F(LandingTest, EveryPartOfAModelsCacheMustBeInTheRecord) {
  for (uint32_t page = 0; page < 3; ++page) land_page(page);
  Commit bad = record();
  bad.layer_bytes.pop_back();
  EXPECT_EQ(refusal(bad), "the record's layers are not those of a page");
  kv::PageLayout sparse = test_layout();
  sparse.kv_heads = 1;
  sparse.latent_dim = 16;
  sparse.index_layers = 1;
  sparse.index_dim = 16;
  EXPECT_EQ(layer_manifest(sparse).size(), 3u);
  EXPECT_EQ(layer_manifest(sparse)[2], sparse.index_bytes());
}

TEST_F(LandingTest, OneFlippedBitOfAPageIsSeen) {
  for (uint32_t page = 0; page < 3; ++page) land_page(page);
  const auto bytes = std::span<const std::byte>(payload);
  const GrantPage& page = landing.pages()[0];
  const Digest digest = page_digest(kGrant, page, bytes);
  auto flipped = payload;
  flipped[500] ^= std::byte{1};
  EXPECT_NE(page_digest(kGrant, page, flipped), digest);
}

TEST_F(LandingTest, TheSameBytesElsewhereHaveAnotherDigest) {
  const GrantPage page = landing.pages()[0];
  const Digest digest = page_digest(kGrant, page, payload);
  EXPECT_NE(page_digest({4, 3}, page, payload), digest);
  GrantPage other = page;
  other.token_begin = 16;
  EXPECT_NE(page_digest(kGrant, other, payload), digest);
  other = page;
  other.token_count = 15;
  EXPECT_NE(page_digest(kGrant, other, payload), digest);
  other = page;
  other.ref.tag += 1;
  EXPECT_NE(page_digest(kGrant, other, payload), digest);
  other = page;
  other.ref.page += 1;
  EXPECT_NE(page_digest(kGrant, other, payload), digest);
}

}  // namespace
}  // namespace bulkhead::transfer::remote
