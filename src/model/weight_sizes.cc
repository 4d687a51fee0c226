#include "model/weight_sizes.h"

#include <algorithm>
#include <array>

#include "model/formats/codes.h"

namespace bulkhead::model {
namespace {

using formats::groups_of;
using formats::kInt4GroupColumns;
using kernels::WeightFormat;
using quant::kFp8Block;

constexpr std::string_view kPrediction = "prediction layers";
// The order in which shares are listed.
constexpr std::array<std::string_view, 10> kShares = {
    "routed experts", "shared experts", "dense MLP", "attention",     "indexer",
    "output head",    "embedding",      "router",    "norms, biases", kPrediction};

bool is_replicated(WeightRole role) {
  if (role == WeightRole::kQDown || role == WeightRole::kKvDown) return true;
  const std::string_view share = share_of(role);
  return share == "indexer" || share == "router" || share == "norms, biases";
}

// What a checkpoint has in the place of a format: INT4 is stored in whole groups.
WeightFormat storable(WeightFormat format, int64_t columns) {
  const bool whole_groups = columns % kInt4GroupColumns == 0;
  return format == WeightFormat::kInt4 && !whole_groups ? WeightFormat::kBf16 : format;
}

// The bytes of one tensor of a model in the recipe's format, `columns` 0 for a vector.
using BytesOf = StoredBytes (*)(const ModelConfig& config, WeightRole role, WeightFormat format,
                                int64_t rows, int64_t columns);

StoredBytes in_checkpoint(const ModelConfig&, WeightRole role, WeightFormat format, int64_t rows,
                          int64_t columns) {
  if (role == WeightRole::kEmbedding) format = WeightFormat::kBf16;
  StoredBytes bytes = stored_bytes(storable(format, columns), rows, std::max<int64_t>(columns, 1));
  if (role == WeightRole::kSelectionBias) bytes.codes *= 2;
  return bytes;
}

// kv_b_proj taken apart by head; keys are BF16.
uint64_t latent_bytes(const ModelConfig& config, WeightFormat format) {
  const MlaConfig& mla = config.mla;
  const size_t keys = kernels::packed_bytes(WeightFormat::kBf16, mla.latent, mla.nope);
  return static_cast<uint64_t>(config.heads) *
         (keys + kernels::packed_bytes(format, mla.value, mla.latent));
}

StoredBytes in_memory(const ModelConfig& config, WeightRole role, WeightFormat format, int64_t rows,
                      int64_t columns) {
  if (columns == 0 || role == WeightRole::kRouter) {
    return {static_cast<uint64_t>(4 * rows * std::max<int64_t>(columns, 1)), 0};
  }
  if (role == WeightRole::kKvUp) return {latent_bytes(config, format), 0};
  return {kernels::packed_bytes(format, rows, columns), 0};
}

class Sum {
 public:
  Sum(const ModelConfig& config, const WeightRecipe& recipe, BytesOf bytes_of)
      : config_(config), recipe_(recipe), bytes_of_(bytes_of) {
    for (size_t i = 0; i < kShares.size(); ++i) shares_[i].name = kShares[i];
  }

  void add(std::string_view share, WeightRole role, int64_t rows, int64_t columns) {
    const auto kind = kind_of(role);
    const WeightFormat format = kind ? recipe_.of(*kind) : WeightFormat::kBf16;
    const StoredBytes bytes = bytes_of_(config_, role, format, rows, columns);
    WeightShare& sum = *std::ranges::find(shares_, share, &WeightShare::name);
    sum.elements += static_cast<uint64_t>(rows * std::max<int64_t>(columns, 1));
    sum.bytes.codes += bytes.codes;
    sum.bytes.scales += bytes.scales;
    if (is_replicated(role)) sum.replicated += bytes.codes + bytes.scales;
  }

  WeightSizes take() {
    WeightSizes sizes;
    for (const WeightShare& share : shares_) {
      if (share.elements > 0) sizes.shares.push_back(share);
    }
    return sizes;
  }

 private:
  const ModelConfig& config_;
  const WeightRecipe& recipe_;
  BytesOf bytes_of_;
  std::array<WeightShare, kShares.size()> shares_{};
};

// The tensors of `config`, whose layers from `own_layers` on are for prediction; of a tied pair
// `tied_absent` is none.
void add_tensors(const ModelConfig& config, int32_t own_layers, WeightRole tied_absent, Sum& sum) {
  for (const ExpectedTensor& tensor : expected_tensors(config, CheckpointFormat::kSafetensors)) {
    if (tensor.role == WeightRole::kRopeFactors) continue;
    if (tensor.role == tied_absent && config.tie == TieRule::kTied) continue;
    const bool predicts = tensor.layer >= own_layers;
    sum.add(predicts ? kPrediction : share_of(tensor.role), tensor.role, tensor.rows,
            tensor.columns);
  }
}

// What a layer for prediction has besides a layer's tensors.
void add_prediction_extras(const ModelConfig& config, Sum& sum) {
  sum.add(kPrediction, WeightRole::kFinalNorm, config.hidden, int64_t{2} * config.hidden);
  for (int norm = 0; norm < 3; ++norm) {
    sum.add(kPrediction, WeightRole::kFinalNorm, config.hidden, 0);
  }
  if (config.family == "glm_moe_dsa") return;
  sum.add(kPrediction, WeightRole::kEmbedding, config.vocabulary, config.hidden);
  sum.add(kPrediction, WeightRole::kEmbedding, config.vocabulary, config.hidden);
}

}  // namespace

std::string_view share_of(WeightRole role) {
  switch (role) {
    case WeightRole::kExpertGate:
    case WeightRole::kExpertUp:
    case WeightRole::kExpertDown:
      return kShares[0];
    case WeightRole::kSharedGate:
    case WeightRole::kSharedUp:
    case WeightRole::kSharedDown:
      return kShares[1];
    case WeightRole::kGate:
    case WeightRole::kUp:
    case WeightRole::kDown:
      return kShares[2];
    case WeightRole::kQ:
    case WeightRole::kK:
    case WeightRole::kV:
    case WeightRole::kO:
    case WeightRole::kQDown:
    case WeightRole::kQUp:
    case WeightRole::kKvDown:
    case WeightRole::kKvUp:
      return kShares[3];
    case WeightRole::kIndexQ:
    case WeightRole::kIndexK:
    case WeightRole::kIndexWeights:
      return kShares[4];
    case WeightRole::kHead:
      return kShares[5];
    case WeightRole::kEmbedding:
      return kShares[6];
    case WeightRole::kRouter:
    case WeightRole::kSelectionBias:
      return kShares[7];
    default:
      return kShares[8];
  }
}

std::optional<TensorKind> kind_of(WeightRole role) {
  const std::string_view share = share_of(role);
  if (role == WeightRole::kIndexWeights) return std::nullopt;
  if (share == "routed experts") return TensorKind::kRoutedExperts;
  if (share == "shared experts") return TensorKind::kSharedExperts;
  if (share == "dense MLP") return TensorKind::kDenseMlp;
  if (share == "attention" || share == "indexer") return TensorKind::kAttention;
  if (share == "output head") return TensorKind::kHead;
  if (share == "embedding") return TensorKind::kEmbedding;
  return std::nullopt;
}

WeightFormat stored_format(const WeightRecipe& recipe, TensorKind kind, int64_t columns) {
  return storable(recipe.of(kind), columns);
}

StoredBytes stored_bytes(WeightFormat format, int64_t rows, int64_t columns) {
  switch (format) {
    case WeightFormat::kBf16:
      break;
    case WeightFormat::kFp8:
      return {
          static_cast<uint64_t>(rows * columns),
          static_cast<uint64_t>(4 * groups_of(rows, kFp8Block) * groups_of(columns, kFp8Block))};
    case WeightFormat::kInt4:
      return {static_cast<uint64_t>(rows * columns / 2),
              static_cast<uint64_t>(2 * rows * groups_of(columns, kInt4GroupColumns))};
  }
  return {static_cast<uint64_t>(2 * rows * columns), 0};
}

ModelConfig with_prediction_layers(const ModelConfig& config) {
  ModelConfig all = config;
  all.layers = config.layers + config.prediction_layers;
  const auto layers = static_cast<size_t>(all.layers);
  all.prediction_layers = 0;
  if (config.moe.experts > 0) all.moe.sparse_layers.resize(layers, 1);
  if (config.indexer.heads > 0) all.indexer.full_layers.resize(layers, 1);
  return all;
}

uint64_t WeightSizes::elements() const {
  uint64_t sum = 0;
  for (const WeightShare& share : shares) sum += share.elements;
  return sum;
}

uint64_t WeightSizes::bytes() const {
  uint64_t sum = 0;
  for (const WeightShare& share : shares) sum += share.total();
  return sum;
}

uint64_t WeightSizes::even_bytes(int32_t ranks) const {
  const auto count = static_cast<uint64_t>(ranks);
  return (bytes() + count - 1) / count;
}

uint64_t WeightSizes::serving_bytes(int32_t ranks) const {
  const auto count = static_cast<uint64_t>(ranks);
  uint64_t whole = 0;
  uint64_t divided = 0;
  for (const WeightShare& share : shares) {
    if (share.name == kPrediction) continue;
    whole += share.replicated;
    divided += share.total() - share.replicated;
  }
  return whole + (divided + count - 1) / count;
}

const WeightShare* WeightSizes::find(std::string_view name) const {
  const auto found = std::ranges::find(shares, name, &WeightShare::name);
  return found == shares.end() ? nullptr : &*found;
}

WeightSizes sizes_of(const ModelConfig& config, const WeightRecipe& recipe) {
  Sum sum(config, recipe, in_checkpoint);
  add_tensors(with_prediction_layers(config), config.layers, WeightRole::kHead, sum);
  for (int32_t layer = 0; layer < config.prediction_layers; ++layer) {
    add_prediction_extras(config, sum);
  }
  return sum.take();
}

WeightSizes packed_sizes_of(const ModelConfig& config, const WeightRecipe& recipe) {
  Sum sum(config, recipe, in_memory);
  // A tied table is the head's.
  add_tensors(config, config.layers, WeightRole::kEmbedding, sum);
  return sum.take();
}

}  // namespace bulkhead::model
