#include "engine/testing/checking_decoder.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace bulkhead::engine::testing {
namespace {

constexpr uint64_t kChainStart = 0x6b7673746172;

struct SlotRecord {
  uint64_t chain;  // of the tokens up to and including this one
  int32_t token;
  int32_t position;
};

uint64_t extend(uint64_t chain, TokenId token, int32_t position) {
  return base::random_bits(chain, static_cast<uint64_t>(token), static_cast<uint64_t>(position));
}

std::byte* slot_of(const kv::CacheView& cache, std::span<const kv::PageId> pages,
                   int32_t position) {
  const auto index = static_cast<size_t>(position / cache.layout.page_tokens);
  const auto slot = static_cast<size_t>(position % cache.layout.page_tokens);
  BH_CHECK(index < pages.size(), "pages cover every position");
  BH_CHECK(pages[index] >= 0 && pages[index] < cache.pages, "a page of the pool");
  const auto slot_bytes = cache.layout.page_bytes() / static_cast<size_t>(cache.layout.page_tokens);
  BH_CHECK(slot_bytes >= sizeof(SlotRecord), "a slot holds its record");
  return cache.arena + static_cast<size_t>(pages[index]) * cache.layout.page_bytes() +
         slot * slot_bytes;
}

SlotRecord read_slot(const kv::CacheView& cache, std::span<const kv::PageId> pages,
                     int32_t position) {
  SlotRecord record;
  std::memcpy(&record, slot_of(cache, pages, position), sizeof record);
  return record;
}

void fill_row(uint64_t chain, std::span<float> row) {
  for (size_t id = 0; id < row.size(); ++id) {
    row[id] = static_cast<float>(base::random_unit(chain, 1, id) * 8.0 - 4.0);
  }
}

}  // namespace

CheckingDecoder::CheckingDecoder(model::ModelFacts facts, model::StepLimits limits)
    : facts_(std::move(facts)), limits_(limits) {}

void CheckingDecoder::forward(std::span<const model::SequenceSlice> slices,
                              const kv::CacheView& cache, std::span<float> logits) {
  const auto width = static_cast<size_t>(facts_.vocabulary_size);
  // Writes first, as a model's layers do: a page shared by mistake shows in both owners.
  for (const model::SequenceSlice& slice : slices) {
    int32_t position = slice.position;
    uint64_t chain = kChainStart;
    if (position > 0) chain = read_slot(cache, slice.pages, position - 1).chain;
    for (const TokenId token : slice.tokens) {
      chain = extend(chain, token, position);
      const SlotRecord record{chain, token, position};
      std::memcpy(slot_of(cache, slice.pages, position++), &record, sizeof record);
    }
  }
  size_t row = 0;
  for (const model::SequenceSlice& slice : slices) {
    const int32_t end = slice.position + static_cast<int32_t>(slice.tokens.size());
    uint64_t chain = kChainStart;
    for (int32_t position = 0; position < end; ++position) {
      const SlotRecord record = read_slot(cache, slice.pages, position);
      chain = extend(chain, record.token, record.position);
      if (record.position != position || record.chain != chain) faults_.fetch_add(1);
      const bool wanted = slice.logits == model::LogitsFor::kAll
                              ? position >= slice.position
                              : slice.logits == model::LogitsFor::kLast && position == end - 1;
      if (!wanted) continue;
      const auto out = logits.subspan(row++ * width, width);
      if (poison_token_ >= 0 && record.token == poison_token_) {
        std::fill(out.begin(), out.end(), std::numeric_limits<float>::quiet_NaN());
      } else {
        fill_row(chain, out);
      }
    }
  }
}

void CheckingDecoder::expected_logits(std::span<const TokenId> tokens, std::span<float> row) {
  uint64_t chain = kChainStart;
  int32_t position = 0;
  for (const TokenId token : tokens) chain = extend(chain, token, position++);
  fill_row(chain, row);
}

std::vector<TokenId> CheckingDecoder::expected_answer(std::vector<TokenId> prompt, int32_t tokens,
                                                      int32_t vocabulary) {
  std::vector<TokenId> answer;
  std::vector<float> row(static_cast<size_t>(vocabulary));
  while (static_cast<int32_t>(answer.size()) < tokens) {
    expected_logits(prompt, row);
    const auto next = static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
    answer.push_back(next);
    prompt.push_back(next);
  }
  return answer;
}

}  // namespace bulkhead::engine::testing
