#include "model/latent_rows.h"

namespace bulkhead::model {
namespace {

quant::Bf16* writable(const kernels::PackedWeights& weights) {
  return const_cast<quant::Bf16*>(weights.bf16());
}

}  // namespace

int64_t TurnedRows::place(int64_t row) const {
  const int64_t pair = row % unit - begin;
  if (pair < 0 || pair >= turned) return row;
  return row - pair + pair % 2 * (turned / 2) + pair / 2;
}

base::Status LatentRows::read(const TensorInfo& source) {
  rows_.resize(static_cast<size_t>(source.elements));
  return converter_.matrix(source, {.data = rows_.data(), .packed = false});
}

base::Status LatentRows::matrix(const TensorInfo& source, const kernels::PackedWeights& place,
                                int64_t row_begin, TurnedRows rows) {
  BH_TRY(read(source));
  const auto count = static_cast<int64_t>(source.shape.front());
  for (int64_t row = 0; row < count; ++row) {
    kernels::pack_rows(rows_.data() + row * place.k, row_begin + rows.place(row), 1, place.k,
                       writable(place));
  }
  return {};
}

base::Status LatentRows::vector(const TensorInfo& source, const float* place, TurnedRows rows) {
  std::vector<float> values(static_cast<size_t>(source.elements));
  BH_TRY(converter_.vector(source, 0, values));
  for (size_t i = 0; i < values.size(); ++i) {
    const_cast<float*>(place)[rows.place(static_cast<int64_t>(i))] = values[i];
  }
  return {};
}

base::Status LatentRows::key_values(const TensorInfo& source, const MlaWeights& place) {
  BH_TRY(read(source));
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
