// One unit of attention work: some query rows of one sequence that read the same keys.
//
// Threads: a unit is worked on by one thread at a time, in that thread's memory.
// Invariants: rows are token-major (all query heads of a token side by side), so rows that see more
// of the cache come later; nothing beyond a row's own position is multiplied for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention.h"
#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels::vector {

struct Unit {
  const AttentionSlice* slice = nullptr;
  int32_t kv_head = 0;
  int32_t first_head = 0;   // of the query heads
  int32_t group = 0;        // query heads
  int32_t first_token = 0;  // within the slice
  int32_t tokens = 0;       // 1 where it selects
  // What its one token attends to, ascending; null: all that is visible.
  const int32_t* selected = nullptr;
  int32_t selected_count = 0;

  int64_t rows() const { return int64_t{tokens} * group; }
  int64_t first_row() const { return slice->first_row + first_token; }
  // The unit's token `t` attends to entries [0, visible(t)): positions, or places in `selected`.
  int32_t visible(int32_t t) const {
    return selected != nullptr ? selected_count : slice->position + first_token + t + 1;
  }
  int32_t cuts() const { return (visible(tokens - 1) + kKvSplit - 1) / kKvSplit; }
  // The first token that sees anything of cut `cut`.
  int32_t first_active(int32_t cut) const {
    return std::max<int32_t>(0, cut * kKvSplit - visible(0) + 1);
  }
};

// Unnormalised outputs and softmax states of a unit's rows. Over an FP8 cache the outputs are
// 2^-56 times what they stand for (fp8_panels.h) until they are divided by the sum.
struct Partial {
  float* out = nullptr;  // [rows][padded_dims(value_dim)]
  SoftmaxState* states = nullptr;
};
int64_t padded_dims(int32_t dims);
// Floats of one partial of `rows` rows.
int64_t partial_floats(int64_t rows, int32_t value_dim);
Partial place_partial(float* memory, int64_t rows, int32_t value_dim);

// A thread's memory for a unit, carved out of its scratch.
class Workspace {
 public:
  static size_t bytes(int64_t rows, const AttentionArgs& args);
  Workspace(std::span<std::byte> scratch, int64_t rows, const AttentionArgs& args);

  float* q = nullptr;       // [rows][head_dim], scaled
  float* scores = nullptr;  // [rows][kKvSplit]
  Partial whole;
  Partial cut;
  // Of a cut, in the order of a page of kKvSplit tokens: the values of a latent cache, and the keys
  // that were selected.
  std::byte* values = nullptr;
  std::byte* keys = nullptr;
  // FP8: for each token of a cut what the score of its key's two components is multiplied by, and
  // its weight after the softmax; room to write panels out.
  float* score_factors[2] = {};
  float* value_factors = nullptr;
  std::byte* expanded = nullptr;
  const void** runs = nullptr;   // kKvSplit / 16 * panels of value_dim
  const void** ahead = nullptr;  // as many
};

// Copies the unit's query rows, scaled (and lifted, where the cache is FP8), into work.q.
void load_queries(const VectorOps& ops, const AttentionArgs& args, const Unit& unit,
                  Workspace& work);
// What the caller works on after a cut, so that its keys can be fetched along the way.
struct NextCut {
  const Unit* unit = nullptr;  // null: nothing, or nobody knows
  int32_t cut = 0;
};

// Attention over one cut into `out`, for the rows that see any of it.
void attend_cut(const VectorOps& ops, const AttentionArgs& args, const Unit& unit, int32_t cut,
                NextCut next, Workspace& work, const Partial& out);
// Merges cut `cut` into the running state; to be called for every cut in ascending order.
void merge_cut(const VectorOps& ops, const AttentionArgs& args, const Unit& unit, int32_t cut,
               const Partial& from, const Partial& into);
// Normalises and writes the unit's rows.
void write_out(const VectorOps& ops, const AttentionArgs& args, const Unit& unit,
               const Partial& from);

}  // namespace bulkhead::kernels::vector
