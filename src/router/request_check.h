// Whether a request may enter at all: the second look behind the front door's first.
//
// Threads: pure function. Invariant: what passes can neither fail nor harm the engine because of
// its content, and fits the context and the cache when it has them to itself.
#pragma once

#include "base/result.h"
#include "wire/generate.h"

namespace bulkhead::router {

// kInvalidArgument naming the field and the limit.
base::Status check_request(const wire::GenerateRequest& request,
                           const wire::GenerateLimits& limits);

}  // namespace bulkhead::router
