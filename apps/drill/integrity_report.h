// What GET /v1/integrity says, and what is new since an earlier one.
//
// Threads: plain values. Invariant: a report that lacks a part is an error, never an empty report.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace bulkhead::apps {

struct IntegrityReport {
  struct Event {
    uint64_t number = 0;
    std::string kind;
    std::string phase;
  };
  struct Pool {
    std::string name;
    std::map<std::string, uint64_t> mismatches;  // by kind
    uint64_t quarantined = 0;
    std::vector<Event> events;  // the last
  };

  std::string mode;
  bool injects = false;  // faults may be ordered
  uint64_t waiting = 0;  // ordered, not carried out
  uint64_t done = 0;
  std::vector<Pool> pools;  // the one that decode reads is the last
};

base::Result<IntegrityReport> parse_integrity_report(std::string_view body);

// Mismatches of one kind, in all pools.
struct Noticed {
  uint64_t times = 0;
  std::set<std::string> phases;
};
using NoticedByKind = std::map<std::string, Noticed>;

NoticedByKind noticed_since(const IntegrityReport& before, const IntegrityReport& after);
void add(NoticedByKind& sum, const NoticedByKind& more);
// "tag before 2x, books 1x"; "nothing".
std::string to_text(const NoticedByKind& noticed);

}  // namespace bulkhead::apps
