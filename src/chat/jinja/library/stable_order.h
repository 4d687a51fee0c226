// A stable order of items by any comparison, even one that contradicts itself (NaN does).
//
// Threads: pure function. Invariant: the result is a permutation of 0..count-1 whatever `less`
// answers, and `less` may throw; std::stable_sort promises neither.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace bulkhead::chat::jinja {

template <typename Less>
std::vector<size_t> stable_order(size_t count, Less less) {
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = i;
  std::vector<size_t> merged(count);
  for (size_t width = 1; width < count; width *= 2) {
    for (size_t start = 0; start < count; start += 2 * width) {
      const size_t middle = std::min(start + width, count);
      const size_t end = std::min(start + 2 * width, count);
      size_t left = start;
      size_t right = middle;
      for (size_t out = start; out < end; ++out) {
        const bool from_right = right < end && (left == middle || less(order[right], order[left]));
        merged[out] = from_right ? order[right++] : order[left++];
      }
    }
    order.swap(merged);
  }
  return order;
}

}  // namespace bulkhead::chat::jinja
