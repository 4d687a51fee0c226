#include "telemetry/metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace bulkhead::telemetry {
namespace {

std::string escape_label(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

Histogram::Histogram(std::vector<double> upper_bounds)
    : bounds_(std::move(upper_bounds)),
      counts_(std::make_unique<std::atomic<uint64_t>[]>(bounds_.size() + 1)) {
  BH_CHECK(std::is_sorted(bounds_.begin(), bounds_.end()), "histogram bounds ascend");
}

void Histogram::observe(double value) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(at)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

Registry::Entry& Registry::add(std::string name, std::string help, Labels labels) {
  std::lock_guard lock(mutex_);
  auto entry = std::make_unique<Entry>();
  entry->name = std::move(name);
  entry->help = std::move(help);
  entry->labels = std::move(labels);
  // Samples of one metric must stand together, so a new label set goes next to its siblings.
  auto place = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if ((*it)->name == entry->name) place = it + 1;
  }
  return **entries_.insert(place, std::move(entry));
}

Counter& Registry::counter(std::string name, std::string help, Labels labels) {
  Entry& entry = add(std::move(name), std::move(help), std::move(labels));
  entry.counter = std::make_shared<Counter>();
  return *entry.counter;
}

Histogram& Registry::histogram(std::string name, std::string help, std::vector<double> upper_bounds,
                               Labels labels) {
  Entry& entry = add(std::move(name), std::move(help), std::move(labels));
  entry.histogram = std::make_shared<Histogram>(std::move(upper_bounds));
  return *entry.histogram;
}

void Registry::counter(std::string name, std::string help, std::function<double()> read,
                       Labels labels) {
  Entry& entry = add(std::move(name), std::move(help), std::move(labels));
  entry.gauge = std::move(read);
  entry.counts = true;
}

void Registry::gauge(std::string name, std::string help, std::function<double()> read,
                     Labels labels) {
  Entry& entry = add(std::move(name), std::move(help), std::move(labels));
  entry.gauge = std::move(read);
}

void Registry::alias(std::string name, std::string_view of, Labels labels) {
  std::vector<const Entry*> originals;
  {
    std::lock_guard lock(mutex_);
    for (const auto& entry : entries_) {
      if (entry->name == of) originals.push_back(entry.get());
    }
  }
  BH_CHECK(!originals.empty(), "an alias is of something registered");
  for (const Entry* original : originals) {
    Labels all = original->labels;
    all.insert(all.end(), labels.begin(), labels.end());
    Entry& entry = add(name, original->help, std::move(all));
    entry.counter = original->counter;
    entry.histogram = original->histogram;
    entry.gauge = original->gauge;
    entry.counts = original->counts;
  }
}

void Registry::info(std::string name, std::string help, Labels labels) {
  gauge(std::move(name), std::move(help), [] { return 1.0; }, std::move(labels));
}

std::string Registry::label_text(const Labels& own, std::string_view bound) const {
  std::string inside;
  const auto append = [&inside](std::string_view key, std::string_view value) {
    if (!inside.empty()) inside += ',';
    inside += fmt::format("{}=\"{}\"", key, escape_label(value));
  };
  for (const auto& [key, value] : common_) append(key, value);
  for (const auto& [key, value] : own) append(key, value);
  if (!bound.empty()) append("le", bound);
  return inside.empty() ? std::string() : "{" + inside + "}";
}

std::string Registry::expose() const {
  std::lock_guard lock(mutex_);
  std::string out;
  std::string_view previous;
  for (const auto& entry : entries_) {
    if (entry->name != previous) {
      const char* type = entry->counter || entry->counts ? "counter"
                         : entry->histogram              ? "histogram"
                                                         : "gauge";
      out +=
          fmt::format("# HELP {} {}\n# TYPE {} {}\n", entry->name, entry->help, entry->name, type);
      previous = entry->name;
    }
    const std::string labels = label_text(entry->labels);
    if (entry->counter) {
      out += fmt::format("{}{} {}\n", entry->name, labels, entry->counter->value());
    } else if (entry->gauge) {
      out += fmt::format("{}{} {}\n", entry->name, labels, entry->gauge());
    } else {
      const Histogram& histogram = *entry->histogram;
      uint64_t running = 0;
      for (size_t i = 0; i <= histogram.bounds().size(); ++i) {
        running += histogram.bucket(i);
        const std::string bound = i < histogram.bounds().size()
                                      ? fmt::format("{}", histogram.bounds()[i])
                                      : std::string("+Inf");
        out +=
            fmt::format("{}_bucket{} {}\n", entry->name, label_text(entry->labels, bound), running);
      }
      out += fmt::format("{}_sum{} {}\n{}_count{} {}\n", entry->name, labels, histogram.sum(),
                         entry->name, labels, running);
    }
  }
  return out;
}

}  // namespace bulkhead::telemetry
