#include "sampling/candidates.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace bulkhead::sampling {
namespace {

bool heavier(const Candidate& a, const Candidate& b) {
  return a.exponent != b.exponent ? a.exponent > b.exponent : a.id < b.id;
}

}  // namespace

Candidates::Candidates(size_t vocabulary_size) : counts_(kBuckets), masses_(kBuckets) {
  kept_.reserve(vocabulary_size);
}

void Candidates::assign(std::span<const float> exponents, std::span<const float> weights,
                        float floor) {
  kept_.clear();
  // Most stretches hold no candidate; a maximum over fixed lanes skips them quickly.
  constexpr size_t kStretch = 64;
  constexpr size_t kLanes = 16;
  for (size_t start = 0; start < exponents.size(); start += kStretch) {
    const size_t end = std::min(start + kStretch, exponents.size());
    if (end - start == kStretch) {
      float greatest[kLanes];
      for (size_t lane = 0; lane < kLanes; ++lane) greatest[lane] = exponents[start + lane];
      for (size_t i = start + kLanes; i < end; i += kLanes) {
        for (size_t lane = 0; lane < kLanes; ++lane) {
          const float value = exponents[i + lane];
          greatest[lane] = value > greatest[lane] ? value : greatest[lane];
        }
      }
      if (*std::max_element(greatest, greatest + kLanes) < floor) continue;
    }
    for (size_t id = start; id < end; ++id) {
      if (exponents[id] >= floor && weights[id] > 0.0f) {
        kept_.push_back({exponents[id], weights[id], static_cast<int32_t>(id)});
      }
    }
  }
}

size_t Candidates::bucket_of(const Candidate& candidate) {
  const float place = -candidate.exponent * kBucketsPerUnit;
  return static_cast<size_t>(std::min(place, static_cast<float>(kBuckets - 1)));
}

void Candidates::fill_histogram() {
  std::fill(counts_.begin(), counts_.end(), 0);
  std::fill(masses_.begin(), masses_.end(), 0.0);
  for (const Candidate& candidate : kept_) {
    const size_t bucket = bucket_of(candidate);
    ++counts_[bucket];
    masses_[bucket] += static_cast<double>(candidate.weight);
  }
}

size_t Candidates::cut_at(size_t bucket) {
  size_t before = 0;
  size_t end = 0;
  for (size_t i = 0; i < kept_.size(); ++i) {
    const size_t own = bucket_of(kept_[i]);
    if (own > bucket) continue;
    std::swap(kept_[end], kept_[i]);
    if (own < bucket) std::swap(kept_[before++], kept_[end]);
    ++end;
  }
  kept_.resize(end);
  return before;
}

void Candidates::keep_count(size_t count) {
  BH_CHECK(count > 0, "at least one token stays");
  if (count >= kept_.size()) return;
  fill_histogram();
  size_t bucket = 0;
  for (size_t total = counts_[0]; total < count; total += counts_[bucket]) ++bucket;
  const size_t before = cut_at(bucket);
  const auto first = kept_.begin() + static_cast<std::ptrdiff_t>(before);
  const auto cut = kept_.begin() + static_cast<std::ptrdiff_t>(count);
  if (cut != kept_.end()) std::nth_element(first, cut, kept_.end(), heavier);
  kept_.resize(count);
}

void Candidates::keep_mass(double target) {
  if (kept_.empty()) return;
  fill_histogram();
  size_t bucket = 0;
  double mass = 0.0;  // of the buckets before
  while (bucket + 1 < kBuckets && mass + masses_[bucket] < target) mass += masses_[bucket++];
  size_t end = cut_at(bucket);
  std::sort(kept_.begin() + static_cast<std::ptrdiff_t>(end), kept_.end(), heavier);
  while (end < kept_.size() && (mass < target || end == 0)) {
    mass += static_cast<double>(kept_[end++].weight);
  }
  kept_.resize(end);
}

void Candidates::keep_above(float share) {
  std::erase_if(kept_, [share](const Candidate& candidate) { return candidate.weight < share; });
}

double Candidates::mass() const {
  double total = 0.0;
  for (const Candidate& candidate : kept_) total += static_cast<double>(candidate.weight);
  return total;
}

int32_t Candidates::draw(double unit) const {
  BH_CHECK(!kept_.empty(), "a draw needs a candidate");
  const double target = unit * mass();
  double mass = 0.0;
  for (const Candidate& candidate : kept_) {
    mass += static_cast<double>(candidate.weight);
    if (target < mass) return candidate.id;
  }
  return kept_.back().id;
}

}  // namespace bulkhead::sampling
