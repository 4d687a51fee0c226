#include "api/worker_api.h"

#include <fmt/format.h>

#include <utility>

#include "api/api_metrics.h"
#include "api/integrity_route.h"
#include "api/server_facts.h"

namespace bulkhead::api {

WorkerApi::WorkerApi(WorkerApiDeps deps, WorkerApiOptions options)
    : deps_(std::move(deps)),
      options_(std::move(options)),
      responses_(deps_.registry),
      door_({.logger = deps_.logger,
             .clock = deps_.clock,
             .responses = responses_,
             .integrity = &deps_.integrity},
            options_.keys) {
  register_running(deps_.registry, deps_.status);
  register_pages(deps_.registry, [status = deps_.status] { return status().pages; }, {});
}

http::Handler WorkerApi::handler() {
  return [this](http::Request request, std::shared_ptr<http::ResponseWriter> writer) {
    if (const auto visit = door_.admit(std::move(request), std::move(writer))) answer(*visit);
  };
}

void WorkerApi::answer(const Visit& visit) {
  switch (visit.route->action) {
    case Action::kHealth:
      return door_.respond(visit, health_response(health_of(deps_.status(), deps_.clock.now(),
                                                            options_.stall_after)));
    case Action::kLive:
      return door_.respond(visit, health_response(Health::kOk));
    case Action::kStartup:
      return door_.respond(
          visit, startup_response({"ready", options_.weight_bytes, options_.weight_bytes, 0}));
    case Action::kMetrics:
      return door_.respond(visit, metrics_response(deps_.registry));
    case Action::kVersion:
      return door_.respond(visit, version_response(options_.version));
    case Action::kIntegrity:
      return door_.respond(visit, integrity_response(&deps_.integrity));
    default:
      return door_.refuse(visit, not_implemented(fmt::format(
                                     "this is a worker, which does not serve {}; its gateway may",
                                     visit.route->path)));
  }
}

void WorkerApi::replace_keys(std::vector<std::string> keys) {
  deps_.post([this, keys = std::move(keys)]() mutable { door_.replace_keys(std::move(keys)); });
}

}  // namespace bulkhead::api
