#include "model/model_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace bulkhead::model {

std::string_view to_string(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone:
      return "none";
    case RopeScaling::kLinear:
      return "linear";
    case RopeScaling::kLlama3:
      return "llama3";
    case RopeScaling::kYarn:
      return "yarn";
  }
  return "?";
}

namespace {

// Long waves are divided by the factor, short ones kept, those between blended.
double scale_llama3(const RopeConfig& rope, double inverse) {
  const double wavelength = 2.0 * std::numbers::pi / inverse;
  const auto original = static_cast<double>(rope.original_context);
  if (wavelength < original / rope.high_freq_factor) return inverse;
  if (wavelength > original / rope.low_freq_factor) return inverse / rope.factor;
  const double smooth = (original / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - smooth) * inverse / rope.factor + smooth * inverse;
}

struct YarnRamp {
  double low;
  double high;
};

// The dimensions between which interpolation takes over from extrapolation.
YarnRamp yarn_ramp(const RopeConfig& rope, int32_t head_dim) {
  const auto dimension = [&](double rotations) {
    return static_cast<double>(head_dim) *
           std::log(static_cast<double>(rope.original_context) /
                    (rotations * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(rope.theta));
  };
  double low = dimension(rope.beta_fast);
  double high = dimension(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;
  return {low, high};
}

}  // namespace

kv::PageLayout cache_layout(const ModelConfig& config, int32_t page_tokens, kv::PageFormat format) {
  kv::PageLayout layout;
  layout.format = format;
  layout.page_tokens = page_tokens;
  layout.layers = config.layers;
  layout.kv_heads = config.kv_heads;
  layout.head_dim = config.head_dim;
  layout.latent_dim = config.mla.latent;
  if (config.indexer.heads > 0) {
    layout.index_dim = config.indexer.head_dim;
    layout.index_layers =
        static_cast<int32_t>(std::ranges::count(config.indexer.full_layers, uint8_t{1}));
  }
  return layout;
}

std::vector<float> inverse_frequencies(const RopeConfig& rope, int32_t rotary_dim) {
  const YarnRamp ramp =
      rope.scaling == RopeScaling::kYarn ? yarn_ramp(rope, rotary_dim) : YarnRamp{0.0, 1.0};
  std::vector<float> result;
  for (int32_t j = 0; j < rotary_dim / 2; ++j) {
    // The exponent and the power are FP32 values in the reference; a double power rounded once is
    // what they are rounded from.
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(rotary_dim);
    const auto power = static_cast<float>(std::pow(rope.theta, static_cast<double>(exponent)));
    double inverse = static_cast<double>(1.0f / power);
    if (rope.scaling == RopeScaling::kLinear) inverse /= rope.factor;
    if (rope.scaling == RopeScaling::kLlama3) inverse = scale_llama3(rope, inverse);
    if (rope.scaling == RopeScaling::kYarn) {
      const double blend = std::clamp((j - ramp.low) / (ramp.high - ramp.low), 0.0, 1.0);
      inverse = inverse / rope.factor * blend + inverse * (1.0 - blend);
    }
    result.push_back(static_cast<float>(inverse));
  }
  return result;
}

}  // namespace bulkhead::model
