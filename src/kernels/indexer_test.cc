#include "kernels/indexer.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/attention_test_support.h"
#include "kernels/selection.h"

namespace bulkhead::kernels {
namespace {

using testing::Cache;
using testing::Random;
using testing::Sequence;
using testing::Tokens;

constexpr int32_t kHeads = 8;
constexpr int32_t kHeadDim = 40;

using Choices = std::vector<std::vector<int32_t>>;

// The choice of every row of one sequence, taken `chunk` rows at a time.
struct Chooser {
  Tokens tokens;
  CacheFormat format;
  std::vector<float> weights;  // [count][kHeads]

  Chooser(uint64_t seed, int32_t count, CacheFormat of) : tokens(make(seed, count)), format(of) {
    Random random(seed + 1);
    weights = testing::random_floats(random, int64_t{count} * kHeads);
  }
  static Tokens make(uint64_t seed, int32_t count) {
    Random random(seed);
    return {random, {kHeads, 1, kHeadDim, kHeadDim}, count};
  }

  Choices run(const KernelSet& set, int32_t top_k, int32_t chunk, int32_t page_tokens) const {
    device::ThreadPool pool({.threads = 2});
    Random random(3);
    Cache cache(random, tokens.shape, page_tokens, 2 + tokens.count / page_tokens, format);
    Sequence sequence(tokens, cache);
    sequence.write(set, pool, 0, tokens.count);
    const auto rows = static_cast<size_t>(tokens.count);
    std::vector<int32_t> selected(rows * static_cast<size_t>(top_k), -1);
    std::vector<int32_t> counts(rows, -1);
    for (int32_t first = 0; first < tokens.count; first += chunk) {
      const AttentionSlice slice = sequence.slice(first, std::min(chunk, tokens.count - first));
      set.select({.keys = cache.view,
                  .slices = &slice,
                  .slice_count = 1,
                  .q = tokens.q.data(),
                  .q_stride = tokens.q_row(),
                  .weights = weights.data(),
                  .weights_stride = kHeads,
                  .heads = kHeads,
                  .top_k = top_k,
                  .selected = selected.data(),
                  .counts = counts.data()},
                 pool);
    }
    Choices out(rows);
    for (size_t row = 0; row < rows; ++row) {
      const auto begin = selected.begin() + static_cast<std::ptrdiff_t>(row) * top_k;
      out[row].assign(begin, begin + counts[row]);
    }
    return out;
  }
};

constexpr CacheFormat kFormats[] = {CacheFormat::kBf16, CacheFormat::kFp8E4m3};

// Value `i` of a key as the cache holds it.
double stored(const Chooser& c, int32_t position, int32_t i) {
  const float* key = c.tokens.k.data() + int64_t{position} * kHeadDim;
  if (c.format == CacheFormat::kBf16) {
    return static_cast<double>(quant::bf16_to_float(quant::float_to_bf16(key[i])));
  }
  float greatest = 0.0f;
  for (int32_t j = 0; j < kHeadDim; ++j) greatest = std::max(greatest, std::fabs(key[j]));
  float power = 0x1p-60f;
  while (greatest > 448.0f * power) power *= 2.0f;
  return static_cast<double>(quant::e4m3_to_float(quant::float_to_e4m3(key[i] / power)) * power);
}

double score(const Chooser& c, int32_t row, int32_t position) {
  double total = 0.0;
  for (int32_t head = 0; head < kHeads; ++head) {
    double sum = 0.0;
    for (int32_t i = 0; i < kHeadDim; ++i) {
      const auto q = static_cast<size_t>(row * c.tokens.q_row() + head * kHeadDim + i);
      sum += static_cast<double>(c.tokens.q[q]) * stored(c, position, i);
    }
    const auto weight = static_cast<double>(c.weights[static_cast<size_t>(row * kHeads + head)]);
    total += weight * std::max(sum, 0.0);
  }
  return total;
}

class Select : public testing::EveryIsa {};

TEST_P(Select, TakesTheBestPositionsInAscendingOrder) {
  for (const CacheFormat format : kFormats) {
    const Chooser chooser(61, 600, format);
    const int32_t top_k = 50;
    const Choices choices = chooser.run(kernels(), top_k, 600, 16);
    for (const int32_t row : {49, 50, 51, 255, 256, 257, 300, 599}) {
      const std::vector<int32_t>& chosen = choices[static_cast<size_t>(row)];
      ASSERT_EQ(chosen.size(), static_cast<size_t>(std::min(row + 1, top_k)));
      ASSERT_TRUE(std::ranges::is_sorted(chosen));
      double worst = std::numeric_limits<double>::infinity();
      for (const int32_t position : chosen) worst = std::min(worst, score(chooser, row, position));
      for (int32_t position = 0; position <= row; ++position) {
        if (std::ranges::binary_search(chosen, position)) continue;
        ASSERT_LE(score(chooser, row, position), worst + 1e-4) << row << " " << position;
      }
    }
  }
}

TEST_P(Select, ARowThatSeesNoMoreThanTopKTakesAll) {
  const Chooser chooser(62, 40, CacheFormat::kFp8E4m3);
  const Choices choices = chooser.run(kernels(), 64, 7, 16);
  for (size_t row = 0; row < choices.size(); ++row) {
    ASSERT_EQ(choices[row].size(), row + 1);
    EXPECT_EQ(choices[row].front(), 0);
    EXPECT_EQ(choices[row].back(), static_cast<int32_t>(row));
  }
}

TEST_P(Select, NeitherTheChunkNorThePageSizeShows) {
  for (const CacheFormat format : kFormats) {
    const Chooser chooser(63, 330, format);
    const Choices whole = chooser.run(kernels(), 20, 330, 16);
    EXPECT_EQ(chooser.run(kernels(), 20, 1, 16), whole);
    EXPECT_EQ(chooser.run(kernels(), 20, 33, 64), whole);
  }
}

BH_INSTANTIATE_FOR_EVERY_ISA(Select);

TEST(SelectPaths, TheVectorPathsChooseAsTheReferenceDoes) {
  const device::CpuFacts cpu = device::detect_cpu();
  for (const CacheFormat format : kFormats) {
    const Chooser chooser(64, 400, format);
    const Choices expected = chooser.run(*select_kernels(cpu, device::Isa::kRef), 30, 400, 16);
    for (const IsaSupport& path : isa_support(cpu)) {
      if (!path.runnable) continue;
      EXPECT_EQ(chooser.run(*select_kernels(cpu, path.isa), 30, 400, 16), expected)
          << device::to_string(path.isa);
    }
  }
}

TEST(Selection, OfEqualScoresTheEarlierPositionsAreTaken) {
  std::vector<Candidate> memory(7);
  std::vector<int32_t> chosen(4);
  Selection selection(memory, 4);
  for (int32_t position = 0; position < 100; ++position) {
    selection.offer(position == 90 ? 1.0f : 0.0f, position);
  }
  EXPECT_EQ(selection.finish(chosen.data()), 4);
  EXPECT_EQ(chosen, (std::vector<int32_t>{0, 1, 2, 90}));
}

TEST(Selection, NanIsTheWorstScore) {
  std::vector<Candidate> memory(5);
  std::vector<int32_t> chosen(2);
  Selection selection(memory, 2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int32_t position = 0; position < 20; ++position) {
    selection.offer(position % 2 == 0 ? nan : static_cast<float>(-position), position);
  }
  EXPECT_EQ(selection.finish(chosen.data()), 2);
  EXPECT_EQ(chosen, (std::vector<int32_t>{1, 3}));
}

}  // namespace
}  // namespace bulkhead::kernels
