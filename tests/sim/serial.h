// The request alone: what a client has to see, from the tokens of its prompt and nothing else.
//
// Threads: one. Invariant: no cache, no batch, no scheduler takes part.
#pragma once

#include <vector>

#include "sampling/sampler.h"
#include "sim/oracle_decoder.h"
#include "wire/generate.h"

namespace bulkhead::sim {

struct SerialAnswer {
  std::vector<wire::TokenEvent> scores;  // of the prompt, from its second token on
  std::vector<wire::TokenEvent> tokens;
  wire::FinishReason reason = wire::FinishReason::kLength;
};

class SerialOracle {
 public:
  SerialOracle() : sampler_(kVocabulary) {}
  SerialAnswer answer(const wire::GenerateRequest& request);

 private:
  sampling::Sampler sampler_;
};

// Bit for bit, but for the request's number.
bool same(const wire::TokenEvent& a, const wire::TokenEvent& b);

}  // namespace bulkhead::sim
