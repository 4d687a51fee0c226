#include "bench/steps.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "base/rng.h"

namespace bulkhead::bench {

std::vector<model::TokenId> tokens_of(int32_t sequence, int32_t count, int32_t vocabulary) {
  std::vector<model::TokenId> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t bits = base::random_bits(11, static_cast<uint64_t>(sequence), i);
    out[i] = static_cast<model::TokenId>(bits % static_cast<uint64_t>(vocabulary));
  }
  return out;
}

base::Result<FilledCache> FilledCache::create(model::Decoder& decoder, const kv::PageLayout& layout,
                                              int32_t sequences, int32_t context) {
  FilledCache out;
  out.sequences_ = sequences;
  out.context_ = context;
  out.pages_of_one_ = context / layout.page_tokens + 1;
  out.view_.layout = layout;
  out.view_.pages = sequences * out.pages_of_one_;
  BH_ASSIGN(out.memory_,
            device::Buffer::allocate(layout.page_bytes() * static_cast<size_t>(out.view_.pages)));
  out.view_.arena = out.memory_.data();
  out.pages_.resize(static_cast<size_t>(out.view_.pages));
  for (int32_t page = 0; page < out.view_.pages; ++page) {
    out.pages_[static_cast<size_t>(page)] = page;
  }
  const auto tokens = tokens_of(0, context, decoder.facts().vocabulary_size);
  const int32_t chunk = decoder.limits().rows_max;
  for (int32_t at = 0; at < context; at += chunk) {
    const int32_t count = std::min(chunk, context - at);
    const model::SequenceSlice slice = {
        std::span(tokens).subspan(static_cast<size_t>(at), static_cast<size_t>(count)), at,
        out.pages(0), model::LogitsFor::kNone};
    decoder.forward({&slice, 1}, out.view_, {});
  }
  const size_t bytes = layout.page_bytes() * static_cast<size_t>(out.pages_of_one_);
  for (int32_t sequence = 1; sequence < sequences; ++sequence) {
    std::memcpy(out.memory_.data() + bytes * static_cast<size_t>(sequence), out.memory_.data(),
                bytes);
  }
  return out;
}

std::span<const kv::PageId> FilledCache::pages(int32_t sequence) const {
  return std::span(pages_).subspan(static_cast<size_t>(sequence * pages_of_one_),
                                   static_cast<size_t>(pages_of_one_));
}

void Step::add(const FilledCache& cache, int32_t sequence, int32_t position, int32_t count) {
  // The tokens behind the prompt of the cache, another draw for every sequence.
  rows_.push_back(tokens_of(sequence + 1, count, decoder_.facts().vocabulary_size));
  slices_.push_back({rows_.back(), position, cache.pages(sequence), model::LogitsFor::kLast});
  tokens_ += count;
}

Step Step::decode(model::Decoder& decoder, const FilledCache& cache, int32_t sequences) {
  BH_CHECK(sequences <= cache.sequences(), "sequences that the cache has");
  Step step(decoder, cache.view());
  for (int32_t s = 0; s < sequences; ++s) step.add(cache, s, cache.context(), 1);
  return step;
}

Step Step::prompt(model::Decoder& decoder, const FilledCache& cache, int32_t tokens,
                  int32_t context) {
  BH_CHECK(context + tokens <= cache.context() + 1, "tokens that the cache has room for");
  Step step(decoder, cache.view());
  step.add(cache, 0, context, tokens);
  return step;
}

void Step::run() {
  // The first run makes the room.
  logits_.resize(slices_.size() * static_cast<size_t>(decoder_.facts().vocabulary_size));
  decoder_.forward(slices_, view_, logits_);
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<std::vector<double>> time_in_turn(int rounds,
                                              const std::vector<std::function<void()>>& things) {
  for (const auto& thing : things) thing();  // first touches are nobody's time
  const auto count = static_cast<int>(things.size());
  std::vector<std::vector<double>> out(things.size());
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < count; ++i) {
      // There and back, and from another one next time.
      const int turn = round % 2 == 0 ? i : count - 1 - i;
      const auto thing = static_cast<size_t>((turn + round / 2) % count);
      out[thing].push_back(seconds_of(things[thing]));
    }
  }
  return out;
}

}  // namespace bulkhead::bench
