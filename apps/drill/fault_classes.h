// The classes of faults that the drill injects: when each is ordered, and what tells of it.
//
// Threads: constant data. Invariant: names are those of kv/integrity/injector.h, which a test holds
// them to.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace bulkhead::apps {

enum class Moment {
  kNever,      // the control: nothing is ordered
  kStreaming,  // every request has begun to answer
  kBefore,     // no request is there yet
  kAtRest,     // pages of the prefix index, while nobody reads them
};

enum class Where {
  kAnywhere,  // each pool, where there are two
  kPrompts,   // where prompts are computed, and kept for others
  kAnswers,   // where answers are decoded
};

struct FaultClass {
  std::string_view name;
  std::string_view meaning;
  Moment moment = Moment::kStreaming;
  Where where = Where::kAnywhere;
  // Kinds of mismatch that may tell; none: nothing sees it, as `note` says.
  std::vector<std::string_view> kinds = {};
  std::string_view note = {};

  bool seen() const { return !kinds.empty(); }
};

std::span<const FaultClass> fault_classes();
// Null: there is none of this name.
const FaultClass* find_fault_class(std::string_view name);
// Nothing is damaged, and nothing may be noticed.
const FaultClass& no_fault();

}  // namespace bulkhead::apps
