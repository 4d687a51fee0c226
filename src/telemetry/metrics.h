// Counters, gauges and histograms with Prometheus names, and their text exposition.
//
// Threads: recording is lock-free and allowed from any thread; registration happens at start.
// Invariants: a metric is registered once and lives as long as its registry; recording never
// allocates and never throws; gauges backed by a function are read at scrape time, so they cannot
// drift.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bulkhead::telemetry {

using Labels = std::vector<std::pair<std::string, std::string>>;

class Counter {
 public:
  void add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// Cumulative buckets by upper bound, as Prometheus wants them.
class Histogram {
 public:
  explicit Histogram(std::vector<double> upper_bounds);
  void observe(double value);
  const std::vector<double>& bounds() const { return bounds_; }
  // Count of bucket i alone (not cumulative); index bounds().size() is +Inf.
  uint64_t bucket(size_t i) const { return counts_[i].load(std::memory_order_relaxed); }
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::vector<double> bounds_;
  std::unique_ptr<std::atomic<uint64_t>[]> counts_;
  std::atomic<double> sum_{0.0};
};

class Registry {
 public:
  // `labels` are added to every sample of every metric, e.g. model_name.
  explicit Registry(Labels labels = {}) : common_(std::move(labels)) {}

  Counter& counter(std::string name, std::string help, Labels labels = {});
  Histogram& histogram(std::string name, std::string help, std::vector<double> upper_bounds,
                       Labels labels = {});
  // A count that somebody else keeps, read like a gauge; it must never fall.
  void counter(std::string name, std::string help, std::function<double()> read,
               Labels labels = {});
  // Read at scrape time on the scraping thread.
  void gauge(std::string name, std::string help, std::function<double()> read, Labels labels = {});
  // Exposes everything registered as `of` under a second name too, with `labels` added: the same
  // figures, recorded once.
  void alias(std::string name, std::string_view of, Labels labels = {});
  // A constant 1 with facts as labels.
  void info(std::string name, std::string help, Labels labels);

  // Text format 0.0.4.
  std::string expose() const;

 private:
  struct Entry {
    std::string name;
    std::string help;
    Labels labels;
    std::shared_ptr<Counter> counter;  // shared with aliases
    std::shared_ptr<Histogram> histogram;
    std::function<double()> gauge;
    bool counts = false;  // `gauge` reads a count
  };
  Entry& add(std::string name, std::string help, Labels labels);
  std::string label_text(const Labels& own, std::string_view bound = {}) const;

  mutable std::mutex mutex_;
  Labels common_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace bulkhead::telemetry
