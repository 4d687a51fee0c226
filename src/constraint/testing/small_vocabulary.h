// A vocabulary for tests, small and awkward: every byte, some longer tokens that cross the borders
// of JSON's grammar, control tokens, an id without a token and a width beyond them all.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>

#include "base/rng.h"
#include "constraint/vocabulary.h"
#include "wire/constraint.h"

namespace bulkhead::constraint::testing {

inline constexpr wire::TokenId kEndToken = 256;    // <|end|>
inline constexpr wire::TokenId kCallToken = 257;   // <|call|>
inline constexpr wire::TokenId kThinkToken = 258;  // </think>

inline constexpr wire::TokenId kKeyToken = 282;  // <arg_key>, then </arg_key>, <arg_value>, ...

inline Vocabulary small_vocabulary() {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  }
  for (const char* token :
       {"<|end|>", "<|call|>", "</think>",  "",           "{\"",         "\": ",
        "\", \"",  "\"}",      "[]",        "{}",         "true",        "null",
        "12",      " \n",      ", ",        "\"a\":",     "ab",          "name",
        "]]",      "}}",       "\xC3\xA9",  "\xF0\x9F",   "\\n",         "\\u00",
        "k>x",     "0.5",      "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"}) {
    vocabulary.tokens.emplace_back(token);
  }
  vocabulary.width = static_cast<int32_t>(vocabulary.tokens.size()) + 5;
  vocabulary.control.resize(vocabulary.tokens.size());
  for (size_t id = kEndToken; id <= kThinkToken; ++id) vocabulary.control[id] = true;
  for (size_t id = kKeyToken; id < vocabulary.tokens.size(); ++id) vocabulary.control[id] = true;
  vocabulary.end_ids = {kEndToken};
  return vocabulary;
}

inline bool is_set(std::span<const uint32_t> mask, wire::TokenId id) {
  return (mask[static_cast<size_t>(id) / 32] >> (static_cast<size_t>(id) % 32) & 1u) != 0;
}

struct Walk {
  std::string text;
  std::vector<wire::TokenId> tokens;
  bool complete = false;  // ended by its own choice
  bool stuck = false;     // no token and no end was allowed
};

// Chooses at random among what the constraint allows, and ends where it may, sooner with `hurry` in
// (0, 1].
inline Walk random_walk(wire::ConstraintState& state, const Vocabulary& vocabulary, uint64_t seed,
                        size_t tokens_max, double hurry) {
  base::Rng rng(seed);
  Walk walk;
  std::vector<uint32_t> mask(wire::mask_words(static_cast<size_t>(vocabulary.width)));
  while (walk.tokens.size() < tokens_max) {
    state.fill_mask(mask);
    std::vector<wire::TokenId> allowed;
    for (wire::TokenId id = 0; id < vocabulary.width; ++id) {
      if (is_set(mask, id)) allowed.push_back(id);
    }
    const bool may_stop = state.can_stop();
    if (may_stop && (allowed.empty() || rng.unit() < hurry)) {
      walk.complete = true;
      return walk;
    }
    if (allowed.empty()) {
      walk.stuck = true;
      return walk;
    }
    // What closes something is taken more often, or few answers would end.
    wire::TokenId token = allowed[rng.below(allowed.size())];
    for (const wire::TokenId id : allowed) {
      const std::string& bytes = vocabulary.bytes(id);
      if (bytes.size() != 1 || std::string_view("\"}],:").find(bytes[0]) == std::string::npos) {
        continue;
      }
      if (rng.unit() < 0.3) token = id;
    }
    if (!state.accept(token)) {
      walk.stuck = true;
      return walk;
    }
    walk.tokens.push_back(token);
    walk.text += vocabulary.bytes(token);
  }
  return walk;
}

}  // namespace bulkhead::constraint::testing
