#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "kernels/fp8_cache.h"
#include "kernels/kv_layout.h"
#include "kernels/kv_write.h"

namespace bulkhead::kernels {
namespace {

// A line of BF16 is 16 columns of a k-pair; a quarter of it is four of them.
constexpr int64_t kQuarters = 4;
constexpr int64_t kQuarterBytes = 16;

struct Pair4 {
  Float4 even;
  Float4 odd;
};

Pair4 load_pair(const std::byte* line) {
  Word4 words;
  std::memcpy(&words, line, sizeof(words));
  return {floats_of(words << 16), floats_of(words & every(0xffff0000u))};
}

// What the four lanes are multiplied by, and which of them are not NaN.
struct Inverse4 {
  Float4 factor;
  Word4 keep;
};
Inverse4 inverse_of_columns(const uint8_t* powers) {
  Inverse4 inverse{};
  for (int i = 0; i < 4; ++i) {
    inverse.factor[i] = inverse_power(powers[i]);
    inverse.keep[i] = powers[i] == kNanPower ? 0u : ~0u;
  }
  return inverse;
}
Inverse4 inverse_of_k(uint8_t power) {
  const float factor = inverse_power(power);
  Inverse4 inverse;
  inverse.factor = Float4{factor, factor, factor, factor};
  inverse.keep = every(power == kNanPower ? 0u : ~0u);
  return inverse;
}

// Two quarter lines of BF16 to one of codes. `inverses` are those of the four k.
void encode_quarter(const std::byte* from, const std::array<Inverse4, 4>& inverses, std::byte* to) {
  const Pair4 first = load_pair(from);
  const Pair4 second = load_pair(from + kLineBytes);
  const Word4 codes = join4(encode4(first.even, inverses[0].factor, inverses[0].keep),
                            encode4(first.odd, inverses[1].factor, inverses[1].keep),
                            encode4(second.even, inverses[2].factor, inverses[2].keep),
                            encode4(second.odd, inverses[3].factor, inverses[3].keep));
  std::memcpy(to, &codes, sizeof(codes));
}

// The greatest magnitude of each of 16 keys over dims [begin, end), raised from what it was.
void raise_by_keys(const std::byte* panel, int32_t begin, int32_t end,
                   std::array<Word4, kQuarters>& most) {
  for (int64_t dim = begin; dim < end; dim = dim / 2 * 2 + 2) {
    const std::byte* line = panel + dim / 2 * kLineBytes;
    for (int64_t q = 0; q < kQuarters; ++q) {
      const Pair4 pair = load_pair(line + q * kQuarterBytes);
      Word4& here = most[static_cast<size_t>(q)];
      if (dim % 2 == 0) here = greater(here, magnitude_bits(pair.even));
      if (dim % 2 != 0 || dim + 1 < end) here = greater(here, magnitude_bits(pair.odd));
    }
  }
}

// Converts dims [begin, end) of 16 keys whose powers are given; `begin` and `end` need not be whole
// lines: bytes of other dims stay.
void encode_keys(const std::byte* from, const uint8_t* powers, int32_t begin, int32_t end,
                 std::byte* to) {
  for (int64_t q = 0; q < kQuarters; ++q) {
    const Inverse4 inverse = inverse_of_columns(powers + 4 * q);
    const std::array<Inverse4, 4> inverses = {inverse, inverse, inverse, inverse};
    for (int64_t dim = begin / kFp8LineK * kFp8LineK; dim < end; dim += kFp8LineK) {
      std::byte* out = to + dim / kFp8LineK * kLineBytes + q * kQuarterBytes;
      const std::byte* in = from + dim / 2 * kLineBytes + q * kQuarterBytes;
      if (dim >= begin && dim + kFp8LineK <= end) {
        encode_quarter(in, inverses, out);
        continue;
      }
      std::array<std::byte, kQuarterBytes> whole;
      encode_quarter(in, inverses, whole.data());
      for (int64_t k = std::max<int64_t>(dim, begin); k < std::min<int64_t>(dim + 4, end); ++k) {
        for (int64_t column = 0; column < 4; ++column) {
          const int64_t at = fp8_code_offset(column, k % kFp8LineK);
          out[at] = whole[static_cast<size_t>(at)];
        }
      }
    }
  }
}

// One component of the keys of one panel of 16 tokens: dims [begin, end) of all heads.
struct KeyPart {
  const KvLayerView& from;
  int32_t from_page;
  const KvLayerView& to;
  int32_t to_page;

  void convert(int32_t panel, int32_t component, int32_t begin, int32_t end) const {
    const int64_t from_at = panel * k_panel_bytes(from.format, from.head_dim);
    const int64_t to_at = panel * k_panel_bytes(to.format, to.head_dim);
    std::array<Word4, kQuarters> most{};
    for (int32_t head = 0; head < from.kv_heads; ++head) {
      raise_by_keys(k_base(from, from_page, head) + from_at, begin, end, most);
    }
    uint8_t* powers = scale_codes(to, to_page, component) + panel * kPanelColumns;
    for (int64_t token = 0; token < kPanelColumns; ++token) {
      powers[token] = power_code(most[static_cast<size_t>(token / 4)][token % 4]);
    }
    for (int32_t head = 0; head < from.kv_heads; ++head) {
      encode_keys(k_base(from, from_page, head) + from_at, powers, begin, end,
                  k_base(to, to_page, head) + to_at);
    }
  }
};

// The values of four neighbouring tokens from slot `slot` on, of all heads.
void convert_values(const KvLayerView& from, int32_t from_page, const KvLayerView& to,
                    int32_t to_page, int32_t slot) {
  const int64_t panels = packed_panels(from.head_dim);
  const int64_t from_panel = v_panel_bytes(from.format, from.page_tokens);
  const int64_t to_panel = v_panel_bytes(to.format, to.page_tokens);
  std::array<Word4, 4> most{};  // of each token
  for (int32_t head = 0; head < from.kv_heads; ++head) {
    const std::byte* v = v_base(from, from_page, head) + v_offset(from, slot, 0);
    for (int64_t quarter = 0; quarter < (from.head_dim + 3) / 4; ++quarter) {
      const std::byte* at = v + quarter / kQuarters * from_panel + quarter % kQuarters * 16;
      const Pair4 first = load_pair(at);
      const Pair4 second = load_pair(at + kLineBytes);
      // Columns beyond the head's dims hold nothing.
      Word4 real = every(~0u);
      for (int64_t i = 0; i < 4; ++i) {
        if (quarter * 4 + i >= from.head_dim) real[i] = 0;
      }
      most[0] = greater(most[0], magnitude_bits(first.even) & real);
      most[1] = greater(most[1], magnitude_bits(first.odd) & real);
      most[2] = greater(most[2], magnitude_bits(second.even) & real);
      most[3] = greater(most[3], magnitude_bits(second.odd) & real);
    }
  }
  std::array<Inverse4, 4> inverses;
  for (size_t token = 0; token < 4; ++token) {
    const uint8_t power = power_code(greatest_lane(most[token]));
    scale_codes(to, to_page, 1)[static_cast<size_t>(slot) + token] = power;
    inverses[token] = inverse_of_k(power);
  }
  for (int32_t head = 0; head < from.kv_heads; ++head) {
    const std::byte* in = v_base(from, from_page, head) + v_offset(from, slot, 0);
    std::byte* out = v_base(to, to_page, head) + slot / kFp8LineK * kLineBytes;
    for (int64_t panel = 0; panel < panels; ++panel) {
      for (int64_t q = 0; q < kQuarters; ++q) {
        encode_quarter(in + panel * from_panel + q * kQuarterBytes, inverses,
                       out + panel * to_panel + q * kQuarterBytes);
      }
    }
  }
}

// A key is one dword of each line of its panel.
void clear_keys(const KvLayerView& kv, std::byte* keys, int32_t first) {
  const int64_t lines = k_lines(kv.format, kv.head_dim);
  for (int64_t panel = first / kPanelColumns; panel * kPanelColumns < kv.page_tokens; ++panel) {
    const int64_t begin = std::max<int64_t>(first - panel * kPanelColumns, 0) * 4;
    std::byte* at = keys + panel * k_panel_bytes(kv.format, kv.head_dim) + begin;
    for (int64_t line = 0; line < lines; ++line, at += kLineBytes) {
      std::memset(at, 0, static_cast<size_t>(kLineBytes - begin));
    }
  }
}

// A value is part of one line of each panel, and neighbours share it.
void clear_values(const KvLayerView& kv, std::byte* values, int32_t first) {
  const int64_t slots = kv.format == CacheFormat::kBf16 ? 2 : kFp8LineK;
  const int64_t whole = (first + slots - 1) / slots;
  const int64_t panel_bytes = v_panel_bytes(kv.format, kv.page_tokens);
  for (int64_t panel = 0; panel < packed_panels(kv.head_dim); ++panel, values += panel_bytes) {
    for (int64_t slot = first; slot < whole * slots; ++slot) {
      for (int64_t column = 0; column < kPanelColumns; ++column) {
        std::memset(values + code_offset(kv.format, column, slot), 0,
                    static_cast<size_t>(value_bytes(kv.format)));
      }
    }
    std::memset(values + whole * kLineBytes, 0,
                static_cast<size_t>(panel_bytes - whole * kLineBytes));
  }
}

}  // namespace

void convert_page(const KvLayerView& from, int32_t from_page, const KvLayerView& to,
                  int32_t to_page, int32_t tokens) {
  BH_CHECK(from.format == CacheFormat::kBf16 && to.format == CacheFormat::kFp8E4m3,
           "pages are converted from BF16 to FP8");
  BH_CHECK(from.page_tokens == to.page_tokens && from.kv_heads == to.kv_heads &&
               from.head_dim == to.head_dim && from.latent_dim == to.latent_dim,
           "the two caches have one shape");
  BH_CHECK(tokens >= 0 && tokens <= from.page_tokens, "tokens of one page");
  const KeyPart keys{from, from_page, to, to_page};
  const int32_t first_part = from.latent_dim > 0 ? from.latent_dim : from.head_dim;
  for (int32_t panel = 0; panel * kPanelColumns < tokens; ++panel) {
    keys.convert(panel, 0, 0, first_part);
    if (first_part < from.head_dim) keys.convert(panel, 1, first_part, from.head_dim);
  }
  if (from.latent_dim > 0) return;
  for (int32_t slot = 0; slot < tokens; slot += static_cast<int32_t>(kFp8LineK)) {
    convert_values(from, from_page, to, to_page, slot);
  }
}

void clear_slots(const KvLayerView& kv, int32_t page, int32_t first) {
  BH_CHECK(first >= 0 && first <= kv.page_tokens, "a slot of the page");
  for (int32_t head = 0; head < kv.kv_heads; ++head) {
    clear_keys(kv, k_base(kv, page, head), first);
    if (kv.latent_dim == 0) clear_values(kv, v_base(kv, page, head), first);
  }
  if (kv.format == CacheFormat::kBf16) return;
  const int32_t components = kv.one_component() ? 1 : 2;
  for (int32_t component = 0; component < components; ++component) {
    std::memset(scale_codes(kv, page, component) + first, 0,
                static_cast<size_t>(kv.page_tokens - first));
  }
}

}  // namespace bulkhead::kernels
