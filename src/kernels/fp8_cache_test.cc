// The powers of two of an FP8 cache, what kv_write and convert_page put into its pages.
#include "kernels/fp8_cache.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention_test_support.h"
#include "kernels/kv_write.h"

namespace bulkhead::kernels {
namespace {

using testing::Cache;
using testing::Random;
using testing::Shape;
using testing::Tokens;

// GQA, latent with and without a rest; dims that fill their lines and dims that do not.
constexpr Shape kShapes[] = {{2, 2, 64},       {3, 3, 24},     {2, 1, 7},      {1, 1, 128},
                             {4, 1, 576, 512}, {4, 1, 72, 56}, {4, 1, 41, 22}, {4, 1, 40, 40}};

uint8_t power_of(float greatest) { return power_code(std::bit_cast<uint32_t>(greatest)); }

TEST(Fp8Cache, ThePowerIsTheLeastThatBringsTheGreatestMagnitudeTo448) {
  Random random(1);
  for (int trial = 0; trial < 100'000; ++trial) {
    const float greatest = std::ldexp(1.0f + (random.unit() + 1.0f) * 0.499f,
                                      static_cast<int>(random.below(100)) - 40);
    const uint8_t code = power_of(greatest);
    const float power = quant::e8m0_to_float(code);
    ASSERT_LE(greatest, 448.0f * power);
    ASSERT_TRUE(code == kLeastPower || greatest > 224.0f * power);
  }
  EXPECT_EQ(power_of(448.0f), 127);
  EXPECT_EQ(power_of(std::nextafter(448.0f, 500.0f)), 128);
  EXPECT_EQ(power_of(224.0f), 126);
}

TEST(Fp8Cache, ZerosAndTinyValuesHaveTheLeastPowerAndWhatIsNotFiniteNone) {
  EXPECT_EQ(power_of(0.0f), kLeastPower);
  EXPECT_EQ(power_of(0x1p-149f), kLeastPower);
  EXPECT_EQ(power_of(448.0f * 0x1p-60f), kLeastPower);
  EXPECT_EQ(power_of(449.0f * 0x1p-60f), kLeastPower + 1);
  EXPECT_EQ(power_of(448.0f * 0x1p63f), kGreatestPower);
  EXPECT_EQ(power_of(449.0f * 0x1p63f), kNanPower);
  EXPECT_EQ(power_of(INFINITY), kNanPower);
  EXPECT_EQ(power_of(NAN), kNanPower);
}

TEST(Fp8Cache, EveryPowerCodeIsReadAsTheFormatSaysWhereverItStands) {
  constexpr int32_t kPageTokens = 48;
  constexpr int32_t kPages = 6;
  KvLayerView kv;
  kv.format = CacheFormat::kFp8E4m3;
  kv.page_tokens = kPageTokens;
  kv.page_stride = 2 * kPageTokens;
  std::vector<std::byte> arena(kPages * kv.page_stride);
  kv.arena = arena.data();
  const std::vector<int32_t> pages = {4, 0, 3, 5, 1, 2};
  for (int32_t position = 0; position < kPages * kPageTokens; ++position) {
    uint8_t* codes = scale_codes(kv, pages[static_cast<size_t>(position / kPageTokens)], 1);
    codes[position % kPageTokens] = static_cast<uint8_t>(position);
  }
  for (const float factor : {1.0f, kFp8Rescale, 0x1p64f}) {
    for (const int32_t begin : {0, 5, 31, 47, 48}) {
      std::vector<float> out(240);
      load_powers(kv, pages.data(), 1, begin, 240, factor, out.data());
      for (int32_t i = 0; i < 240; ++i) {
        const float power = quant::e8m0_to_float(static_cast<uint8_t>(begin + i)) * factor;
        ASSERT_TRUE(testing::same_bits(out[static_cast<size_t>(i)], power)) << begin + i;
      }
    }
  }
}

TEST(Fp8Cache, FourLanesEncodeAsTheFormatSays) {
  Random random(2);
  const auto expect_same = [](float value, float factor) {
    const Float4 x = {value, -value, value, 0.0f};
    const Word4 codes = encode4(x, Float4{factor, factor, factor, factor}, Word4{~0u, ~0u, 0, ~0u});
    ASSERT_EQ(codes[0], quant::float_to_e4m3(value * factor)) << value * factor;
    ASSERT_EQ(codes[1], quant::float_to_e4m3(-value * factor)) << value * factor;
    ASSERT_EQ(codes[2], 0u);
    ASSERT_EQ(codes[3], 0u);
  };
  for (int trial = 0; trial < 300'000; ++trial) {
    expect_same(random.unit() * 448.0f * std::ldexp(1.0f, -static_cast<int>(random.below(24))),
                1.0f);
  }
  // Every code, what lies half way to the next one, and next to that.
  for (int code = 0; code < 0x7e; ++code) {
    const float here = quant::e4m3_to_float(static_cast<quant::Fp8>(code));
    const float half = (here + quant::e4m3_to_float(static_cast<quant::Fp8>(code + 1))) / 2.0f;
    for (const float value :
         {here, half, std::nextafter(half, 0.0f), std::nextafter(half, 500.0f)}) {
      expect_same(value * 0x1p20f, 0x1p-20f);
      expect_same(value, 1.0f);
    }
  }
  expect_same(448.0f, 1.0f);
}

struct Written {
  Tokens tokens;
  Cache cache;
  std::vector<int32_t> pages;

  Written(Random& random, const Tokens& of, CacheFormat format, int32_t page_tokens)
      : tokens(of), cache(random, of.shape, page_tokens, 4, format), pages(cache.take(of.count)) {
    const KernelSet set = *select_kernels(device::detect_cpu(), device::Isa::kRef);
    device::ThreadPool pool({.threads = 2});
    const AttentionSlice slice{
        .first_row = 0, .tokens = of.count, .position = 0, .pages = pages.data()};
    set.kv_write({.kv = cache.view,
                  .slices = &slice,
                  .slice_count = 1,
                  .k = tokens.k.data(),
                  .k_stride = tokens.kv_row(),
                  .v = tokens.v.data(),
                  .v_stride = tokens.kv_row()},
                 pool);
  }
  std::byte* page(int32_t token) {
    return cache.arena.data() +
           static_cast<size_t>(pages[static_cast<size_t>(token / cache.view.page_tokens)]) *
               cache.view.page_stride;
  }
  // Where the header says that a code stands; `value` asks for V.
  size_t offset(int32_t token, int32_t head, int32_t dim, bool value) const {
    const KvLayerView& v = cache.view;
    const auto slot = static_cast<size_t>(token % v.page_tokens);
    const auto d = static_cast<size_t>(dim);
    const size_t places[] = {1, 3, 0, 2};
    const auto code = [&](size_t column, size_t k) {
      return k / 4 * 64 + column * 4 + places[k % 4];
    };
    if (value) {
      return v.v_offset + static_cast<size_t>(head) * v.v_head_stride +
             d / 16 * static_cast<size_t>(v.page_tokens) * 16 + code(d % 16, slot);
    }
    const auto lines = static_cast<size_t>((v.head_dim + 31) / 32 * 8);
    return v.k_offset + static_cast<size_t>(head) * v.k_head_stride + slot / 16 * lines * 64 +
           code(slot % 16, d);
  }
};

// The component that a value belongs to: of its token's values, [begin, end) of K or V.
struct Part {
  int32_t component;
  int32_t begin;
  int32_t end;
};
Part part_of(const Shape& shape, int32_t dim, bool value) {
  if (shape.latent_dim == 0) return {value ? 1 : 0, 0, shape.kv_heads * shape.head_dim};
  if (dim < shape.latent_dim) return {0, 0, shape.latent_dim};
  return {1, shape.latent_dim, shape.head_dim};
}

// C005, C015
TEST(Fp8Cache, EveryCodeAndPowerStandsWhereTheHeaderSaysAndNothingElseIsTouched) {
  Random random(3);
  for (const Shape& shape : kShapes) {
    const Tokens tokens(random, shape, 37);
    Written written(random, tokens, CacheFormat::kFp8E4m3, 16);
    device::Buffer expected = testing::aligned_bytes(written.cache.arena.size());
    std::memset(expected.data(), 0xff, expected.size());
    for (int32_t t = 0; t < tokens.count; ++t) {
      std::byte* page = expected.data() + (written.page(t) - written.cache.arena.data());
      for (const bool value : {false, true}) {
        if (value && shape.latent_dim > 0) continue;
        const float* row = (value ? tokens.v : tokens.k).data() + t * tokens.kv_row();
        for (int32_t i = 0; i < tokens.kv_row(); ++i) {
          const Part part = part_of(shape, i, value);
          float greatest = 0.0f;
          for (int32_t j = part.begin; j < part.end; ++j) {
            greatest = std::max(greatest, std::fabs(row[j]));
          }
          float power = 0x1p-60f;
          while (greatest > 448.0f * power) power *= 2.0f;
          page[written.offset(t, i / shape.head_dim, i % shape.head_dim, value)] =
              static_cast<std::byte>(quant::float_to_e4m3(row[i] / power));
          page[written.cache.view.scale_offset +
               static_cast<size_t>(part.component * 16 + t % 16)] =
              static_cast<std::byte>(127 + std::ilogb(power));
        }
      }
    }
    EXPECT_EQ(std::memcmp(written.cache.arena.data(), expected.data(), expected.size()), 0)
        << shape.kv_heads << "x" << shape.head_dim << " latent " << shape.latent_dim;
  }
}

TEST(Fp8Cache, AConvertedPageIsWhatWritingItsValuesGives) {
  Random random(4);
  for (const Shape& shape : kShapes) {
    for (const int32_t page_tokens : {16, 64}) {
      for (const int32_t count : {1, 5, 16, 37, 64}) {
        if (count > page_tokens) continue;
        Tokens tokens(random, shape, count);
        // As a BF16 page holds them; a token without values, tiny ones, and one with a NaN.
        for (std::vector<float>* values : {&tokens.k, &tokens.v}) {
          for (float& value : *values) {
            value *= std::ldexp(1.0f, -static_cast<int>(random.below(30)));
            value = quant::bf16_to_float(quant::float_to_bf16(value));
          }
          std::fill_n(values->begin(), tokens.kv_row(), 0.0f);
          if (count > 3) (*values)[static_cast<size_t>(3 * tokens.kv_row())] = NAN;
          if (count > 4) (*values)[static_cast<size_t>(5 * tokens.kv_row() - 1)] = -INFINITY;
        }
        Written bf16(random, tokens, CacheFormat::kBf16, page_tokens);
        Written direct(random, tokens, CacheFormat::kFp8E4m3, page_tokens);
        Cache converted(random, shape, page_tokens, 2, CacheFormat::kFp8E4m3);
        convert_page(bf16.cache.view, bf16.pages[0], converted.view, 1, count);
        const std::byte* page = converted.arena.data() + converted.view.page_stride;
        for (int32_t t = 0; t < count; ++t) {
          for (int32_t i = 0; i < tokens.kv_row(); ++i) {
            for (const bool value : {false, true}) {
              if (value && shape.latent_dim > 0) continue;
              const size_t at = direct.offset(t, i / shape.head_dim, i % shape.head_dim, value);
              ASSERT_EQ(page[at], direct.page(t)[at]) << t << " of " << count << ", " << i;
            }
          }
          for (int32_t c = 0; c < (converted.view.one_component() ? 1 : 2); ++c) {
            const size_t at =
                converted.view.scale_offset + static_cast<size_t>(c * page_tokens + t);
            ASSERT_EQ(page[at], direct.page(t)[at]) << "power of " << t;
          }
        }
      }
    }
  }
}

// A page may have had another tenant.
TEST(Fp8Cache, OfClearedSlotsNothingIsLeftAndTheOthersStay) {
  for (const CacheFormat format : {CacheFormat::kBf16, CacheFormat::kFp8E4m3}) {
    for (const Shape& shape : kShapes) {
      for (const int32_t first : {0, 1, 6, 16, 19, 31, 32}) {
        Random random(5);
        Tokens tokens(random, shape, 32);
        Written full(random, tokens, format, 32);
        tokens.count = std::max(first, 1);
        Written part(random, tokens, format, 32);
        const auto page_of = [first](Written& written) {
          clear_slots(written.cache.view, written.pages[0], first);
          return std::span(written.page(0), written.cache.view.page_stride);
        };
        const auto one = page_of(full);
        const auto other = page_of(part);
        ASSERT_TRUE(std::equal(one.begin(), one.end(), other.begin(), other.end()))
            << shape.kv_heads << "x" << shape.head_dim << " from slot " << first;
        const size_t powers = (shape.latent_dim == shape.head_dim ? 1 : 2) * size_t{32};
        const size_t end =
            full.cache.view.scale_offset + (format == CacheFormat::kBf16 ? 0 : powers);
        const auto zeros =
            static_cast<size_t>(std::count(one.begin() + 64, one.begin() + end, std::byte{0}));
        ASSERT_GE(zeros * 32, (end - 64) * static_cast<size_t>(32 - first));
        if (first == 0) {
          ASSERT_EQ(zeros, end - 64);
        }
      }
    }
  }
}

}  // namespace
}  // namespace bulkhead::kernels
