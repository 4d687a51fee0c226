#include "model/latent_rows.h"

namespace bulkhead::model {
namespace {

quant::Bf16* writable(const kernels::PackedWeights& weights) {
  return const_cast<quant::Bf16*>(weights.bf16());
}

}  // namespace

base::Status LatentRows::key_values(const TensorInfo& source, const MlaWeights& place) {
  const int64_t nope = place.key_up.front().k;
  const int64_t value = place.value_up.front().n;
  const int64_t unit = nope + value;
  BH_TRY(keys(source, {.unit = unit, .begin = 0, .count = nope}, place.key_up));
  return converter_.matrices(source, {.unit = unit, .begin = nope, .count = value}, place.value_up);
}

base::Status LatentRows::keys(const TensorInfo& source, const UnitRows& of_keys,
                              std::span<const kernels::PackedWeights> places) {
  const int64_t latent = places.front().n;
  const int64_t nope = of_keys.count;
  const auto size = static_cast<size_t>(latent * nope);
  rows_.resize(places.size() * size);
  BH_TRY(converter_.table(source, of_keys, rows_.data()));
  std::vector<quant::Bf16> turned(size);
  const quant::Bf16* head_rows = rows_.data();
  for (const kernels::PackedWeights& place : places) {
    for (int64_t row = 0; row < nope; ++row) {
      for (int64_t i = 0; i < latent; ++i) {
        turned[static_cast<size_t>(i * nope + row)] = head_rows[row * latent + i];
      }
    }
    kernels::pack_rows(turned.data(), 0, latent, nope, writable(place));
    head_rows += nope * latent;
  }
  return {};
}

}  // namespace bulkhead::model
