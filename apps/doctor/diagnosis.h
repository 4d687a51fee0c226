// From facts about the machine to findings: what was found, whether it is good, what would help.
//
// Threads: pure functions. Invariant: every finding that is not ok names a cure; a problem is what
// makes serving impossible.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/doctor/machine_facts.h"

namespace bulkhead::apps {

enum class Verdict { kOk, kCouldBeBetter, kProblem };
std::string_view to_string(Verdict verdict);  // "ok", "could be better", "problem"

struct Finding {
  std::string name;
  std::string found;
  Verdict verdict = Verdict::kOk;
  std::string cure;  // a command, or what to do; empty when all is well
};

std::vector<Finding> diagnose(const MachineFacts& facts, const std::optional<Peaks>& peaks);
bool can_serve(const std::vector<Finding>& findings);

std::string findings_text(const std::vector<Finding>& findings);
std::string findings_json(const std::vector<Finding>& findings);

}  // namespace bulkhead::apps
