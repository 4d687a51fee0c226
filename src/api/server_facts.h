// Whether the server makes progress, and what it says about itself.
//
// Threads: pure functions; called on the I/O thread. Invariant: healthy means that the generator is
// idle or has completed a step lately, not that the process exists.
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
// GET /v1/models and, for one of them, GET /v1/models/{id}.
http::Response models_response(const ModelCard& model, const wire::GenerateLimits& limits);
http::Response model_response(const ModelCard& model, const wire::GenerateLimits& limits);

}  // namespace bulkhead::api
