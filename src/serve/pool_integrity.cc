#include "serve/pool_integrity.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace bulkhead::serve {
namespace {

using kv::integrity::Kind;
using kv::integrity::Mismatch;
using kv::integrity::Report;

wire::IntegrityMode mode_of(kv::integrity::Mode mode) {
  switch (mode) {
    case kv::integrity::Mode::kObserve:
      return wire::IntegrityMode::kObserve;
    case kv::integrity::Mode::kAbort:
      return wire::IntegrityMode::kAbort;
    default:
      return wire::IntegrityMode::kOff;
  }
}

wire::IntegrityEvent event_of(const Mismatch& what) {
  wire::IntegrityEvent out;
  out.number = what.number;
  out.kind = to_string(what.kind);
  out.phase = to_string(what.phase);
  out.request = what.reader;
  out.entry = what.entry;
  out.page = what.page;
  out.found_tag = what.found_tag;
  out.found_label = what.found_label;
  out.found_place = what.found_place;
  out.expected_page = what.expected_page;
  out.expected_tag = what.expected_tag;
  out.expected_label = what.expected_label;
  out.history.reserve(what.history.size());
  for (const kv::integrity::Moment& moment : what.history) {
    out.history.push_back(fmt::format("{} {:#x}", to_string(moment.what), moment.tag));
  }
  return out;
}

}  // namespace

void PoolIntegrity::add(std::string name, const kv::PagePool& pool,
                        kv::integrity::Injector* injector) {
  members_.push_back({std::move(name), &pool, injector});
}

wire::IntegrityMode PoolIntegrity::mode() const {
  wire::IntegrityMode least = wire::IntegrityMode::kAbort;
  for (const Member& member : members_) {
    least = std::min(least, mode_of(member.pool->integrity().mode()));
  }
  return members_.empty() ? wire::IntegrityMode::kOff : least;
}

std::vector<wire::IntegrityPool> PoolIntegrity::report() const {
  std::vector<wire::IntegrityPool> out;
  out.reserve(members_.size());
  for (const Member& member : members_) {
    const Report report = member.pool->integrity().report();
    wire::IntegrityPool& pool = out.emplace_back();
    pool.name = member.name;
    pool.mode = mode_of(report.mode);
    pool.checks = report.checks;
    pool.pages_checked = report.pages_checked;
    pool.pages_scrubbed = report.pages_scrubbed;
    pool.mismatches.reserve(kv::integrity::kKinds);
    for (const Kind kind : kv::integrity::kAllKinds) {
      pool.mismatches.emplace_back(to_string(kind), report.mismatches[static_cast<size_t>(kind)]);
    }
    pool.quarantined = report.quarantined;
    pool.events.reserve(report.events.size());
    for (const Mismatch& what : report.events) pool.events.push_back(event_of(what));
  }
  return out;
}

wire::InjectedFaults PoolIntegrity::injected() const {
  wire::InjectedFaults out;
  for (const Member& member : members_) {
    if (member.injector == nullptr) continue;
    out.enabled = true;
    out.waiting += member.injector->waiting();
    for (const auto& done : member.injector->done()) {
      out.done.push_back({to_string(done.fault), member.name, done.reader, done.page});
    }
  }
  return out;
}

base::Status PoolIntegrity::inject(std::string_view fault, std::string_view pool) {
  const auto member = pool.empty()
                          ? std::prev(members_.end())
                          : std::find_if(members_.begin(), members_.end(),
                                         [pool](const Member& one) { return one.name == pool; });
  if (members_.empty() || members_.front().injector == nullptr) {
    return base::unsupported("the server was started without --inject-faults");
  }
  if (member == members_.end()) {
    return base::invalid_argument("pool", fmt::format("there is no pool {}", pool));
  }
  const auto parsed = kv::integrity::parse_fault(fault);
  if (!parsed) return base::invalid_argument("fault", fmt::format("there is no fault {}", fault));
  member->injector->order(*parsed);
  return {};
}

void PoolIntegrity::register_metrics(telemetry::Registry& registry) const {
  for (const Member& member : members_) {
    const kv::PagePool* pool = member.pool;
    telemetry::Labels labels;
    if (members_.size() > 1) labels.emplace_back("pool", member.name);
    const auto counter = [&](const char* name, const char* help, auto read) {
      registry.counter(
          name, help,
          [pool, read] { return static_cast<double>(read(pool->integrity().report())); }, labels);
    };
    counter("bulkhead_kv_integrity_checks_total", "Passes over the pages of a step or a transfer",
            [](const Report& report) { return report.checks; });
    counter("bulkhead_kv_integrity_pages_checked_total", "Pages compared in these passes",
            [](const Report& report) { return report.pages_checked; });
    counter("bulkhead_kv_integrity_pages_scrubbed_total",
            "Sealed pages whose bytes were verified again",
            [](const Report& report) { return report.pages_scrubbed; });
    registry.gauge(
        "bulkhead_kv_integrity_quarantined_pages",
        "Pages that failed a check and are out of use until the process ends",
        [pool] { return static_cast<double>(pool->counts().quarantined); }, labels);
    registry.gauge(
        "bulkhead_kv_integrity_mode", "How pages are watched: 0 off, 1 observe, 2 abort",
        [pool] { return static_cast<double>(pool->integrity().mode()); }, labels);
    for (const Kind kind : kv::integrity::kAllKinds) {
      telemetry::Labels of_kind = labels;
      of_kind.emplace_back("kind", to_string(kind));
      registry.counter(
          "bulkhead_kv_integrity_mismatches_total", "Pages and logits that were not as expected",
          [pool, kind] {
            return static_cast<double>(
                pool->integrity().report().mismatches[static_cast<size_t>(kind)]);
          },
          std::move(of_kind));
    }
  }
}

}  // namespace bulkhead::serve
