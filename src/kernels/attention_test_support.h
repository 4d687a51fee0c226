// Sequences in a paged cache, for the tests of attention.
//
// Threads: one test at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/attention.h"
#include "kernels/kernel_set.h"
#include "kernels/test_support.h"

namespace bulkhead::kernels::testing {

struct Shape {
  int32_t q_heads;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t latent_dim = 0;  // of KvLayerView

  int32_t value_dim() const { return latent_dim > 0 ? latent_dim : head_dim; }
};

// The tokens of one sequence, as floats.
struct Tokens {
  Shape shape;
  int32_t count;
  std::vector<float> q, k, v;

  Tokens(Random& random, Shape s, int32_t n)
      : shape(s),
        count(n),
        q(random_floats(random, int64_t{n} * s.q_heads * s.head_dim, 2.0f)),
        k(random_floats(random, int64_t{n} * s.kv_heads * s.head_dim, 2.0f)),
        v(random_floats(random, int64_t{n} * s.kv_heads * s.head_dim)) {}
  int64_t q_row() const { return int64_t{shape.q_heads} * shape.head_dim; }
  int64_t kv_row() const { return int64_t{shape.kv_heads} * shape.head_dim; }
  int64_t out_row() const { return int64_t{shape.q_heads} * shape.value_dim(); }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape.head_dim)); }
};

// A paged cache whose every byte is 0xff (NaN) until a token is written.
struct Cache {
  KvLayerView view;
  device::Buffer arena;
  std::vector<int32_t> free_pages;

  Cache(Random& random, Shape shape, int32_t page_tokens, int32_t pages,
        CacheFormat format = CacheFormat::kBf16) {
    view.format = format;
    view.page_tokens = page_tokens;
    view.kv_heads = shape.kv_heads;
    view.head_dim = shape.head_dim;
    view.latent_dim = shape.latent_dim;
    view.k_head_stride = kv_k_head_bytes(format, page_tokens, shape.head_dim);
    if (shape.latent_dim == 0) {
      view.v_head_stride = kv_v_head_bytes(format, page_tokens, shape.head_dim);
    }
    view.k_offset = 64;  // as if another layer lay before
    view.v_offset = view.k_offset + view.k_head_stride * static_cast<size_t>(shape.kv_heads);
    view.scale_offset = view.v_offset + view.v_head_stride * static_cast<size_t>(shape.kv_heads);
    view.page_stride = view.scale_offset;
    if (format == CacheFormat::kFp8E4m3) {
      view.page_stride += (2 * static_cast<size_t>(page_tokens) + 63) / 64 * 64;
    }
    arena = aligned_bytes(view.page_stride * static_cast<size_t>(pages));
    view.arena = arena.data();
    std::memset(arena.data(), 0xff, arena.size());
    free_pages.resize(static_cast<size_t>(pages));
    std::iota(free_pages.begin(), free_pages.end(), 0);
    for (size_t i = free_pages.size(); i > 1; --i) {
      std::swap(free_pages[i - 1],
                free_pages[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
    }
  }

  std::vector<int32_t> take(int32_t tokens) {
    std::vector<int32_t> taken;
    for (int32_t t = 0; t < tokens; t += view.page_tokens) {
      taken.push_back(free_pages.back());
      free_pages.pop_back();
    }
    return taken;
  }
};

// One sequence in a cache; rows of q and out are the tokens themselves.
struct Sequence {
  const Tokens& tokens;
  Cache& cache;
  std::vector<int32_t> pages;
  std::vector<float> out;
  // What each row attends to; empty: all that it sees.
  std::vector<std::vector<int32_t>> selected;

  Sequence(const Tokens& t, Cache& c)
      : tokens(t),
        cache(c),
        pages(c.take(t.count)),
        out(static_cast<size_t>(t.count * t.out_row()), 7.0f) {}

  AttentionSlice slice(int32_t first, int32_t count) const {
    return {.first_row = first, .tokens = count, .position = first, .pages = pages.data()};
  }
  void write(const KernelSet& set, device::ThreadPool& pool, int32_t first, int32_t count) {
    const AttentionSlice one = slice(first, count);
    set.kv_write({.kv = cache.view,
                  .slices = &one,
                  .slice_count = 1,
                  .k = tokens.k.data(),
                  .k_stride = tokens.kv_row(),
                  .v = tokens.v.data(),
                  .v_stride = tokens.kv_row()},
                 pool);
  }
  void attend(const KernelSet& set, device::ThreadPool& pool, int32_t first, int32_t count) {
    const AttentionSlice one = slice(first, count);
    std::vector<int32_t> counts;
    std::vector<int32_t> positions(selected.size() * selected.size());
    counts.reserve(selected.size());
    for (const std::vector<int32_t>& row : selected) {
      std::ranges::copy(
          row, positions.begin() + static_cast<std::ptrdiff_t>(counts.size() * selected.size()));
      counts.push_back(static_cast<int32_t>(row.size()));
    }
    set.attention({.kv = cache.view,
                   .slices = &one,
                   .slice_count = 1,
                   .q = tokens.q.data(),
                   .q_stride = tokens.q_row(),
                   .out = out.data(),
                   .out_stride = tokens.out_row(),
                   .q_heads = tokens.shape.q_heads,
                   .scale = tokens.scale(),
                   .selected = selected.empty() ? nullptr : positions.data(),
                   .selection_stride = static_cast<int64_t>(selected.size()),
                   .selected_counts = selected.empty() ? nullptr : counts.data()},
                  pool);
  }
};

}  // namespace bulkhead::kernels::testing
