// The tile unit on AMX. Compiled with this ISA's flags; includes nothing but intrinsics, the words
// of AVX-512 with what writes out FP8 and INT4 in them, and the tiling.
#include <immintrin.h>

#include "kernels/amx/tile_ops.h"
#include "kernels/simd/vec_avx512.h"
// After the words it is written in.
#include "kernels/simd/fp8-inl.h"
#include "kernels/simd/scaled_int4-inl.h"

namespace bulkhead::kernels {
namespace {

// Eight tiles of 16 rows x 64 bytes, palette 1.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

class TileUnit {
 public:
  TileUnit() {
    const TileConfig config;
    _tile_loadconfig(&config);
  }
  ~TileUnit() { _tile_release(); }
  TileUnit(const TileUnit&) = delete;
  TileUnit& operator=(const TileUnit&) = delete;

  // Written as assembly: the compilers' intrinsics take a literal tile number, not a constant.
  template <int kTile>
  void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  void load(const void* from, int64_t stride_bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(from), "r"(stride_bytes), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  void store(void* to, int64_t stride_bytes) const {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
                 :
                 : "r"(to), "r"(stride_bytes), "i"(kTile)
                 : "memory");
  }
  template <int kC, int kA, int kB>
  void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }

  static void round32(const float* in, uint16_t* out) {
    const __m256i low = round16(in);
    const __m256i high = round16(in + 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), low);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 16), high);
  }

 private:
  // quant::float_to_bf16 in integers: to nearest even, NaN made quiet.
  static __m256i round16(const float* in) {
    const __m512 value = _mm512_loadu_ps(in);
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(_mm512_srli_epi32(sum, 16), nan, quiet));
  }
};

}  // namespace
}  // namespace bulkhead::kernels

// After the unit it is written over.
#include "kernels/amx/tile_multiply-inl.h"

namespace bulkhead::kernels {

const TileOps kAmxOps = {.round_rows = round_rows,
                         .multiply = multiply_tiles,
                         .expand_fp8 = expand_fp8,
                         .expand_int4 = expand_scaled_int4,
                         .tile_rounds = tile_rounds};

}  // namespace bulkhead::kernels
