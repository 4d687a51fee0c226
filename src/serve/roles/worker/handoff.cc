#include "serve/roles/worker/handoff.h"

#include <utility>

#include "wire/faults.h"

namespace bulkhead::serve::roles {

using transfer::remote::Fault;

void HandoffTotals::add(const transfer::remote::Session& session) {
  const transfer::remote::SessionCounters& counters = session.counters();
  damaged_frames += counters.malformed;
  repeated_frames += counters.replayed + counters.misdirected;
  sessions_lost += session.is_closed() ? 1 : 0;
}

base::Error to_error(const transfer::remote::FaultReport& report) {
  const std::string_view code = contract_code(report.fault);
  std::string message = "the prompt's cache did not get from prefill to decode; try again";
  if (report.fault == Fault::kOverloaded) {
    return {base::ErrorCode::kResourceExhausted, std::move(message), {}};
  }
  return wire::fault(code, std::move(message));
}

void note(base::Logger* logger, const transfer::remote::FaultReport& report) {
  if (logger == nullptr || report.fault == Fault::kAborted) return;
  logger->warning("a handoff failed",
                  {{"fault", std::string(to_string(report.fault))}, {"reason", report.text}});
}

void note_closed(base::Logger* logger, const std::string& peer,
                 const transfer::remote::FaultReport& why) {
  if (logger == nullptr) return;
  if (why.fault == Fault::kShutdown) {
    logger->info("a " + peer + " worker left");
  } else {
    logger->warning("the way to a " + peer + " worker is closed", {{"reason", why.text}});
  }
}

}  // namespace bulkhead::serve::roles
