#include "sampling/sampler.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/rng.h"
#include "sampling/exp.h"
#include "sampling/scan.h"

namespace bulkhead::sampling {
namespace {

using wire::SamplingParams;
using wire::SequenceState;
using wire::TokenId;

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr uint64_t kStream = 0x73616d706c65;  // "sample": apart from other uses of a request's seed

// Penalties of extreme strength stay finite, so that differences of logits are never NaN.
float bounded(float value) {
  constexpr float kMax = std::numeric_limits<float>::max() / 4;
  return std::clamp(value, -kMax, kMax);
}

bool has_penalties(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.frequency_penalty != 0.0f ||
         params.presence_penalty != 0.0f;
}

bool before_min_tokens(const SequenceState& sequence) {
  return static_cast<int64_t>(sequence.generated().size()) < sequence.min_tokens &&
         !sequence.stop_ids.empty();
}

constexpr const char* kNotFiniteMessage =
    "the model produced a value that is not a number; the request may be retried";

base::Error failed(const char* what) { return {base::ErrorCode::kInternal, what, {}}; }

base::Error not_finite() {
  return {base::ErrorCode::kInternal, kNotFiniteMessage, std::string(kNotFinite)};
}

void add_logprobs(std::span<const float> logits, float greatest, int32_t count,
                  wire::TokenEvent& event) {
  const double log_total = log_sum_exp(logits, greatest);
  const auto logprob = [log_total](float logit) {
    return static_cast<float>(static_cast<double>(logit) - log_total);
  };
  event.logprob = logprob(logits[static_cast<size_t>(event.token)]);
  if (count == 0) return;
  event.top_logprobs.resize(std::min(static_cast<size_t>(count), logits.size()));
  find_top(logits, event.top_logprobs);
  for (wire::TokenLogprob& top : event.top_logprobs) top.logprob = logprob(top.logprob);
}

}  // namespace

Sampler::Sampler(int32_t vocabulary_size)
    : vocabulary_size_(static_cast<size_t>(vocabulary_size)),
      adjusted_(vocabulary_size_),
      exponents_(vocabulary_size_),
      weights_(vocabulary_size_),
      block_masses_((vocabulary_size_ + kWeighBlock - 1) / kWeighBlock),
      counts_(vocabulary_size_, 0),
      allowed_(wire::mask_words(vocabulary_size_)),
      candidates_(vocabulary_size_) {
  BH_CHECK(vocabulary_size > 0, "a vocabulary");
}

base::Result<wire::TokenEvent> Sampler::score(std::span<const float> logits, TokenId token,
                                              int32_t top) const {
  BH_CHECK(logits.size() == vocabulary_size_, "a row of the vocabulary's width");
  const Greatest raw = find_greatest(logits);
  if (!raw.finite) return not_finite();
  wire::TokenEvent event;
  event.token = token;
  add_logprobs(logits, raw.value, top, event);
  return event;
}

base::Result<wire::TokenEvent> Sampler::sample(std::span<const float> logits,
                                               const SequenceState& sequence) {
  BH_CHECK(logits.size() == vocabulary_size_, "a row of the vocabulary's width");
  const Greatest raw = find_greatest(logits);
  if (!raw.finite) return not_finite();
  stops_masked_ = before_min_tokens(sequence);
  if (sequence.constraint) BH_TRY(constrain(sequence));
  const std::span<const float> row = adjust(logits, sequence);
  const Greatest best = row.data() == logits.data() ? raw : find_greatest(row);
  if (best.index < 0) {
    return failed(sequence.constraint ? "the required format leaves no token to go on with"
                                      : "every token is excluded by min_tokens");
  }

  wire::TokenEvent event;
  event.id = sequence.id;
  event.token =
      sequence.sampling.temperature == 0.0f ? best.index : draw(row, best.value, sequence);
  if (sequence.sampling.top_logprobs >= 0) {
    add_logprobs(logits, raw.value, sequence.sampling.top_logprobs, event);
  }
  return event;
}

base::Status Sampler::constrain(const SequenceState& sequence) {
  wire::ConstraintState& state = *sequence.constraint;
  const auto generated = sequence.generated();
  for (size_t i = state.accepted(); i < generated.size(); ++i) {
    if (!state.accept(generated[i])) return failed("the answer left the required format");
  }
  state.fill_mask(allowed_);
  if (!state.can_stop()) return {};
  // An answer that is complete ends, whatever min_tokens says.
  stops_masked_ = stops_masked_ && any_allowed_but(sequence.stop_ids);
  for (const TokenId id : sequence.stop_ids) {
    const auto at = static_cast<size_t>(id);
    if (id >= 0 && at < vocabulary_size_) allowed_[at / 32] |= 1u << (at % 32);
  }
  return {};
}

// Clears the bits of `ids` on the way.
bool Sampler::any_allowed_but(std::span<const TokenId> ids) {
  for (const TokenId id : ids) {
    const auto at = static_cast<size_t>(id);
    if (id >= 0 && at < vocabulary_size_) allowed_[at / 32] &= ~(1u << (at % 32));
  }
  return std::any_of(allowed_.begin(), allowed_.end(), [](uint32_t word) { return word != 0; });
}

std::span<const float> Sampler::adjust(std::span<const float> logits,
                                       const SequenceState& sequence) {
  const SamplingParams& params = sequence.sampling;
  const bool constrained = sequence.constraint != nullptr;
  const bool penalties = has_penalties(params);
  if (params.logit_bias.empty() && !stops_masked_ && !penalties && !constrained) return logits;
  std::copy(logits.begin(), logits.end(), adjusted_.begin());
  for (const auto& [id, bias] : params.logit_bias) {
    float& value = adjusted_[static_cast<size_t>(id)];
    value = bounded(value + bias);
  }
  if (penalties) penalize(sequence);
  if (stops_masked_) {
    for (const TokenId id : sequence.stop_ids) {
      if (id >= 0 && static_cast<size_t>(id) < vocabulary_size_) {
        adjusted_[static_cast<size_t>(id)] = kMasked;
      }
    }
  }
  // Last, so that no other step makes an excluded token's value finite again.
  if (constrained) {
    for (size_t i = 0; i < vocabulary_size_; ++i) {
      if ((allowed_[i / 32] >> (i % 32) & 1u) == 0) adjusted_[i] = kMasked;
    }
  }
  return adjusted_;
}

void Sampler::penalize(const SequenceState& sequence) {
  const SamplingParams& params = sequence.sampling;
  if (params.repetition_penalty != 1.0f) {
    for (const TokenId id : sequence.tokens) {
      if (counts_[static_cast<size_t>(id)]++ > 0) continue;
      float& value = adjusted_[static_cast<size_t>(id)];
      value = bounded(value > 0.0f ? value / params.repetition_penalty
                                   : value * params.repetition_penalty);
    }
    for (const TokenId id : sequence.tokens) counts_[static_cast<size_t>(id)] = 0;
  }
  if (params.frequency_penalty == 0.0f && params.presence_penalty == 0.0f) return;
  const auto generated = sequence.generated();
  for (const TokenId id : generated) ++counts_[static_cast<size_t>(id)];
  for (const TokenId id : generated) {
    int32_t& count = counts_[static_cast<size_t>(id)];
    if (count == 0) continue;  // its penalty is applied already
    float& value = adjusted_[static_cast<size_t>(id)];
    value = bounded(value - params.frequency_penalty * static_cast<float>(count) -
                    params.presence_penalty);
    count = 0;
  }
}

TokenId Sampler::draw(std::span<const float> row, float greatest, const SequenceState& sequence) {
  const SamplingParams& params = sequence.sampling;
  const double unit = base::random_unit(params.seed, kStream, sequence.generated().size());
  weigh(row, greatest, params.temperature, exponents_, weights_, block_masses_);
  const bool by_count = params.top_k > 0 && static_cast<size_t>(params.top_k) < vocabulary_size_;
  const bool by_share = params.top_p < 1.0f;
  const bool by_floor = params.min_p > 0.0f;
  if (!by_count && !by_share && !by_floor) return draw_from_all(unit);
  candidates_.assign(exponents_, weights_, candidate_floor(params, by_count, by_share));
  if (by_count) candidates_.keep_count(static_cast<size_t>(params.top_k));
  if (by_share) {
    const double total = by_count ? candidates_.mass() : total_mass();
    candidates_.keep_mass(static_cast<double>(params.top_p) * total);
  }
  if (by_floor) candidates_.keep_above(params.min_p);
  return candidates_.draw(unit);
}

// The highest exponent below which no token can survive the filters: few tokens of a real
// distribution are near the greatest, and only those are worth listing.
float Sampler::candidate_floor(const SamplingParams& params, bool by_count, bool by_share) const {
  constexpr float kFloors[] = {-6.0f, -12.0f, -24.0f};
  constexpr double kMargin = 1.0 + 1e-4;  // over the rounding of sums in different order
  for (const float floor : kFloors) {
    const Above above = measure_above(exponents_, weights_, floor);
    if (by_count && above.count < static_cast<size_t>(params.top_k)) continue;
    if (!by_count && by_share &&
        above.mass < static_cast<double>(params.top_p) * total_mass() * kMargin) {
      continue;
    }
    if (!by_count && !by_share && exp_nonpositive(floor) >= params.min_p) continue;
    return floor;
  }
  return kMasked;
}

double Sampler::total_mass() const {
  double total = 0.0;
  for (const double mass : block_masses_) total += mass;
  return total;
}

TokenId Sampler::draw_from_all(double unit) const {
  const double target = unit * total_mass();
  double mass = 0.0;
  size_t block = block_masses_.size();  // the last one with weight, should rounding pass the end
  for (size_t i = 0; i < block_masses_.size(); ++i) {
    if (block_masses_[i] == 0.0) continue;
    block = i;
    if (target < mass + block_masses_[i]) break;
    mass += block_masses_[i];
  }
  BH_CHECK(block < block_masses_.size(), "the greatest logit has weight 1");
  const size_t end = std::min((block + 1) * kWeighBlock, vocabulary_size_);
  size_t chosen = end;
  for (size_t id = block * kWeighBlock; id < end; ++id) {
    if (weights_[id] == 0.0f) continue;
    chosen = id;
    mass += static_cast<double>(weights_[id]);
    if (target < mass) break;
  }
  return static_cast<TokenId>(chosen);
}

}  // namespace bulkhead::sampling
