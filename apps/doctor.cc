#include <iostream>

#include "apps/doctor/diagnosis.h"
#include "commands.h"

namespace bulkhead::apps {

int run_doctor(const DoctorOptions& options) {
  const MachineFacts facts = read_machine();
  const std::optional<Peaks> peaks =
      options.measure ? measure_peaks(facts) : std::optional<Peaks>();
  const std::vector<Finding> findings = diagnose(facts, peaks);
  if (options.json) {
    std::cout << findings_json(findings) << '\n';
  } else {
    std::cout << findings_text(findings);
  }
  return can_serve(findings) ? 0 : 1;
}

}  // namespace bulkhead::apps
