// What the kernel tests share: seeded data, packed matrices, caches with hostile slots, and one
// test instance per ISA path, which names itself and is skipped with the reason where it cannot
// run.
//
// Threads: one test at a time.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "device/buffer.h"
#include "kernels/kernel_set.h"
#include "kernels/kv_layout.h"

namespace bulkhead::kernels::testing {

// A small, fast, seeded generator: the same data on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  // In [-1, 1).
  float unit() { return static_cast<float>(static_cast<int64_t>(next() >> 40)) * 0x1p-23f - 1.0f; }
  int64_t below(int64_t limit) {
    return static_cast<int64_t>(next() % static_cast<uint64_t>(limit));
  }

 private:
  uint64_t state_;
};

inline std::vector<float> random_floats(Random& random, int64_t count, float scale = 1.0f) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = random.unit() * scale;
  return values;
}

// 64-byte aligned memory of the test, freed at its end.
inline device::Buffer aligned_bytes(size_t bytes) {
  base::Result<device::Buffer> buffer = device::Buffer::allocate(bytes);
  BH_CHECK(buffer.ok(), "no memory for a test");
  return std::move(buffer).value();
}

// A matrix [n, k] in a format, as plain values and packed.
struct TestWeights {
  int64_t n;
  int64_t k;
  WeightFormat format;
  std::vector<quant::Bf16> plain;        // BF16
  std::vector<uint8_t> codes;            // FP8 and INT4, scales of their groups beside
  std::vector<float> scales;             // FP8
  std::vector<quant::Bf16> int4_scales;  // INT4
  device::Buffer bytes;

  TestWeights(Random& random, int64_t rows, int64_t columns, WeightFormat of = WeightFormat::kBf16)
      : n(rows), k(columns), format(of), bytes(aligned_bytes(packed_bytes(of, rows, columns))) {
    switch (format) {
      case WeightFormat::kBf16:
        plain.resize(static_cast<size_t>(n * k));
        for (quant::Bf16& code : plain) code = quant::float_to_bf16(random.unit());
        pack_rows(plain.data(), 0, n, k, bytes.as<quant::Bf16>().data());
        return;
      case WeightFormat::kFp8:
        fill_fp8(random);
        pack_rows_fp8(codes.data(), scales.data(), 0, n, k, bytes.data());
        return;
      case WeightFormat::kInt4:
        fill_int4(random);
        pack_int4();
        return;
    }
    BH_CHECK(false, "a format that the tests know");
  }
  // After a change of INT4 codes or scales.
  void pack_int4() { pack_rows_int4(codes.data(), int4_scales.data(), 0, n, k, bytes.data()); }
  PackedWeights packed() const { return {bytes.data(), n, k, format}; }
  double at(int64_t row, int64_t column) const {
    const auto index = static_cast<size_t>(row * k + column);
    if (format == WeightFormat::kBf16) {
      return static_cast<double>(quant::bf16_to_float(plain[index]));
    }
    if (format == WeightFormat::kInt4) {
      const auto group = static_cast<size_t>(row * ((k + 31) / 32) + column / 32);
      return (codes[index] - 8) * static_cast<double>(quant::bf16_to_float(int4_scales[group]));
    }
    const auto group = static_cast<size_t>(row * ((k + 127) / 128) + column / 128);
    return static_cast<double>(quant::e4m3_to_float(codes[index])) *
           static_cast<double>(scales[group]);
  }

 private:
  // Every finite code comes up, one in eight of them subnormal; scales as blocks have them, a few
  // of them odd.
  void fill_fp8(Random& random) {
    codes.resize(static_cast<size_t>(n * k));
    for (uint8_t& code : codes) {
      do code = static_cast<uint8_t>(random.below(random.below(8) == 0 ? 8 : 256));
      while (code % 128 == 127);
    }
    scales.resize(static_cast<size_t>(n * ((k + 127) / 128)));
    for (float& scale : scales) {
      scale = (random.unit() + 1.5f) * (random.below(16) == 0 ? 0x1p-20f : 0x1p-8f);
    }
  }
  void fill_int4(Random& random) {
    codes.resize(static_cast<size_t>(n * k));
    for (uint8_t& code : codes) code = static_cast<uint8_t>(random.below(16));
    int4_scales.resize(static_cast<size_t>(n * ((k + 31) / 32)));
    for (quant::Bf16& scale : int4_scales) scale = quant::float_to_bf16(random.unit() * 0.2f);
  }
};

inline bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}
inline ::testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) {
      return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// A test that runs once per path. `kernels()` is the path's set.
class EveryIsa : public ::testing::TestWithParam<device::Isa> {
 protected:
  void SetUp() override {
    const base::Result<KernelSet> set = select_kernels(device::detect_cpu(), GetParam());
    if (!set.ok()) GTEST_SKIP() << "NOT RUN: " << set.error().message;
    kernels_ = *set;
  }
  const KernelSet& kernels() const { return kernels_; }
  bool rounds_activations() const { return GetParam() == device::Isa::kAmx; }

 private:
  KernelSet kernels_;
};

inline std::string isa_test_name(const ::testing::TestParamInfo<device::Isa>& info) {
  return std::string(device::to_string(info.param));
}

#define BH_INSTANTIATE_FOR_EVERY_ISA(suite)                                            \
  INSTANTIATE_TEST_SUITE_P(Path, suite,                                                \
                           ::testing::Values(device::Isa::kRef, device::Isa::kAvx2,    \
                                             device::Isa::kAvx512, device::Isa::kAmx), \
                           testing::isa_test_name)

}  // namespace bulkhead::kernels::testing
