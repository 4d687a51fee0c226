#include "engine/executor.h"

#include <utility>

#include "base/check.h"

namespace bulkhead::engine {

StepPlan::StepPlan(const model::StepLimits& limits) : limits_(limits) {
  slices_.reserve(static_cast<size_t>(limits.slices_max));
}

void StepPlan::clear() {
  slices_.clear();
  rows_ = 0;
  logits_rows_ = 0;
}

void StepPlan::add(const model::SequenceSlice& slice) {
  const auto tokens = static_cast<int32_t>(slice.tokens.size());
  rows_ += tokens;
  if (slice.logits == model::LogitsFor::kLast) ++logits_rows_;
  if (slice.logits == model::LogitsFor::kAll) logits_rows_ += tokens;
  BH_CHECK(slices_.size() < static_cast<size_t>(limits_.slices_max), "slices within the limit");
  BH_CHECK(rows_ <= limits_.rows_max, "rows within the limit");
  BH_CHECK(logits_rows_ <= limits_.logits_rows_max, "logits rows within the limit");
  slices_.push_back(slice);
}

base::Result<std::unique_ptr<Executor>> Executor::create(model::Decoder& decoder,
                                                         const kv::CacheView& cache) {
  const auto rows = static_cast<size_t>(decoder.limits().logits_rows_max);
  const auto width = static_cast<size_t>(decoder.facts().vocabulary_size);
  auto logits = device::Buffer::allocate(rows * width * sizeof(float));
  if (!logits.ok()) return std::move(logits).error().within("logits of one step");
  return std::unique_ptr<Executor>(new Executor(decoder, cache, std::move(logits).value()));
}

Executor::Executor(model::Decoder& decoder, const kv::CacheView& cache, device::Buffer logits)
    : decoder_(decoder), cache_(cache), logits_(std::move(logits)) {}

void Executor::run(const StepPlan& plan) {
  BH_CHECK(!plan.empty(), "a step has something to run");
  rows_ = static_cast<size_t>(plan.logits_rows());
  const auto width = static_cast<size_t>(vocabulary_size());
  decoder_.forward(plan.slices(), cache_, logits_.as<float>().first(rows_ * width));
}

std::span<const float> Executor::logits(size_t index) const {
  BH_CHECK(index < rows_, "a logits row of the last run");
  const auto width = static_cast<size_t>(vocabulary_size());
  return logits_.as<float>().subspan(index * width, width);
}

}  // namespace bulkhead::engine
