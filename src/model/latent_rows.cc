#include "model/latent_rows.h"

namespace bulkhead::model {
namespace {

quant::Bf16* writable(const kernels::PackedWeights& weights) {
  return const_cast<quant::Bf16*>(weights.bf16());
}

}  // namespace

base::Status LatentRows::key_values(const TensorInfo& source, const MlaWeights& place) {
  rows_.resize(static_cast<size_t>(source.elements));
  BH_TRY(converter_.table(source, rows_.data()));
  const int64_t latent = place.key_up.front().n;
  const int64_t nope = place.key_up.front().k;
  const int64_t value = place.value_up.front().n;
  std::vector<quant::Bf16> turned(static_cast<size_t>(latent * nope));
  const quant::Bf16* head_rows = rows_.data();
  for (size_t head = 0; head < place.key_up.size(); ++head) {
    for (int64_t row = 0; row < nope; ++row) {
      for (int64_t i = 0; i < latent; ++i) {
        turned[static_cast<size_t>(i * nope + row)] = head_rows[row * latent + i];
      }
    }
    kernels::pack_rows(turned.data(), 0, latent, nope, writable(place.key_up[head]));
    kernels::pack_rows(head_rows + nope * latent, 0, value, latent, writable(place.value_up[head]));
    head_rows += (nope + value) * latent;
  }
  return {};
}

}  // namespace bulkhead::model
