// Lines of e4m3 codes: for the micro-kernel, and written out as BF16. Included after a vec_*.h, by
// ISA translation units only.
#pragma once

namespace bulkhead::kernels {
namespace {

constexpr int64_t kCodeLine = 64;

struct Fp8Lines {
  static constexpr int64_t kStep = 4;
  static constexpr int kByPanelRows = kCodesByPanelRows;
  template <int kIndex>
  [[gnu::always_inline]] static Vec16 widen(const uint8_t* line) {
    return code_floats<kIndex>(load_codes(line));
  }
  [[gnu::always_inline]] static Vec16 factors(const uint8_t* p) {
    return load16(reinterpret_cast<const float*>(p));
  }
};

void expand_fp8(const void* codes, int64_t lines, const void* ahead, void* out) {
  const auto* from = static_cast<const uint8_t*>(codes);
  const auto* next = static_cast<const uint8_t*>(ahead);
  auto* to = static_cast<uint8_t*>(out);
  for (int64_t line = 0; line < lines; ++line) {
    prefetch(next + line * kCodeLine);
    const Codes16 c = load_codes(from + line * kCodeLine);
    store_pairs(to + 2 * line * kCodeLine, first_pairs(c));
    store_pairs(to + (2 * line + 1) * kCodeLine, second_pairs(c));
  }
}

}  // namespace
}  // namespace bulkhead::kernels
