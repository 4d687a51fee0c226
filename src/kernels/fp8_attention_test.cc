// Attention over an FP8 cache: GQA and latent, dense and selected.
#include <gtest/gtest.h>

#include <cmath>

#include "base/testing/quick.h"
#include "kernels/attention_test_support.h"
#include "kernels/simd/vector_ops.h"
#include "kernels/vector/drivers.h"

namespace bulkhead::kernels {
namespace {

using testing::Cache;
using testing::Random;
using testing::same_bits;
using testing::Sequence;
using testing::Shape;
using testing::Tokens;

constexpr auto kFp8 = CacheFormat::kFp8E4m3;
// Groups below, at and above a tile's rows; parts of a key that end within a line of four dims.
constexpr Shape kShapes[] = {{2, 2, 24},        {6, 2, 64},     {10, 2, 72},     {24, 2, 128},
                             {12, 4, 7},        {4, 1, 72, 56}, {48, 1, 96, 64}, {67, 1, 41, 22},
                             {16, 1, 576, 512}, {4, 1, 40, 40}};

// What an FP8 cache holds of `count` values that share a power of two.
void round_component(float* values, int64_t count) {
  float greatest = 0.0f;
  for (int64_t i = 0; i < count; ++i) greatest = std::max(greatest, std::fabs(values[i]));
  float power = 0x1p-60f;
  while (greatest > 448.0f * power) power *= 2.0f;
  for (int64_t i = 0; i < count; ++i) {
    values[i] = quant::e4m3_to_float(quant::float_to_e4m3(values[i] / power)) * power;
  }
}

Tokens as_stored(Tokens tokens) {
  const Shape& shape = tokens.shape;
  for (int32_t t = 0; t < tokens.count; ++t) {
    float* k = tokens.k.data() + t * tokens.kv_row();
    float* v = tokens.v.data() + t * tokens.kv_row();
    if (shape.latent_dim > 0) {
      round_component(k, shape.latent_dim);
      round_component(k + shape.latent_dim, shape.head_dim - shape.latent_dim);
      std::copy_n(k, tokens.kv_row(), v);
    } else {
      round_component(k, tokens.kv_row());
      round_component(v, tokens.kv_row());
    }
  }
  return tokens;
}

// Row `row`'s attention to `seen` in double precision against out, with the bound of attention.h.
void expect_row_within_bound(const Tokens& t, int32_t row, const std::vector<int32_t>& seen,
                             const float* out) {
  const int32_t group = t.shape.q_heads / t.shape.kv_heads;
  for (int32_t head = 0; head < t.shape.q_heads; ++head) {
    const float* q = t.q.data() + row * t.q_row() + int64_t{head} * t.shape.head_dim;
    const int64_t kv = int64_t{head / group} * t.shape.head_dim;
    std::vector<double> weights;
    weights.reserve(seen.size());
    double most = -INFINITY;
    double magnitude = 0.0;
    for (const int32_t position : seen) {
      double sum = 0.0;
      double size = 0.0;
      for (int32_t i = 0; i < t.shape.head_dim; ++i) {
        const auto at = static_cast<size_t>(position * t.kv_row() + kv + i);
        const double term = static_cast<double>(q[i]) * static_cast<double>(t.k[at]);
        sum += term;
        size += std::fabs(term);
      }
      weights.push_back(sum * static_cast<double>(t.scale()));
      most = std::max(most, weights.back());
      magnitude = std::max(magnitude, size * static_cast<double>(t.scale()));
    }
    const double score_error = magnitude * static_cast<double>(t.shape.head_dim + 2) * 0x1p-24;
    double total = 0.0;
    for (double& weight : weights) total += weight = std::exp(weight - most);
    for (int32_t i = 0; i < t.shape.value_dim(); ++i) {
      double expected = 0.0;
      double greatest = 0.0;
      for (size_t j = 0; j < seen.size(); ++j) {
        const auto at = static_cast<size_t>(seen[j] * t.kv_row() + kv + i);
        expected += weights[j] / total * static_cast<double>(t.v[at]);
        greatest = std::max(greatest, std::fabs(static_cast<double>(t.v[at])));
      }
      const double bound =
          greatest * (2.0 * score_error + static_cast<double>(seen.size() + 16) * 0x1p-24);
      const float got = out[int64_t{head} * t.shape.value_dim() + i];
      ASSERT_LE(std::fabs(static_cast<double>(got) - expected), bound)
          << "row " << row << " head " << head << " dim " << i << " of " << t.shape.head_dim;
    }
  }
}

std::vector<int32_t> up_to(int32_t row) {
  std::vector<int32_t> seen(static_cast<size_t>(row) + 1);
  std::iota(seen.begin(), seen.end(), 0);
  return seen;
}

std::vector<std::vector<int32_t>> all_visible(int32_t count) {
  std::vector<std::vector<int32_t>> selected;
  selected.reserve(static_cast<size_t>(count));
  for (int32_t row = 0; row < count; ++row) selected.push_back(up_to(row));
  return selected;
}

class Fp8Attention : public testing::EveryIsa {
 protected:
  device::ThreadPool pool_{{.threads = 2}};

  // Written and attended to in chunks; slots beyond a chunk are still NaN.
  std::vector<float> attend(const Tokens& tokens, int32_t page_tokens, int32_t chunk,
                            std::vector<std::vector<int32_t>> selected = {}) {
    Random random(7);
    Cache cache(random, tokens.shape, page_tokens, 1 + (tokens.count + 15) / page_tokens, kFp8);
    Sequence sequence(tokens, cache);
    sequence.selected = std::move(selected);
    for (int32_t at = 0; at < tokens.count; at += chunk) {
      const int32_t now = std::min(chunk, tokens.count - at);
      sequence.write(kernels(), pool_, at, now);
      sequence.attend(kernels(), pool_, at, now);
    }
    return sequence.out;
  }
};

TEST_P(Fp8Attention, StaysWithinItsBoundOnEveryHeadShape) {
  Random random(71);
  for (const Shape& shape : kShapes) {
    const Tokens tokens(random, shape, 45);
    const Tokens stored = as_stored(tokens);
    const std::vector<float> out = attend(tokens, 16, 45);
    for (const int32_t row : {0, 1, 2, 3, 15, 16, 31, 44}) {
      ASSERT_NO_FATAL_FAILURE(
          expect_row_within_bound(stored, row, up_to(row), out.data() + row * tokens.out_row()));
    }
  }
}

TEST_P(Fp8Attention, StaysWithinItsBoundAroundTheCuts) {
  Random random(72);
  for (const Shape& shape : {Shape{6, 2, 24}, Shape{20, 1, 40, 24}}) {
    const Tokens tokens(random, shape, 530);
    const Tokens stored = as_stored(tokens);
    for (const int32_t page_tokens : {16, 48, 64, 512}) {
      if (base::testing::quick() && (page_tokens == 16 || page_tokens == 64)) continue;
      const std::vector<float> out = attend(tokens, page_tokens, 530);
      for (const int32_t row : {254, 255, 256, 257, 300, 511, 512, 529}) {
        ASSERT_NO_FATAL_FAILURE(
            expect_row_within_bound(stored, row, up_to(row), out.data() + row * tokens.out_row()))
            << page_tokens;
      }
    }
  }
}

TEST_P(Fp8Attention, ARowHasTheSameBitsInEveryChunkingAndPageSize) {
  Random random(73);
  for (const Shape& shape : {Shape{6, 2, 40}, Shape{20, 1, 40, 24}}) {
    const Tokens tokens(random, shape, 300);
    const std::vector<float> whole = attend(tokens, 64, 300);
    for (const int32_t page_tokens : {16, 64}) {
      for (const int32_t chunk : {1, 7, 33, 256}) {
        if (base::testing::quick() && (chunk < 33) != (page_tokens == 16)) continue;
        ASSERT_TRUE(same_bits(whole, attend(tokens, page_tokens, chunk)))
            << page_tokens << " chunk " << chunk;
      }
    }
  }
}

TEST_P(Fp8Attention, TheNumberOfThreadsAndTheRoomForSharedCutsDoNotShow) {
  Random random(74);
  const Tokens tokens(random, {3, 1, 64}, 1500);
  Cache cache(random, tokens.shape, 64, 30, kFp8);
  Sequence sequence(tokens, cache);
  sequence.write(kernels(), pool_, 0, 1500);
  sequence.attend(kernels(), pool_, 1499, 1);
  sequence.attend(kernels(), pool_, 1400, 10);
  const std::vector<float> expected = sequence.out;
  for (const size_t scratch : {size_t{2} << 20, size_t{8} << 20}) {
    for (const unsigned threads : {1u, 3u}) {
      device::ThreadPool pool({.threads = threads, .scratch_bytes = scratch});
      std::fill(sequence.out.begin(), sequence.out.end(), 7.0f);
      sequence.attend(kernels(), pool, 1499, 1);
      sequence.attend(kernels(), pool, 1400, 10);
      ASSERT_TRUE(same_bits(expected, sequence.out)) << threads << " threads, " << scratch;
    }
  }
}

TEST_P(Fp8Attention, SelectingAllHasTheBitsOfSelectingNothing) {
  Random random(75);
  for (const Shape& shape : {Shape{8, 1, 72, 56}, Shape{20, 1, 41, 22}, Shape{8, 2, 24}}) {
    const Tokens tokens(random, shape, 290);
    EXPECT_TRUE(
        same_bits(attend(tokens, 16, 290, all_visible(tokens.count)), attend(tokens, 16, 290)));
  }
}

TEST_P(Fp8Attention, ASelectionAttendsToTheSelectedTokensAlone) {
  Random random(76);
  for (const Shape& shape : {Shape{8, 1, 72, 56}, Shape{20, 1, 41, 22}}) {
    const Tokens tokens(random, shape, 700);
    std::vector<int32_t> chosen;
    for (int32_t position = 1; position < tokens.count; position += 2) chosen.push_back(position);
    std::vector<std::vector<int32_t>> selected(static_cast<size_t>(tokens.count), {0});
    selected.back() = chosen;
    const std::vector<float> out = attend(tokens, 64, 700, selected);
    const int32_t last = tokens.count - 1;
    expect_row_within_bound(as_stored(tokens), last, chosen, out.data() + last * tokens.out_row());
  }
}

TEST_P(Fp8Attention, ATokenThatIsNotFiniteShowsInTheRowsThatSeeItOnly) {
  Random random(77);
  for (const float bad : {NAN, INFINITY}) {
    Tokens plain(random, {2, 1, 32}, 40);
    plain.v[static_cast<size_t>(20 * plain.kv_row())] = bad;
    Tokens latent(random, {2, 1, 32, 24}, 40);
    latent.k[static_cast<size_t>(20 * latent.kv_row() + 30)] = bad;
    for (const Tokens* tokens : {&plain, &latent}) {
      const std::vector<float> out = attend(*tokens, 16, 40);
      for (int32_t row = 0; row < 40; ++row) {
        ASSERT_EQ(std::isnan(out[static_cast<size_t>(row * tokens->out_row())]), row >= 20) << row;
      }
    }
  }
}

TEST_P(Fp8Attention, ASlotThatNobodyWroteReadsAsNan) {
  Random random(78);
  for (const Shape& shape : {Shape{2, 1, 32}, Shape{2, 1, 32, 24}}) {
    const Tokens tokens(random, shape, 40);
    Cache cache(random, shape, 16, 5, kFp8);
    Sequence sequence(tokens, cache);
    sequence.write(kernels(), pool_, 0, 30);
    sequence.attend(kernels(), pool_, 0, 40);
    for (int32_t row = 0; row < 40; ++row) {
      ASSERT_EQ(std::isnan(sequence.out[static_cast<size_t>(row * tokens.out_row())]), row >= 30);
    }
  }
}

BH_INSTANTIATE_FOR_EVERY_ISA(Fp8Attention);

TEST(Fp8AttentionPaths, TheVectorPathsAgreeBitByBit) {
  const device::CpuFacts cpu = device::detect_cpu();
  if (!cpu.avx512) GTEST_SKIP() << "NOT RUN: no avx512 here";
  device::ThreadPool pool({.threads = 2});
  const KernelSet narrow = *select_kernels(cpu, device::Isa::kAvx2);
  for (const Shape& shape : kShapes) {
    Random random(79);
    const Tokens tokens(random, shape, 300);
    Cache cache(random, shape, 16, 60, kFp8);
    Sequence sequence(tokens, cache);
    sequence.write(narrow, pool, 0, 300);
    sequence.attend(narrow, pool, 0, 300);
    const AttentionSlice slice = sequence.slice(0, 300);
    for (const VectorOps* ops : {&kAvx512Ops, &kAvx512VnniOps, &kAvx512VbmiOps}) {
      if (ops != &kAvx512Ops && !cpu.avx512_vbmi) continue;
      std::vector<float> out(sequence.out.size(), 7.0f);
      vector::attention(*ops,
                        {.kv = cache.view,
                         .slices = &slice,
                         .slice_count = 1,
                         .q = tokens.q.data(),
                         .q_stride = tokens.q_row(),
                         .out = out.data(),
                         .out_stride = tokens.out_row(),
                         .q_heads = shape.q_heads,
                         .scale = tokens.scale()},
                        pool);
      EXPECT_TRUE(same_bits(sequence.out, out)) << shape.q_heads << " " << shape.head_dim;
    }
  }
}

}  // namespace
}  // namespace bulkhead::kernels
