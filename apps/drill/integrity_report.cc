#include "apps/drill/integrity_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/drill/json_members.h"

namespace bulkhead::apps {
namespace {

namespace json = boost::json;

IntegrityReport::Pool pool_of(const json::value& value) {
  IntegrityReport::Pool pool;
  pool.name = text_of(member(&value, "name"));
  pool.quarantined = elements_of(member(&value, "quarantined_pages")).size();
  if (const json::value* kinds = member(&value, "mismatches"); kinds && kinds->is_object()) {
    for (const auto& [kind, number] : kinds->as_object()) {
      pool.mismatches[std::string(kind)] = count_of(&number);
    }
  }
  for (const json::value& event : elements_of(member(&value, "events"))) {
    pool.events.push_back({count_of(member(&event, "number")), text_of(member(&event, "kind")),
                           text_of(member(&event, "phase"))});
  }
  return pool;
}

const IntegrityReport::Pool* find_pool(const IntegrityReport& report, const std::string& name) {
  const auto found =
      std::find_if(report.pools.begin(), report.pools.end(),
                   [&name](const IntegrityReport::Pool& pool) { return pool.name == name; });
  return found == report.pools.end() ? nullptr : &*found;
}

uint64_t last_number(const IntegrityReport::Pool* pool) {
  return pool == nullptr || pool->events.empty() ? 0 : pool->events.back().number;
}

}  // namespace

base::Result<IntegrityReport> parse_integrity_report(std::string_view body) {
  boost::system::error_code bad;
  const json::value value = json::parse(body, bad);
  const json::value* pools = bad ? nullptr : member(&value, "pools");
  const json::value* faults = bad ? nullptr : member(&value, "faults");
  if (pools == nullptr || !pools->is_array() || faults == nullptr || !faults->is_object()) {
    return base::corrupt("/v1/integrity did not answer with pools and faults");
  }
  IntegrityReport report;
  report.mode = text_of(member(&value, "mode"));
  report.injects = is_true(member(faults, "enabled"));
  report.waiting = count_of(member(faults, "waiting"));
  report.done = elements_of(member(faults, "done")).size();
  for (const json::value& pool : pools->as_array()) report.pools.push_back(pool_of(pool));
  return report;
}

NoticedByKind noticed_since(const IntegrityReport& before, const IntegrityReport& after) {
  NoticedByKind out;
  for (const IntegrityReport::Pool& pool : after.pools) {
    const IntegrityReport::Pool* earlier = find_pool(before, pool.name);
    for (const auto& [kind, number] : pool.mismatches) {
      const auto known =
          earlier == nullptr ? pool.mismatches.end() : earlier->mismatches.find(kind);
      const uint64_t was =
          earlier == nullptr || known == earlier->mismatches.end() ? 0 : known->second;
      if (number > was) out[kind].times += number - was;
    }
    for (const IntegrityReport::Event& event : pool.events) {
      if (event.number > last_number(earlier)) out[event.kind].phases.insert(event.phase);
    }
  }
  return out;
}

void add(NoticedByKind& sum, const NoticedByKind& more) {
  for (const auto& [kind, noticed] : more) {
    sum[kind].times += noticed.times;
    sum[kind].phases.insert(noticed.phases.begin(), noticed.phases.end());
  }
}

std::string to_text(const NoticedByKind& noticed) {
  std::string out;
  for (const auto& [kind, one] : noticed) {
    if (!out.empty()) out += ", ";
    out += kind;
    for (const std::string& phase : one.phases) {
      if (phase != kind) out += (phase == *one.phases.begin() ? " " : "/") + phase;
    }
    out += fmt::format(" {}x", one.times);
  }
  return out.empty() ? "nothing" : out;
}

}  // namespace bulkhead::apps
