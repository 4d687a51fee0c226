// Runs a planned step on a model and keeps the logits it produced.
//
// Threads: step thread only. Invariants: no policy; no allocation after construction; one executor
// may serve several pools as long as they take turns, since a run overwrites the logits of the
// last.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/buffer.h"
#include "model/decoder.h"

namespace bulkhead::engine {

// Slices of one step and the sequences they belong to, sized once.
class StepPlan {
 public:
  explicit StepPlan(const model::StepLimits& limits);
  void clear();
  bool full() const { return slices_.size() == slices_.capacity(); }
  bool empty() const { return slices_.empty(); }
  int32_t rows() const { return rows_; }
  int32_t logits_rows() const { return logits_rows_; }
  std::span<const model::SequenceSlice> slices() const { return slices_; }
  // Beyond the limits is our own mistake.
  void add(const model::SequenceSlice& slice);
  // What the slice reads instead; lasts until the step is over.
  void set_pages(size_t slice, std::span<const kv::PageId> pages) { slices_[slice].pages = pages; }

 private:
  const model::StepLimits limits_;
  std::vector<model::SequenceSlice> slices_;
  int32_t rows_ = 0;
  int32_t logits_rows_ = 0;
};

class Executor {
 public:
  // The decoder and the cache outlive the executor.
  static base::Result<std::unique_ptr<Executor>> create(model::Decoder& decoder,
                                                        const kv::CacheView& cache);

  const model::StepLimits& limits() const { return decoder_.limits(); }
  int32_t vocabulary_size() const { return decoder_.facts().vocabulary_size; }
  void run(const StepPlan& plan);
  // Row `index` of the last run, in plan order: [vocabulary_size].
  std::span<const float> logits(size_t index) const;

 private:
  Executor(model::Decoder& decoder, const kv::CacheView& cache, device::Buffer logits);

  model::Decoder& decoder_;
  const kv::CacheView cache_;
  device::Buffer logits_;  // [logits_rows_max][vocabulary_size]
  size_t rows_ = 0;        // valid after the last run
};

}  // namespace bulkhead::engine
