#include "transfer/converting_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <vector>

#include "kernels/kv_write.h"
#include "kv/integrity/stamp.h"
#include "kv/integrity/testing/tracked_pool.h"

namespace bulkhead::transfer {
namespace {

constexpr int32_t kPageTokens = 16;

std::unique_ptr<kv::PagePool> make_pool(int32_t pages,
                                        kv::integrity::Mode integrity = kv::integrity::Mode::kOff) {
  kv::PageLayout layout;
  layout.page_tokens = kPageTokens;
  layout.layers = layout.kv_heads = 1;
  layout.head_dim = 16;
  return std::move(kv::PagePool::create(layout, {.pages = pages, .integrity = {.mode = integrity}}))
      .value();
}

struct Bench {
  explicit Bench(int32_t pages_per_step = 16, device::ThreadPool* threads = nullptr,
                 kv::integrity::Mode integrity = kv::integrity::Mode::kOff)
      : from(make_pool(8, integrity)),
        to(make_pool(12, integrity)),
        link({.capacity = 4, .pages_per_step = pages_per_step},
             {*from, *to,
              [this](const kv::CacheView& source, const kv::CacheView& target,
                     const PageMove& move) { record(source, target, move); },
              threads}) {}

  void record(const kv::CacheView& source, const kv::CacheView& target, const PageMove& move) {
    {
      const std::scoped_lock lock(mutex);
      tokens_seen.push_back(move.tokens);
    }
    copy(source, target, move);
  }
  // A prompt of `tokens` tokens whose pages are filled with `mark`, and its first answer token.
  void offer(wire::Slot slot, int32_t tokens, int32_t max_tokens, uint8_t mark) {
    Handoff handoff;
    handoff.state.slot = slot;
    handoff.state.tokens.assign(static_cast<size_t>(tokens) + 1, 7);
    handoff.state.prompt_tokens = handoff.state.written = tokens;
    handoff.state.max_tokens = max_tokens;
    handoff.pages = kv::PageTable(*from, handoff.state.tokens_max());
    ASSERT_TRUE(handoff.pages.cover(tokens));
    for (const kv::PageId page : handoff.pages.pages()) {
      std::memset(at(*from, page), mark, from->layout().page_bytes());
    }
    link.offer(std::move(handoff));
  }
  static std::byte* at(kv::PagePool& pool, kv::PageId page) {
    return pool.view().arena + static_cast<size_t>(page) * pool.layout().page_bytes();
  }
  void expect_idle() const {
    EXPECT_TRUE(kv::validate_idle(from->snapshot()).empty());
    EXPECT_TRUE(kv::validate_idle(to->snapshot()).empty());
  }

  std::unique_ptr<kv::PagePool> from;
  std::unique_ptr<kv::PagePool> to;
  ConvertPage copy = *page_conversion(from->layout(), to->layout());
  std::mutex mutex;
  std::vector<int32_t> tokens_seen;
  ConvertingLink link;
};

TEST(ConvertingLink, BytesArriveInThePagesThatWerePromised) {
  Bench bench;
  ASSERT_TRUE(bench.link.reserve(5, 60));
  EXPECT_EQ(bench.to->counts().available, 8);
  bench.offer(5, 40, 20, 0xA5);
  EXPECT_EQ(bench.from->counts().available, 5);
  EXPECT_FALSE(bench.link.receive().has_value()) << "nothing was copied yet";
  bench.link.advance();
  EXPECT_EQ(bench.from->counts().available, 8) << "prefill has its pages back";
  auto received = bench.link.receive();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->state.slot, 5u);
  EXPECT_EQ(bench.tokens_seen, (std::vector<int32_t>{16, 16, 8})) << "what is written, no more";
  ASSERT_EQ(received->pages.pages().size(), 3u);
  for (const kv::PageId page : received->pages.pages()) {
    EXPECT_EQ(*Bench::at(*bench.to, page), std::byte{0xA5});
  }
  // The answer goes on in the fourth promised page, whatever others took meanwhile.
  ASSERT_TRUE(bench.link.reserve(6, 8 * kPageTokens));
  EXPECT_EQ(bench.to->counts().available, 0);
  EXPECT_TRUE(received->pages.cover(60));
  bench.link.unreserve(6);
  received.reset();
  bench.expect_idle();
}

// What the last tenant of a page left behind the written slots stays in its process.
TEST(PageToBytes, SlotsThatWereNotWrittenAreZeros) {
  kv::PageLayout from;
  from.page_tokens = 32;
  from.layers = from.kv_heads = 2;
  from.head_dim = 24;
  kv::PageLayout fp8 = from;
  fp8.format = kv::PageFormat::kFp8E4m3;
  for (const kv::PageLayout& to : {from, fp8}) {
    const PageToBytes convert = *page_to_bytes(from, to);
    for (const int32_t tokens : {1, 7, 16, 21, 32}) {
      std::vector<std::byte> page(from.page_bytes(), std::byte{0x3f});
      std::vector<std::byte> sent(to.page_bytes(), std::byte{0xee});
      convert(page, tokens, sent);
      for (int32_t layer = 0; layer < from.layers; ++layer) {
        kernels::clear_slots(kv::CacheView{page.data(), from, 1}.layer(layer), 0, tokens);
      }
      std::vector<std::byte> clean(to.page_bytes(), std::byte{0x11});
      convert(page, tokens, clean);
      EXPECT_EQ(sent, clean) << to.id() << " " << tokens;
      const auto zeros = std::count(sent.begin(), sent.end(), std::byte{0});
      EXPECT_GE(zeros * 32, static_cast<int64_t>(sent.size()) * (32 - tokens)) << tokens;
    }
  }
}

// A bench whose pools watch their pages, and a hook in the midst of the conversion.
struct WatchedBench : Bench {
  WatchedBench() : Bench(16, nullptr, kv::integrity::Mode::kAbort) {}
  std::optional<Handoff> carry(const std::function<void(const PageMove&)>& during) {
    ConvertingLink watched(
        {.capacity = 4, .pages_per_step = 16},
        {*from, *to,
         [&](const kv::CacheView& source, const kv::CacheView& target, const PageMove& move) {
           during(move);
           copy(source, target, move);
         }});
    EXPECT_TRUE(watched.reserve(1, 40));
    Handoff handoff;
    handoff.state.slot = 1;
    handoff.state.tokens.assign(33, 7);
    handoff.state.prompt_tokens = handoff.state.written = 32;
    handoff.state.max_tokens = 8;
    handoff.state.cache.tenant = {5};
    handoff.pages = kv::PageTable(*from, 40, kv::label_of(handoff.state.cache.tenant));
    EXPECT_TRUE(handoff.pages.cover(32));
    kv::integrity::stamp_pages(from->integrity(), handoff.pages, handoff.state.written_tokens(), 0);
    watched.offer(std::move(handoff));
    watched.advance();
    return watched.receive();
  }
};

TEST(ConvertingLink, WhatAPageHoldsIsKnownAtTheOtherEndToo) {
  WatchedBench bench;
  auto received = bench.carry([](const PageMove&) {});
  ASSERT_TRUE(received.has_value());
  EXPECT_TRUE(received->intact);
  EXPECT_EQ(kv::integrity::find_foreign_page(bench.to->integrity(), received->pages,
                                             received->state.written_tokens()),
            std::nullopt);
  received.reset();
  bench.expect_idle();
}

// The source is held, and looked at again after its last byte.
TEST(ConvertingLink, APageThatChangedItsLifeWhileItWasCopiedMakesTheHandoffNoGood) {
  for (const bool source : {true, false}) {
    WatchedBench bench;
    kv::PagePool& pool = source ? *bench.from : *bench.to;
    auto received =
        bench.carry([&](const PageMove& move) { pool.quarantine(source ? move.from : move.to); });
    ASSERT_TRUE(received.has_value());
    EXPECT_FALSE(received->intact);
    EXPECT_GT(pool.integrity()
                  .report()
                  .mismatches[static_cast<size_t>(kv::integrity::Kind::kQuarantined)],
              0u);
    received.reset();
    bench.expect_idle();
  }
}

TEST(ConvertingLink, APageThatIsNotTheReadersIsNotCopied) {
  WatchedBench bench;
  int copied = 0;
  ConvertingLink link(
      {.capacity = 4, .pages_per_step = 16},
      {*bench.from, *bench.to,
       [&copied](const kv::CacheView&, const kv::CacheView&, const PageMove&) { ++copied; }});
  ASSERT_TRUE(link.reserve(1, 20));
  Handoff handoff;
  handoff.state.slot = 1;
  handoff.state.tokens.assign(17, 7);
  handoff.state.prompt_tokens = handoff.state.written = 16;
  handoff.state.max_tokens = 4;
  handoff.pages = kv::PageTable(*bench.from, 20);
  ASSERT_TRUE(handoff.pages.cover(16));
  bench.from->integrity().set_label(handoff.pages.pages()[0], 9);
  link.offer(std::move(handoff));
  link.advance();
  EXPECT_EQ(copied, 0);
  auto received = link.receive();
  ASSERT_TRUE(received.has_value());
  EXPECT_FALSE(received->intact);
  received.reset();
  bench.expect_idle();
}

// Watched in pieces, each from its own place on, as well as in one.
TEST(ConvertingLink, PagesThatChangedPlacesInATableAreNotHandedOver) {
  for (const int32_t pages_per_step : {1, 16}) {
    for (const bool exchanged : {false, true}) {
      Bench bench(pages_per_step, nullptr, kv::integrity::Mode::kAbort);
      ASSERT_TRUE(bench.link.reserve(1, 5 * kPageTokens));
      Handoff handoff;
      handoff.state.slot = 1;
      handoff.state.tokens.assign(4 * kPageTokens + 1, 7);
      handoff.state.prompt_tokens = handoff.state.written = 4 * kPageTokens;
      handoff.state.max_tokens = 4;
      handoff.pages = kv::PageTable(*bench.from, 5 * kPageTokens);
      ASSERT_TRUE(handoff.pages.cover(4 * kPageTokens));
      if (exchanged) kv::integrity::testing::exchange(handoff.pages, 1, 3);
      bench.link.offer(std::move(handoff));
      for (int i = 0; i < 4; ++i) bench.link.advance();
      auto received = bench.link.receive();
      ASSERT_TRUE(received.has_value());
      EXPECT_EQ(received->intact, !exchanged);
      EXPECT_EQ(bench.tokens_seen.size(), !exchanged ? 4u : pages_per_step == 1 ? 1u : 0u);
      const auto counts = bench.from->integrity().report().mismatches;
      EXPECT_EQ(counts[static_cast<size_t>(kv::integrity::Kind::kMisplaced)] > 0, exchanged);
      received.reset();
      bench.expect_idle();
    }
  }
}

TEST(ConvertingLink, WhatDoesNotFitNowIsNotPromised) {
  Bench bench;
  ASSERT_TRUE(bench.link.reserve(1, 10 * kPageTokens));
  EXPECT_FALSE(bench.link.reserve(2, 3 * kPageTokens));
  EXPECT_EQ(bench.to->counts().available, 2) << "all or nothing";
  EXPECT_TRUE(bench.link.reserve(2, 2 * kPageTokens));
  bench.link.unreserve(1);
  bench.link.unreserve(2);
  bench.link.unreserve(9);
  bench.expect_idle();
}

TEST(ConvertingLink, ALongPromptCrossesInPiecesAndInOrder) {
  Bench bench(2);
  ASSERT_TRUE(bench.link.reserve(1, 5 * kPageTokens));
  ASSERT_TRUE(bench.link.reserve(2, kPageTokens));
  bench.offer(1, 5 * kPageTokens - 4, 4, 1);
  bench.offer(2, 8, 8, 2);
  for (const size_t copied : {2u, 4u}) {
    bench.link.advance();
    EXPECT_EQ(bench.tokens_seen.size(), copied);
    EXPECT_FALSE(bench.link.receive().has_value());
  }
  bench.link.advance();  // the last page of the first and the only one of the second
  EXPECT_EQ(bench.link.receive()->state.slot, 1u);
  EXPECT_EQ(bench.link.receive()->state.slot, 2u);
  EXPECT_EQ(bench.link.in_transit(), 0u);
  bench.expect_idle();
}

// C053
TEST(ConvertingLink, WhatIsWithdrawnGivesBackThePagesOfBothPoolsAtEveryStage) {
  for (int steps = 0; steps < 4; ++steps) {
    Bench bench(1);
    ASSERT_TRUE(bench.link.reserve(1, 3 * kPageTokens));
    bench.offer(1, 2 * kPageTokens, kPageTokens, 1);
    for (int i = 0; i < steps; ++i) bench.link.advance();
    EXPECT_TRUE(bench.link.withdraw(1).has_value());
    EXPECT_FALSE(bench.link.withdraw(1).has_value());
    bench.link.advance();
    EXPECT_FALSE(bench.link.receive().has_value());
    bench.expect_idle();
  }
}

TEST(ConvertingLink, ManyThreadsCopyWhatOneDoes) {
  device::ThreadPool threads({.threads = 3});
  Bench bench(16, &threads);
  ASSERT_TRUE(bench.link.reserve(1, 8 * kPageTokens));
  bench.offer(1, 7 * kPageTokens, kPageTokens, 0x3C);
  bench.link.advance();
  auto received = bench.link.receive();
  ASSERT_TRUE(received.has_value());
  for (const kv::PageId page : received->pages.pages()) {
    EXPECT_EQ(*Bench::at(*bench.to, page), std::byte{0x3C});
  }
}

TEST(PageConversion, OnlyTheFormatMayDifferAndOnlyFromBf16) {
  const kv::PageLayout bf16 = make_pool(1)->layout();
  kv::PageLayout fp8 = bf16;
  fp8.format = kv::PageFormat::kFp8E4m3;
  EXPECT_TRUE(page_conversion(bf16, bf16).ok());
  EXPECT_TRUE(page_conversion(fp8, fp8).ok());
  EXPECT_TRUE(page_conversion(bf16, fp8).ok());
  const auto back = page_conversion(fp8, bf16);
  ASSERT_FALSE(back.ok());
  EXPECT_NE(back.error().message.find("fp8_e4m3/16x1x1x16"), std::string::npos);
  kv::PageLayout other = fp8;
  other.layers = 2;
  EXPECT_FALSE(page_conversion(bf16, other).ok());
}

// C038, C083
TEST(PageConversion, EveryLayerAndEveryIndexLayerOfThePageArrives) {
  kv::PageLayout bf16;
  bf16.page_tokens = kPageTokens;
  bf16.layers = 3;
  bf16.kv_heads = 1;
  bf16.head_dim = 48;
  bf16.latent_dim = 32;
  bf16.index_layers = 2;
  bf16.index_dim = 16;
  kv::PageLayout fp8 = bf16;
  fp8.format = kv::PageFormat::kFp8E4m3;
  std::vector<std::byte> source(2 * bf16.page_bytes());
  std::vector<std::byte> target(2 * fp8.page_bytes(), std::byte{0xEE});
  // 1.0 everywhere: a code and a power of two that are neither 0 nor what the target held.
  for (size_t i = 0; i < source.size(); i += 2) {
    source[i] = std::byte{0x80};
    source[i + 1] = std::byte{0x3F};
  }
  (*page_conversion(bf16, fp8))({source.data(), bf16, 2}, {target.data(), fp8, 2},
                                {.from = 1, .to = 1, .tokens = kPageTokens});
  const auto begin = target.begin() + static_cast<std::ptrdiff_t>(fp8.page_bytes());
  EXPECT_EQ(std::count(target.begin(), begin, std::byte{0xEE}),
            static_cast<std::ptrdiff_t>(fp8.page_bytes()))
      << "the page before is not touched";
  // What alignment leaves over may stay as it was.
  const kv::CacheView view{target.data(), fp8, 2};
  const auto first_code = [&](const kernels::KvLayerView& layer) {
    return target[layer.page_stride + layer.k_offset];
  };
  for (int32_t layer = 0; layer < fp8.layers; ++layer) {
    EXPECT_NE(first_code(view.layer(layer)), std::byte{0xEE}) << layer;
  }
  for (int32_t layer = 0; layer < fp8.index_layers; ++layer) {
    EXPECT_NE(first_code(view.index_layer(layer)), std::byte{0xEE}) << "index " << layer;
  }
}

}  // namespace
}  // namespace bulkhead::transfer
