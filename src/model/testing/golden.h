// Logits of the committed tiny models as transformers computes them (tools/golden), and how near
// others are.
//
// Threads: one test at a time.
#pragma once

#include <algorithm>
#include <filesystem>
#include <vector>

#include "model/decoder.h"

namespace bulkhead::model::testing {

struct Golden {
  std::vector<TokenId> ids;
  std::vector<int32_t> positions;  // of the rows, where not every one is there
  std::vector<float> plain;
  std::vector<float> rounded;
};

Golden read_golden(const std::filesystem::path& path);

// Rows of `width` values that differ by no more than `limit` of the largest value; their number and
// the greatest difference among all.
struct Agreement {
  float gap = 0.0f;
  std::vector<bool> rows;

  size_t count() const { return static_cast<size_t>(std::ranges::count(rows, true)); }
};

Agreement compare(const std::vector<float>& values, const std::vector<float>& reference,
                  size_t width, float limit);

// Of each row of `width` values the length of its difference from the reference's row, as a share
// of the length of that. Not a number where one of the values is none.
std::vector<float> row_distances(const std::vector<float>& values,
                                 const std::vector<float>& reference, size_t width);

}  // namespace bulkhead::model::testing
