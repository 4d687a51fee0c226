// Chooses the next token of one sequence from its logits.
//
// Order: what the request's constraint forbids is out; logit_bias; repetition, then frequency and
// presence penalties; stop ids masked before min_tokens; temperature; top_k; top_p on what top_k
// left; min_p. At temperature 0 the greatest logit after the penalties wins. Log-probabilities are
// of the raw logits.
//
// Under a constraint stop ids that are control tokens may be chosen exactly when it is complete;
// when it is and nothing else is left, they may be before min_tokens too.
//
// Threads: one thread at a time. Invariants: the choice is a function of the logits and the
// sequence alone; the random number is a function of (seed, number of tokens generated), so
// neighbours, batches and chunks have no influence; of equal logits the lowest id wins; a row with
// a NaN or an infinity is an error of that sequence, never a guess, and so is a constraint that
// leaves no token. Nothing is allocated, except the list of top log-probabilities where the request
// asks for one, and by a constraint's own state.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sampling/candidates.h"
#include "wire/generate.h"
#include "wire/sequence_state.h"

namespace bulkhead::sampling {

// The `field` of the error that says that logits are no numbers.
inline constexpr std::string_view kNotFinite = "not_finite";

class Sampler {
 public:
  explicit Sampler(int32_t vocabulary_size);

  // `logits` is [vocabulary_size]. Every token id of the sequence is inside the vocabulary. The
  // state of its constraint takes in the tokens generated since it was looked at last.
  base::Result<wire::TokenEvent> sample(std::span<const float> logits,
                                        const wire::SequenceState& sequence);

  // The log-probability that the row gives to `token`, and the `top` most probable tokens.
  base::Result<wire::TokenEvent> score(std::span<const float> logits, wire::TokenId token,
                                       int32_t top) const;

 private:
  // Fills `allowed_` for the next token.
  base::Status constrain(const wire::SequenceState& sequence);
  bool any_allowed_but(std::span<const wire::TokenId> ids);
  // The logits after bias, masks and penalties: the row itself where there are none.
  std::span<const float> adjust(std::span<const float> logits, const wire::SequenceState& sequence);
  void penalize(const wire::SequenceState& sequence);
  wire::TokenId draw(std::span<const float> row, float greatest,
                     const wire::SequenceState& sequence);
  float candidate_floor(const wire::SamplingParams& params, bool by_count, bool by_share) const;
  double total_mass() const;
  wire::TokenId draw_from_all(double unit) const;

  const size_t vocabulary_size_;
  std::vector<float> adjusted_;       // [vocabulary_size]
  std::vector<float> exponents_;      // [vocabulary_size]
  std::vector<float> weights_;        // [vocabulary_size]
  std::vector<double> block_masses_;  // [ceil(vocabulary_size / kWeighBlock)]
  std::vector<int32_t> counts_;       // [vocabulary_size], zero between calls
  std::vector<uint32_t> allowed_;     // bits by token id; only under a constraint
  bool stops_masked_ = false;         // before min_tokens
  Candidates candidates_;
};

}  // namespace bulkhead::sampling
