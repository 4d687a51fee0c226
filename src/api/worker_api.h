// What a worker process answers over HTTP: whether it is well, what it counts, and how its pages
// are watched. Requests for text come from its gateway alone, and not over HTTP.
//
// Threads: construct anywhere, before the server runs; the handler runs on the I/O thread.
// Invariants: paths, keys and answers are those of Api; a path that a worker has no use for is 501.
// Life: outlives the server that calls its handler.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/front_door.h"
#include "telemetry/metrics.h"
#include "wire/generate.h"

namespace bulkhead::api {

struct WorkerApiOptions {
  KeyOptions keys;
  std::string version;        // of the server
  uint64_t weight_bytes = 0;  // that were loaded
  // As ApiOptions::stall_after.
  std::chrono::seconds stall_after{30};
};

struct WorkerApiDeps {
  telemetry::Registry& registry;  // carries the model_name label
  base::Logger& logger;
  const base::Clock& clock;
  std::function<wire::GeneratorStatus()> status;  // of the worker's pool; asked on the I/O thread
  wire::IntegrityPort& integrity;
  // Runs a task on the I/O thread (http::Server::post).
  std::function<void(std::function<void()>)> post;
};

class WorkerApi {
 public:
  WorkerApi(WorkerApiDeps deps, WorkerApiOptions options);
  WorkerApi(const WorkerApi&) = delete;
  WorkerApi& operator=(const WorkerApi&) = delete;

  // For http::Server::listen. Refers to this WorkerApi.
  http::Handler handler();
  // As Api::replace_keys(). Any thread.
  void replace_keys(std::vector<std::string> keys);

 private:
  void answer(const Visit& visit);

  const WorkerApiDeps deps_;
  const WorkerApiOptions options_;
  ResponseCounts responses_;
  FrontDoor door_;
};

}  // namespace bulkhead::api
