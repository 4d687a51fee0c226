#include "sim/oracle_decoder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/rng.h"

namespace bulkhead::sim {
namespace {

// What a slot holds in one layer.
struct Record {
  uint64_t chain = 0;  // of the tokens up to and including this one, and the layer
  TokenId token = 0;
  int32_t position = 0;
  std::array<uint64_t, 6> rest{};  // so that no byte of a page is without meaning
};
static_assert(sizeof(Record) == 64);

std::array<uint64_t, 6> rest_of(uint64_t chain) {
  std::array<uint64_t, 6> out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = chain * (2 * i + 3);
  return out;
}

uint64_t extend(uint64_t chain, TokenId token, int32_t position) {
  const auto place = static_cast<uint64_t>(static_cast<uint32_t>(position));
  return base::mix64(chain ^ (place << 32) ^ static_cast<uint32_t>(token));
}

uint64_t in_layer(uint64_t chain, int32_t layer) {
  return chain + static_cast<uint64_t>(layer) * 0x9e3779b97f4a7c15ULL;
}

std::byte* slot_of(const kv::CacheView& cache, std::span<const kv::PageId> pages, int32_t position,
                   int32_t layer) {
  const auto index = static_cast<size_t>(position / cache.layout.page_tokens);
  if (index >= pages.size() || pages[index] < 0 || pages[index] >= cache.pages) return nullptr;
  return cache.arena + static_cast<size_t>(pages[index]) * cache.layout.page_bytes() +
         static_cast<size_t>(layer) * cache.layout.layer_bytes() +
         static_cast<size_t>(position % cache.layout.page_tokens) * sizeof(Record);
}

void fill_row(uint64_t chain, std::span<float> row) {
  for (size_t id = 0; id < row.size(); id += 4) {
    const uint64_t bits = base::mix64(chain ^ (id << 56));
    for (size_t lane = 0; lane < 4; ++lane) {
      row[id + lane] = static_cast<float>((bits >> (16 * lane)) & 0xffff) * (8.0f / 65536.0f) - 4;
    }
  }
  row[static_cast<size_t>(kWrongRead)] = -1000.0f;
}

void fill_wrong(std::span<float> row) {
  std::fill(row.begin(), row.end(), -1000.0f);
  row[static_cast<size_t>(kWrongRead)] = 1000.0f;
}

// Reads one sequence back, position by position.
class Reader {
 public:
  Reader(const kv::CacheView& cache, std::span<const kv::PageId> pages)
      : cache_(cache), pages_(pages) {}

  void read(int32_t position) {
    for (int32_t layer = 0; layer < cache_.layout.layers; ++layer) {
      const std::byte* slot = slot_of(cache_, pages_, position, layer);
      Record record;
      if (slot != nullptr) std::memcpy(&record, slot, sizeof record);
      if (layer == 0) chain_ = extend(chain_, record.token, record.position);
      wrong_ |= slot == nullptr || record.position != position ||
                record.chain != in_layer(chain_, layer) || record.token < 0 ||
                record.rest != rest_of(record.chain) || (layer > 0 && record.token != token_);
      token_ = record.token;
    }
  }
  uint64_t chain() const { return chain_; }
  bool wrong() const { return wrong_; }
  TokenId token() const { return token_; }

 private:
  const kv::CacheView& cache_;
  std::span<const kv::PageId> pages_;
  uint64_t chain_ = 0;
  TokenId token_ = 0;
  bool wrong_ = false;
};

}  // namespace

kv::PageLayout sim_layout(int32_t layers) {
  kv::PageLayout layout;
  layout.page_tokens = 16;
  layout.layers = layers;
  layout.kv_heads = 1;
  // Keys only, so that a layer of a page is one record for each token and nothing else.
  layout.head_dim = layout.latent_dim = static_cast<int32_t>(sizeof(Record) / 2);
  return layout;
}

OracleDecoder::OracleDecoder(int32_t layers, const model::StepLimits& limits) : limits_(limits) {
  facts_.name = "oracle";
  facts_.family = "test";
  facts_.vocabulary_size = kVocabulary;
  facts_.context_tokens = 1024;
  facts_.cache = sim_layout(layers);
  facts_.weight_format = "none";
  BH_CHECK(facts_.cache.layer_bytes() == sizeof(Record) * 16, "a page is full of records");
}

// A chain that begins in a foreign page goes on wrong: that is seen when it is read.
bool OracleDecoder::write(const model::SequenceSlice& slice, const kv::CacheView& cache) const {
  uint64_t chain = 0;
  if (slice.position > 0) {
    const std::byte* before = slot_of(cache, slice.pages, slice.position - 1, 0);
    if (before == nullptr) return false;
    Record record;
    std::memcpy(&record, before, sizeof record);
    chain = record.chain;
  }
  int32_t position = slice.position;
  for (const TokenId token : slice.tokens) {
    chain = extend(chain, token, position);
    for (int32_t layer = 0; layer < cache.layout.layers; ++layer) {
      std::byte* slot = slot_of(cache, slice.pages, position, layer);
      if (slot == nullptr) return false;
      const uint64_t own = in_layer(chain, layer);
      const Record record{own, token, position, rest_of(own)};
      std::memcpy(slot, &record, sizeof record);
    }
    ++position;
  }
  return true;
}

void OracleDecoder::forward(std::span<const model::SequenceSlice> slices,
                            const kv::CacheView& cache, std::span<float> logits) {
  const auto width = static_cast<size_t>(kVocabulary);
  // Writes first, as a model's layers do: a page shared by mistake shows in both owners.
  for (const model::SequenceSlice& slice : slices) write(slice, cache);
  size_t row = 0;
  for (const model::SequenceSlice& slice : slices) {
    const int32_t end = slice.position + static_cast<int32_t>(slice.tokens.size());
    Reader reader(cache, slice.pages);
    for (int32_t position = 0; position < end; ++position) {
      reader.read(position);
      const bool own = position >= slice.position;
      const size_t index = own ? static_cast<size_t>(position - slice.position) : 0;
      const bool wrong = reader.wrong() || (own && reader.token() != slice.tokens[index]);
      const bool wanted = slice.logits == model::LogitsFor::kAll
                              ? own
                              : slice.logits == model::LogitsFor::kLast && position == end - 1;
      if (!wanted) continue;
      const auto out = logits.subspan(row++ * width, width);
      if (wrong) {
        fill_wrong(out);
      } else {
        fill_row(reader.chain(), out);
      }
    }
    if (reader.wrong()) ++wrong_reads_;
    tokens_ += slice.tokens.size();
  }
}

void OracleRow::append(TokenId token) { chain_ = extend(chain_, token, position_++); }

std::span<const float> OracleRow::logits() {
  fill_row(chain_, row_);
  return row_;
}

}  // namespace bulkhead::sim
