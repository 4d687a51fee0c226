// The HTTP address of a worker process (--http-listen), for whoever watches over it: health,
// metrics, page integrity (api/worker_api.h).
//
// Threads: the main thread; the I/O thread that it starts ends with it. Invariants: the address is
// bound before the weights are loaded and answers 503 model_loading until open(); beyond loopback
// it needs a key. Life: ends before what open() was given.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/worker_api.h"
#include "model/loader.h"
#include "serve/http_side.h"

namespace bulkhead::serve::roles {

class WorkerHttp {
 public:
  // What a start refuses before anything is bound; nothing where the options give no address.
  static base::Status check(const ServeOptions& options);
  // Null where the options give no address.
  static base::Result<std::unique_ptr<WorkerHttp>> listen(const ServeOptions& options,
                                                          const base::Clock& clock,
                                                          base::Logger& logger);

  // "127.0.0.1:7101", with the port that was bound.
  std::string address() const { return address_text(host_, server_->port()); }
  std::string url() const { return url_text(host_, server_->port()); }
  void progress(const model::LoadProgress& at) { gate_.progress(at.bytes_done, at.bytes_total); }
  // From now on there is somebody to tell of.
  void open(telemetry::Registry& registry, std::function<wire::GeneratorStatus()> status,
            wire::IntegrityPort& integrity, uint64_t weight_bytes);
  // After SIGHUP.
  void reload_keys();

 private:
  WorkerHttp(const ServeOptions& options, Keys keys, const base::Clock& clock,
             base::Logger& logger);

  const ServeOptions& options_;
  const Keys keys_;  // of the start
  const base::Clock& clock_;
  base::Logger& logger_;
  std::string host_;
  LoadingGate gate_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<api::WorkerApi> api_;
  std::unique_ptr<IoThread> io_;  // ends first
};

}  // namespace bulkhead::serve::roles
