// The integrity of the cache's pages over HTTP: what clients may require, what administrators see.
//
// Threads: the I/O thread. Invariant: a request that requires more than the server does is refused
// before anything of it runs.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "api/errors.h"
#include "http/server.h"
#include "wire/integrity.h"

namespace bulkhead::api {

// Says how pages are watched; nothing where nobody in this process knows.
std::optional<http::Header> integrity_header(const wire::IntegrityPort* port);

// Of X-Require-Integrity. `port` is null where nobody in this process knows (a gateway).
Failure check_required_integrity(const http::Request& request, const wire::IntegrityPort* port);

// GET /v1/integrity: of this process's pools, and where those of `workers` are told.
http::Response integrity_response(const wire::IntegrityPort* port,
                                  std::span<const wire::IntegrityWorker> workers = {});

// POST /v1/integrity/faults.
Failure inject_fault(std::string_view body, wire::IntegrityPort* port);

}  // namespace bulkhead::api
