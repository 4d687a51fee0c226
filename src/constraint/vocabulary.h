// The tokens that a constraint chooses from.
//
// Threads: plain value. Invariant: `tokens` has at most `width` entries; an id of no token, a
// control token and an end token never stand for text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/types.h"

namespace bulkhead::constraint {

struct Vocabulary {
  int32_t width = 0;                   // of a row of logits
  std::vector<std::string> tokens;     // the bytes of each id; empty: no token
  std::vector<bool> control;           // [tokens.size()]: an added token, spelled by `tokens`
  std::vector<wire::TokenId> end_ids;  // end the model's answer: never part of one

  const std::string& bytes(wire::TokenId id) const {
    static const std::string kNone;
    return id >= 0 && static_cast<size_t>(id) < tokens.size() ? tokens[static_cast<size_t>(id)]
                                                              : kNone;
  }
};

}  // namespace bulkhead::constraint
