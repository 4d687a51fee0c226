#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/attention_test_support.h"

namespace bulkhead::kernels {
namespace {

using testing::Cache;
using testing::Random;
using testing::same_bits;
using testing::Sequence;
using testing::Shape;
using testing::Tokens;

double widened(float x) {
  return static_cast<double>(quant::bf16_to_float(quant::float_to_bf16(x)));
}

// Row `row`'s attention in double precision against out, with the bound of attention.h.
void expect_row_within_bound(const Tokens& t, int32_t row, const float* out) {
  const int32_t group = t.shape.q_heads / t.shape.kv_heads;
  const int32_t dims = t.shape.head_dim;
  for (int32_t head = 0; head < t.shape.q_heads; ++head) {
    const float* q = t.q.data() + row * t.q_row() + int64_t{head} * dims;
    const int64_t kv = int64_t{head / group} * dims;
    std::vector<double> weights(static_cast<size_t>(row + 1));
    double most = -INFINITY;
    double score_error = 0.0;
    for (int32_t j = 0; j <= row; ++j) {
      double sum = 0.0;
      double magnitude = 0.0;
      for (int32_t i = 0; i < dims; ++i) {
        const double term =
            static_cast<double>(q[i]) * widened(t.k[static_cast<size_t>(j * t.kv_row() + kv + i)]);
        sum += term;
        magnitude += std::fabs(term);
      }
      weights[static_cast<size_t>(j)] = sum * static_cast<double>(t.scale());
      most = std::max(most, weights[static_cast<size_t>(j)]);
      score_error = std::max(score_error, magnitude * static_cast<double>(t.scale()));
    }
    score_error *= static_cast<double>(dims + 2) * 0x1p-24;
    double total = 0.0;
    for (double& weight : weights) total += weight = std::exp(weight - most);
    for (int32_t i = 0; i < dims; ++i) {
      double expected = 0.0;
      double greatest = 0.0;
      for (int32_t j = 0; j <= row; ++j) {
        const double v = widened(t.v[static_cast<size_t>(j * t.kv_row() + kv + i)]);
        expected += weights[static_cast<size_t>(j)] / total * v;
        greatest = std::max(greatest, std::fabs(v));
      }
      const double bound = greatest * (2.0 * score_error + (row + 17) * 0x1p-24);
      const float got = out[int64_t{head} * dims + i];
      ASSERT_LE(std::fabs(static_cast<double>(got) - expected), bound)
          << "row " << row << " head " << head << " dim " << i << " of " << dims;
    }
  }
}

class Attention : public testing::EveryIsa {
 protected:
  device::ThreadPool pool_{{.threads = 2}};
};

// C013
TEST_P(Attention, StaysWithinItsBoundOnEveryHeadShape) {
  Random random(41);
  for (const int32_t group : {1, 3, 5, 12}) {
    for (const int32_t head_dim : {24, 64, 72, 128}) {
      const Tokens tokens(random, {2 * group, 2, head_dim}, 45);
      Cache cache(random, tokens.shape, 16, 8);
      Sequence sequence(tokens, cache);
      sequence.write(kernels(), pool_, 0, 45);
      sequence.attend(kernels(), pool_, 0, 45);
      for (const int32_t row : {0, 1, 14, 15, 16, 31, 44}) {
        ASSERT_NO_FATAL_FAILURE(
            expect_row_within_bound(tokens, row, sequence.out.data() + row * tokens.q_row()));
      }
    }
  }
}

// C027
TEST_P(Attention, StaysWithinItsBoundAroundTheCuts) {
  Random random(42);
  const Tokens tokens(random, {6, 2, 24}, 530);
  for (const int32_t page_tokens : {16, 48, 64, 512}) {
    Cache cache(random, tokens.shape, page_tokens, 40);
    Sequence sequence(tokens, cache);
    sequence.write(kernels(), pool_, 0, 530);
    sequence.attend(kernels(), pool_, 0, 530);
    for (const int32_t row : {254, 255, 256, 257, 300, 511, 512, 513, 529}) {
      ASSERT_NO_FATAL_FAILURE(
          expect_row_within_bound(tokens, row, sequence.out.data() + row * tokens.q_row()))
          << page_tokens;
    }
  }
}

TEST_P(Attention, ARowHasTheSameBitsInEveryChunkingAndPageSize) {
  Random random(43);
  const int32_t count = 300;
  const Tokens tokens(random, {6, 2, 40}, count);
  Cache first(random, tokens.shape, 64, 12);
  Sequence whole(tokens, first);
  whole.write(kernels(), pool_, 0, count);
  whole.attend(kernels(), pool_, 0, count);
  for (const int32_t page_tokens : {16, 64}) {
    for (const int32_t chunk : {1, 7, 16, 33, 150, 256}) {
      Cache cache(random, tokens.shape, page_tokens, 30);
      Sequence sequence(tokens, cache);
      for (int32_t at = 0; at < count; at += chunk) {
        const int32_t tokens_now = std::min(chunk, count - at);
        // Slots beyond this chunk are still NaN.
        sequence.write(kernels(), pool_, at, tokens_now);
        sequence.attend(kernels(), pool_, at, tokens_now);
      }
      ASSERT_TRUE(same_bits(whole.out, sequence.out)) << page_tokens << " chunk " << chunk;
    }
  }
}

TEST_P(Attention, ARowHasTheSameBitsAloneAndInABatchOfSixtyFour) {
  Random random(44);
  const Shape shape{6, 2, 64};
  const int32_t sequences = 64;
  std::vector<Tokens> all;
  for (int32_t s = 0; s < sequences; ++s) {
    all.emplace_back(random, shape, 1 + static_cast<int32_t>(random.below(s % 8 == 0 ? 600 : 90)));
  }
  Cache cache(random, shape, 16, 1000);
  std::vector<std::vector<int32_t>> pages;
  std::vector<AttentionSlice> slices;
  std::vector<float> q;
  std::vector<float> alone;
  for (const Tokens& tokens : all) {
    Sequence sequence(tokens, cache);
    sequence.write(kernels(), pool_, 0, tokens.count);
    // The last token alone: a lone sequence, whose cuts may be shared out.
    sequence.attend(kernels(), pool_, tokens.count - 1, 1);
    const int64_t last = (tokens.count - 1) * tokens.q_row();
    alone.insert(alone.end(), sequence.out.begin() + last, sequence.out.end());
    q.insert(q.end(), tokens.q.begin() + last, tokens.q.end());
    pages.push_back(sequence.pages);
    slices.push_back({.first_row = static_cast<int64_t>(slices.size()),
                      .tokens = 1,
                      .position = tokens.count - 1,
                      .pages = nullptr});
  }
  for (size_t s = 0; s < slices.size(); ++s) slices[s].pages = pages[s].data();
  const int64_t row = int64_t{shape.q_heads} * shape.head_dim;
  std::vector<float> together(q.size());
  for (const int32_t batch : {64, 3, 1}) {
    for (int32_t at = 0; at < sequences; at += batch) {
      kernels().attention({.kv = cache.view,
                           .slices = slices.data() + at,
                           .slice_count = std::min(batch, sequences - at),
                           .q = q.data(),
                           .q_stride = row,
                           .out = together.data(),
                           .out_stride = row,
                           .q_heads = shape.q_heads,
                           .scale = all[0].scale()},
                          pool_);
    }
    ASSERT_TRUE(same_bits(alone, together)) << batch;
  }
}

TEST_P(Attention, PrefillAndDecodeInOneCallDoNotTouchEachOther) {
  Random random(45);
  const Tokens tokens(random, {4, 2, 32}, 320);
  Cache cache(random, tokens.shape, 16, 60);
  Sequence a(tokens, cache);
  Sequence b(tokens, cache);
  a.write(kernels(), pool_, 0, 320);
  b.write(kernels(), pool_, 0, 320);
  a.attend(kernels(), pool_, 0, 320);
  // One call: a chunk of a and one row of b, at rows of their own.
  const AttentionSlice slices[] = {
      {.first_row = 100, .tokens = 50, .position = 100, .pages = a.pages.data()},
      {.first_row = 310, .tokens = 1, .position = 310, .pages = b.pages.data()}};
  std::vector<float> out(a.out.size(), 7.0f);
  kernels().attention({.kv = cache.view,
                       .slices = slices,
                       .slice_count = 2,
                       .q = tokens.q.data(),
                       .q_stride = tokens.q_row(),
                       .out = out.data(),
                       .out_stride = tokens.q_row(),
                       .q_heads = 4,
                       .scale = tokens.scale()},
                      pool_);
  for (int32_t row = 0; row < 320; ++row) {
    const bool mine = (row >= 100 && row < 150) || row == 310;
    for (int64_t i = 0; i < tokens.q_row(); ++i) {
      const auto at = static_cast<size_t>(row * tokens.q_row() + i);
      ASSERT_TRUE(same_bits(out[at], mine ? a.out[at] : 7.0f)) << row;
    }
  }
}

TEST_P(Attention, TheNumberOfThreadsAndTheRoomForSharedCutsDoNotShow) {
  Random random(46);
  const Tokens tokens(random, {3, 1, 64}, 1500);
  Cache cache(random, tokens.shape, 64, 30);
  Sequence sequence(tokens, cache);
  sequence.write(kernels(), pool_, 0, 1500);
  sequence.attend(kernels(), pool_, 1499, 1);
  sequence.attend(kernels(), pool_, 1400, 10);
  const std::vector<float> expected = sequence.out;
  // Scratch so small that no cut can be shared, or only two at a time.
  const size_t two_cuts = (size_t{2} << 20) + 3 * 48 * 66 * sizeof(float) + 4096;
  for (const size_t scratch : {size_t{2} << 20, two_cuts, size_t{8} << 20}) {
    for (const unsigned threads : {1u, 2u, 3u}) {
      device::ThreadPool pool({.threads = threads, .scratch_bytes = scratch});
      std::fill(sequence.out.begin(), sequence.out.end(), 7.0f);
      sequence.attend(kernels(), pool, 1499, 1);
      sequence.attend(kernels(), pool, 1400, 10);
      ASSERT_TRUE(same_bits(expected, sequence.out)) << threads << " threads, " << scratch;
    }
  }
}

TEST_P(Attention, LargeScoresNeitherOverflowNorLoseTheWinner) {
  Random random(47);
  Tokens tokens(random, {2, 1, 64}, 400);
  for (float& value : tokens.q) value *= 40.0f;
  for (float& value : tokens.k) value *= 40.0f;
  Cache cache(random, tokens.shape, 16, 30);
  Sequence sequence(tokens, cache);
  sequence.write(kernels(), pool_, 0, 400);
  sequence.attend(kernels(), pool_, 0, 400);
  for (const int32_t row : {0, 200, 399}) {
    ASSERT_NO_FATAL_FAILURE(
        expect_row_within_bound(tokens, row, sequence.out.data() + row * tokens.q_row()));
  }
}

TEST_P(Attention, ANanInARowsOwnCacheShowsInThatRowOnly) {
  Random random(48);
  Tokens tokens(random, {2, 1, 32}, 40);
  tokens.v[static_cast<size_t>(20 * tokens.kv_row())] = NAN;
  Cache cache(random, tokens.shape, 16, 5);
  Sequence sequence(tokens, cache);
  sequence.write(kernels(), pool_, 0, 40);
  sequence.attend(kernels(), pool_, 0, 40);
  for (int32_t row = 0; row < 40; ++row) {
    const float first = sequence.out[static_cast<size_t>(row * tokens.q_row())];
    ASSERT_EQ(std::isnan(first), row >= 20) << row;
    ASSERT_FALSE(std::isnan(sequence.out[static_cast<size_t>(row * tokens.q_row() + 1)]));
  }
}

BH_INSTANTIATE_FOR_EVERY_ISA(Attention);

TEST(AttentionPaths, Avx2AndAvx512AgreeBitByBit) {
  const device::CpuFacts cpu = device::detect_cpu();
  if (!device::available(cpu, device::Isa::kAvx512)) GTEST_SKIP() << "NOT RUN: no avx512 here";
  device::ThreadPool pool({.threads = 2});
  Random random(49);
  const Tokens tokens(random, {9, 3, 64}, 600);
  Cache cache(random, tokens.shape, 16, 60);
  Sequence sequence(tokens, cache);
  const KernelSet narrow = *select_kernels(cpu, device::Isa::kAvx2);
  sequence.write(narrow, pool, 0, 600);
  sequence.attend(narrow, pool, 0, 600);
  const std::vector<float> expected = sequence.out;
  sequence.attend(*select_kernels(cpu, device::Isa::kAvx512), pool, 0, 600);
  EXPECT_TRUE(same_bits(expected, sequence.out));
}

// C015
TEST(KvWrite, EveryValueStandsWhereTheHeaderSaysAndNothingElseIsTouched) {
  const KernelSet set = *select_kernels(device::detect_cpu(), device::Isa::kRef);
  device::ThreadPool pool({.threads = 2});
  Random random(50);
  for (const int32_t head_dim : {24, 64, 72, 7}) {
    const Tokens tokens(random, {2, 2, head_dim}, 37);
    Cache cache(random, tokens.shape, 16, 4);
    Sequence sequence(tokens, cache);
    const int32_t first = 5;
    sequence.write(set, pool, first, 20);
    device::Buffer expected = testing::aligned_bytes(cache.arena.size());
    std::memset(expected.data(), 0xff, expected.size());
    const int64_t k_pairs = packed_pairs(head_dim);
    for (int32_t t = first; t < first + 20; ++t) {
      for (int32_t head = 0; head < 2; ++head) {
        std::byte* page =
            expected.data() + static_cast<size_t>(sequence.pages[static_cast<size_t>(t / 16)]) *
                                  cache.view.page_stride;
        auto* k = reinterpret_cast<quant::Bf16*>(
            page + cache.view.k_offset + static_cast<size_t>(head) * cache.view.k_head_stride);
        auto* v = reinterpret_cast<quant::Bf16*>(
            page + cache.view.v_offset + static_cast<size_t>(head) * cache.view.v_head_stride);
        const int32_t slot = t % 16;
        for (int32_t dim = 0; dim < head_dim; ++dim) {
          const auto at = static_cast<size_t>(t * tokens.kv_row() + head * head_dim + dim);
          k[((slot / 16) * k_pairs + dim / 2) * 32 + slot % 16 * 2 + dim % 2] =
              quant::float_to_bf16(tokens.k[at]);
          v[((dim / 16) * (16 / 2) + slot / 2) * 32 + dim % 16 * 2 + slot % 2] =
              quant::float_to_bf16(tokens.v[at]);
        }
      }
    }
    EXPECT_EQ(std::memcmp(cache.arena.data(), expected.data(), expected.size()), 0) << head_dim;
  }
}

}  // namespace
}  // namespace bulkhead::kernels
