// Multi-head latent attention, absorbed: the queries of all heads are brought into the latent space
// and attend to one latent key (DeepSeek-V2, arXiv 2405.04434, section 2.1; DeepSeek-V3.2's sparse
// attention on top).
//
// One form serves prefill and decode alike, so that a token's bits do not depend on which of them
// computed it (docs/decisions/0015-latent-attention-absorbed.md).
#include <algorithm>
#include <cstring>

#include "model/layers/attention.h"
#include "model/layers/indexer.h"

namespace bulkhead::model {
namespace {

// Rows whose queries and outputs are held in the latent space at a time: 32 rows of 64 heads are 9
// MiB, which the last-level cache keeps.
constexpr int64_t kBlockRows = 32;

class MlaAttention final : public Attention {
 public:
  MlaAttention(const ModelConfig& config, const ModelWeights& weights, const Machine& machine)
      : config_(config),
        mla_(config.mla),
        weights_(weights),
        machine_(machine),
        indexer_(config, weights, machine) {}

  void place(ArenaCursor& memory, int64_t rows_max) override {
    const int64_t block = std::min(rows_max, kBlockRows);
    down_ = memory.take<float>(rows_max * down_width());
    q_ = memory.take<float>(rows_max * q_width());
    out_ = memory.take<float>(rows_max * out_width());
    latent_q_ = memory.take<float>(block * config_.heads * mla_.key());
    latent_out_ = memory.take<float>(block * config_.heads * mla_.latent);
    products_ = memory.take<kernels::GemmArgs>(config_.heads);
    slices_ = memory.take<kernels::AttentionSlice>(block);
    indexer_.place(memory, rows_max);
  }

  void run(int32_t layer, const Step& step, const kv::CacheView& cache, const float* normed,
           float* residual) override {
    const MlaWeights& weights = weights_.layers[static_cast<size_t>(layer)].mla;
    project(weights, step, normed);
    const kernels::KvLayerView kv = cache.layer(layer);
    machine_.kernels.kv_write({.kv = kv,
                               .slices = step.slices,
                               .slice_count = step.slice_count,
                               .k = key(),
                               .k_stride = down_width()},
                              machine_.pool);
    if (config_.indexer.heads > 0) {
      indexer_.run(layer, step, cache, {.x = down_, .stride = down_width()}, normed);
    }
    for (int64_t row = 0; row < step.rows; row += kBlockRows) {
      attend_block(weights, step, kv, row, std::min(kBlockRows, step.rows - row));
    }
    machine_.multiply({.a = out_,
                       .a_stride = out_width(),
                       .rows = step.rows,
                       .w = weights.o,
                       .c = residual,
                       .c_stride = config_.hidden,
                       .accumulate = true});
  }

 private:
  int64_t down_width() const { return mla_.q_rank + mla_.key(); }
  int64_t q_width() const { return config_.heads * mla_.head_q(); }
  int64_t out_width() const { return int64_t{config_.heads} * mla_.value; }
  float* key() const { return down_ + mla_.q_rank; }

  void norm(float* x, int64_t rows, int64_t width, const float* weight) {
    machine_.kernels.rms_norm({.x = x,
                               .x_stride = down_width(),
                               .out = x,
                               .out_stride = down_width(),
                               .rows = rows,
                               .width = width,
                               .weight = weight,
                               .eps = mla_.norm_eps},
                              machine_.pool);
  }

  void rotate(const Step& step, float* x, int64_t stride, int32_t heads, int64_t head_dim) {
    machine_.kernels.rope({.x = x,
                           .x_stride = stride,
                           .rows = step.rows,
                           .heads = heads,
                           .head_dim = static_cast<int32_t>(head_dim),
                           .half = mla_.rope / 2,
                           .cos = step.cos,
                           .sin = step.sin},
                          machine_.pool);
  }

  // Every row's key for the cache, and the queries of its heads.
  void project(const MlaWeights& weights, const Step& step, const float* normed) {
    machine_.multiply({.a = normed,
                       .a_stride = config_.hidden,
                       .rows = step.rows,
                       .w = weights.down,
                       .c = down_,
                       .c_stride = down_width()});
    if (mla_.q_rank > 0) norm(down_, step.rows, mla_.q_rank, weights.q_norm);
    norm(key(), step.rows, mla_.latent, weights.kv_norm);
    const bool straight = mla_.q_rank == 0;
    machine_.multiply({.a = straight ? normed : down_,
                       .a_stride = straight ? config_.hidden : down_width(),
                       .rows = step.rows,
                       .w = weights.q_up,
                       .c = q_,
                       .c_stride = q_width()});
    rotate(step, q_ + mla_.nope, q_width(), config_.heads, mla_.head_q());
    rotate(step, key() + mla_.latent, down_width(), 1, mla_.rope);
  }

  // Rows [row, row + rows) from queries to outputs.
  void attend_block(const MlaWeights& weights, const Step& step, const kernels::KvLayerView& kv,
                    int64_t row, int64_t rows) {
    absorb_queries(weights, row, rows);
    machine_.kernels.attention({.kv = kv,
                                .slices = slices_,
                                .slice_count = cut_slices(step, row, rows),
                                .q = latent_q_,
                                .q_stride = config_.heads * mla_.key(),
                                .out = latent_out_,
                                .out_stride = int64_t{config_.heads} * mla_.latent,
                                .q_heads = config_.heads,
                                .scale = static_cast<float>(mla_.softmax_scale),
                                .selected = indexer_.selected(row),
                                .selection_stride = config_.indexer.top_k,
                                .selected_counts = indexer_.counts(row)},
                               machine_.pool);
    for (int64_t head = 0; head < config_.heads; ++head) {
      products_[head] = {.a = latent_out_ + head * mla_.latent,
                         .a_stride = int64_t{config_.heads} * mla_.latent,
                         .rows = rows,
                         .w = weights.value_up[static_cast<size_t>(head)],
                         .c = out_ + row * out_width() + head * mla_.value,
                         .c_stride = out_width()};
    }
    multiply_heads();
  }

  void absorb_queries(const MlaWeights& weights, int64_t row, int64_t rows) {
    const int64_t stride = config_.heads * mla_.key();
    for (int64_t head = 0; head < config_.heads; ++head) {
      products_[head] = {.a = q_ + row * q_width() + head * mla_.head_q(),
                         .a_stride = q_width(),
                         .rows = rows,
                         .w = weights.key_up[static_cast<size_t>(head)],
                         .c = latent_q_ + head * mla_.key(),
                         .c_stride = stride};
    }
    multiply_heads();
    machine_.pool.run(static_cast<size_t>(rows), [&](size_t item, unsigned) {
      const auto at = static_cast<int64_t>(item);
      for (int64_t head = 0; head < config_.heads; ++head) {
        std::memcpy(latent_q_ + at * stride + head * mla_.key() + mla_.latent,
                    q_ + (row + at) * q_width() + head * mla_.head_q() + mla_.nope,
                    static_cast<size_t>(mla_.rope) * sizeof(float));
      }
    });
  }

  void multiply_heads() {
    machine_.multiply_group({products_, static_cast<size_t>(config_.heads)});
  }

  // The parts of the step's slices that lie in a block, by rows of the block.
  int32_t cut_slices(const Step& step, int64_t row, int64_t rows) {
    int32_t count = 0;
    for (int32_t s = 0; s < step.slice_count; ++s) {
      const kernels::AttentionSlice& whole = step.slices[s];
      const int64_t begin = std::max(whole.first_row, row);
      const int64_t end = std::min(whole.first_row + whole.tokens, row + rows);
      if (begin >= end) continue;
      const auto skipped = static_cast<int32_t>(begin - whole.first_row);
      slices_[count++] = {begin - row, static_cast<int32_t>(end - begin), whole.position + skipped,
                          whole.pages};
    }
    return count;
  }

  const ModelConfig& config_;
  const MlaConfig& mla_;
  const ModelWeights& weights_;
  const Machine& machine_;
  Indexer indexer_;
  float* down_ = nullptr;                      // [rows][q_rank + latent + rope]
  float* q_ = nullptr;                         // [rows][heads * (nope + rope)]
  float* out_ = nullptr;                       // [rows][heads * value]
  float* latent_q_ = nullptr;                  // [block][heads * (latent + rope)]
  float* latent_out_ = nullptr;                // [block][heads * latent]
  kernels::GemmArgs* products_ = nullptr;      // [heads]
  kernels::AttentionSlice* slices_ = nullptr;  // [block]
};

}  // namespace

std::unique_ptr<Attention> make_mla_attention(const ModelConfig& config,
                                              const ModelWeights& weights, const Machine& machine) {
  return std::make_unique<MlaAttention>(config, weights, machine);
}

}  // namespace bulkhead::model
