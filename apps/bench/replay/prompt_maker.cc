#include "apps/bench/replay/prompt_maker.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"

namespace bulkhead::apps {
namespace {

// What keeps draws for different things apart: mixed into the seed.
constexpr uint64_t kDigits = 0x646967697473;
constexpr uint64_t kBlocks = 0x626c6f636b73;
constexpr uint64_t kRows = 0x726f7773;
constexpr uint64_t kWarmups = 0x7761726d;

uint64_t seed_of(uint64_t seed, uint64_t domain) { return base::mix64(seed) ^ domain; }

}  // namespace

PromptMaker::PromptMaker(uint64_t seed, TokenRange range, int64_t trace_block_tokens,
                         double length_scale)
    : seed_(seed),
      range_(range),
      trace_block_tokens_(trace_block_tokens),
      length_scale_(length_scale) {
  if (trace_block_tokens_ > 0) block_tokens_ = scaled(trace_block_tokens_);
}

int64_t PromptMaker::scaled(int64_t tokens) const {
  return std::max<int64_t>(1, std::llround(static_cast<double>(tokens) / length_scale_));
}

int64_t PromptMaker::input_tokens(const TraceRow& row) const {
  if (row.blocks.empty()) return scaled(row.input_tokens);
  const auto whole = static_cast<int64_t>(row.blocks.size()) - 1;
  const int64_t rest = row.input_tokens - whole * trace_block_tokens_;
  return whole * block_tokens_ + std::min(scaled(rest), block_tokens_);
}

int64_t PromptMaker::output_tokens(const TraceRow& row) const { return scaled(row.output_tokens); }

PromptTokens PromptMaker::prompt(const TraceRow& row) const {
  const int64_t tokens = input_tokens(row);
  PromptTokens prompt;
  prompt.reserve(static_cast<size_t>(tokens));
  for (const int64_t name : row.blocks) {
    const int64_t left = tokens - static_cast<int64_t>(prompt.size());
    append_block(static_cast<uint64_t>(name), std::min(block_tokens_, left), prompt);
  }
  if (row.blocks.empty()) append_random(kRows, row.line, tokens, prompt);
  return prompt;
}

PromptTokens PromptMaker::warmup(uint64_t number, int64_t tokens) const {
  PromptTokens prompt;
  append_random(kWarmups, number, tokens, prompt);
  return prompt;
}

// The name's digits, lowest first, in the base of the vocabulary, each moved round by what was
// drawn for the digits below it: they can be read back, so no two names give the same tokens, and
// yet look like all others. What follows once they are all told is drawn.
void PromptMaker::append_block(uint64_t name, int64_t tokens, PromptTokens& prompt) const {
  const uint64_t span = range_.span;
  uint64_t below = 0;
  uint64_t place = 1;
  int64_t told = 0;
  while (told < tokens && span > 1) {
    const uint64_t digit = name / place % span;
    prompt.push_back(token(
        digit +
        base::random_bits(seed_of(seed_, kDigits), below, static_cast<uint64_t>(told)) % span));
    ++told;
    below += digit * place;
    if (place > std::numeric_limits<uint64_t>::max() / span) break;
    place *= span;
  }
  append_random(kBlocks, name, tokens - told, prompt);
}

void PromptMaker::append_random(uint64_t domain, uint64_t stream, int64_t tokens,
                                PromptTokens& prompt) const {
  base::Rng random(seed_of(seed_, domain), stream);
  for (int64_t i = 0; i < tokens; ++i) prompt.push_back(token(random.bits()));
}

}  // namespace bulkhead::apps
