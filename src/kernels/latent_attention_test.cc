// Attention over a latent cache and over selected positions, against the plain form.
#include <gtest/gtest.h>

#include "base/testing/quick.h"
#include "kernels/attention_test_support.h"

namespace bulkhead::kernels {
namespace {

using testing::Cache;
using testing::Random;
using testing::Sequence;
using testing::Shape;
using testing::Tokens;

class LatentAttention : public testing::EveryIsa {
 protected:
  std::vector<float> attend(const Tokens& tokens, int32_t page_tokens, unsigned threads = 2,
                            std::vector<std::vector<int32_t>> selected = {}) {
    device::ThreadPool pool({.threads = threads});
    Random random(7);
    Cache cache(random, tokens.shape, page_tokens, 1 + (tokens.count + 15) / page_tokens);
    Sequence sequence(tokens, cache);
    sequence.selected = std::move(selected);
    sequence.write(kernels(), pool, 0, tokens.count);
    sequence.attend(kernels(), pool, 0, tokens.count);
    return sequence.out;
  }
};

// The first `dims` values of every head.
std::vector<float> first_dims(const std::vector<float>& out, int32_t head_dim, int32_t dims) {
  std::vector<float> cut;
  for (size_t head = 0; head < out.size(); head += static_cast<size_t>(head_dim)) {
    const auto begin = out.begin() + static_cast<std::ptrdiff_t>(head);
    cut.insert(cut.end(), begin, begin + dims);
  }
  return cut;
}

TEST_P(LatentAttention, HasTheBitsOfACacheWhoseValuesAreTheKeysBeginnings) {
  for (const int32_t heads : {4, 48, 67}) {
    for (const int32_t page_tokens : {16, 64, 512}) {
      const bool alike =
          (heads == 4) == (page_tokens == 16) && (heads == 67) == (page_tokens == 512);
      if (base::testing::quick() && !alike) continue;
      Random random(51);
      Tokens plain(random, {heads, 1, 72}, 300);
      plain.v = plain.k;
      Tokens latent = plain;
      latent.shape.latent_dim = 56;
      const std::vector<float> expected =
          first_dims(attend(plain, page_tokens), plain.shape.head_dim, 56);
      EXPECT_TRUE(testing::same_bits(attend(latent, page_tokens), expected))
          << heads << " heads, pages of " << page_tokens;
    }
  }
}

TEST_P(LatentAttention, TheNumberOfThreadsAndTheDealingOfHeadsDoNotShow) {
  Random random(52);
  const Tokens tokens(random, {96, 1, 80, 64}, 40);
  EXPECT_TRUE(testing::same_bits(attend(tokens, 16, 1), attend(tokens, 16, 2)));
  device::ThreadPool pool({.threads = 2});
  Cache cache(random, tokens.shape, 16, 4);
  Sequence sequence(tokens, cache);
  sequence.write(kernels(), pool, 0, tokens.count);
  // One token is one unit a part; forty are many.
  for (int32_t token = 0; token < tokens.count; ++token) sequence.attend(kernels(), pool, token, 1);
  EXPECT_TRUE(testing::same_bits(sequence.out, attend(tokens, 16, 2)));
}

std::vector<std::vector<int32_t>> all_visible(int32_t count) {
  std::vector<std::vector<int32_t>> selected(static_cast<size_t>(count));
  for (size_t row = 0; row < selected.size(); ++row) {
    selected[row].resize(row + 1);
    std::iota(selected[row].begin(), selected[row].end(), 0);
  }
  return selected;
}

TEST_P(LatentAttention, SelectingAllHasTheBitsOfSelectingNothing) {
  for (const Shape shape : {Shape{8, 1, 72, 56}, Shape{8, 2, 24}}) {
    Random random(53);
    const Tokens tokens(random, shape, 290);
    EXPECT_TRUE(
        testing::same_bits(attend(tokens, 16, 2, all_visible(tokens.count)), attend(tokens, 16)));
  }
}

TEST_P(LatentAttention, ASelectionIsACacheOfTheSelectedTokensAlone) {
  Random random(54);
  const Tokens tokens(random, {8, 1, 72, 56}, 700);
  // The last row reads every other token, more than a cut of them.
  std::vector<int32_t> chosen;
  for (int32_t position = 1; position < tokens.count; position += 2) chosen.push_back(position);
  std::vector<std::vector<int32_t>> selected = all_visible(tokens.count);
  for (std::vector<int32_t>& row : selected) row = {0};
  selected.back() = chosen;
  const std::vector<float> out = attend(tokens, 64, 2, selected);

  Tokens alone = tokens;
  alone.count = static_cast<int32_t>(chosen.size());
  for (size_t i = 0; i < chosen.size(); ++i) {
    const auto from = tokens.k.begin() + chosen[i] * tokens.kv_row();
    std::copy_n(from, tokens.kv_row(),
                alone.k.begin() + static_cast<std::ptrdiff_t>(i) * tokens.kv_row());
  }
  std::copy_n(tokens.q.begin() + (tokens.count - 1) * tokens.q_row(), tokens.q_row(),
              alone.q.begin() + (alone.count - 1) * tokens.q_row());
  const std::vector<float> expected = attend(alone, 64);
  const auto last = [&](const std::vector<float>& rows, const Tokens& of) {
    const auto begin = rows.begin() + (of.count - 1) * of.out_row();
    return std::vector<float>(begin, begin + of.out_row());
  };
  EXPECT_TRUE(testing::same_bits(last(out, tokens), last(expected, alone)));
}

BH_INSTANTIATE_FOR_EVERY_ISA(LatentAttention);

}  // namespace
}  // namespace bulkhead::kernels
