// Whether the server makes progress, and what it says about itself and its model.
//
// Threads: pure functions. Invariants: healthy means that the generator is idle or has completed a
// step lately, not that the process exists; no answer holds a path of the machine.
#pragma once

#include <chrono>
#include <string>

#include "api/api.h"
#include "base/clock.h"
#include "http/server.h"
#include "wire/generate.h"

namespace bulkhead::api {

enum class Health { kOk, kDraining, kStalled };

Health health_of(const wire::GeneratorStatus& status, base::Nanoseconds now,
                 std::chrono::seconds stall_after);

// 200 when ok, 503 otherwise.
http::Response health_response(Health health);
http::Response version_response(const std::string& version);

// How far the start has come.
struct StartupState {
  std::string phase = "ready";  // "loading" before
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
  double eta_seconds = 0;
};
// 200 when the phase is "ready", 503 before.
http::Response startup_response(const StartupState& state);

// GET /v1/models and, for one of them, GET /v1/models/{id}.
http::Response models_response(const ModelCard& model, const wire::GenerateLimits& limits);
http::Response model_response(const ModelCard& model, const wire::GenerateLimits& limits);

// What the answers below are made from.
struct FactSources {
  const ModelCard& model;
  const ApiOptions& options;
  const wire::GenerateLimits& limits;
  wire::GeneratorStatus status;
  double uptime_seconds = 0;
};
http::Response server_info_response(const FactSources& from);
http::Response model_info_response(const FactSources& from);
http::Response loads_response(const FactSources& from, int64_t unix_seconds);
// vLLM's form: how many requests the server has.
http::Response load_response(const wire::GeneratorStatus& status);

}  // namespace bulkhead::api
