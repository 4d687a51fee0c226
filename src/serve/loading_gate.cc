#include "serve/loading_gate.h"

#include <algorithm>

#include "api/errors.h"
#include "api/generate_route.h"
#include "api/server_facts.h"

namespace bulkhead::serve {

void LoadingGate::handle(http::Request request, std::shared_ptr<http::ResponseWriter> writer) {
  if (ready_.load(std::memory_order_acquire)) {
    handler_(std::move(request), std::move(writer));
    return;
  }
  ++answered_;
  const std::string_view given = request.header("x-request-id");
  const std::string id =
      api::is_request_id(given) ? std::string(given) : "req-start-" + std::to_string(answered_);
  http::Response response;
  if (request.path == "/livez") {
    response = api::health_response(api::Health::kOk);
  } else if (request.path == "/startupz") {
    response = startup();
  } else {
    response = api::error_response(api::model_loading(), id);
  }
  response.headers.push_back({"x-request-id", id});
  writer->send(std::move(response));
}

http::Response LoadingGate::startup() const {
  api::StartupState state;
  state.phase = "loading";
  state.total_bytes = total_bytes_.load(std::memory_order_relaxed);
  state.done_bytes = std::min(done_bytes_.load(std::memory_order_relaxed), state.total_bytes);
  if (state.done_bytes > 0) {
    const double elapsed = base::to_seconds(clock_.now() - started_);
    const auto left = static_cast<double>(state.total_bytes - state.done_bytes);
    state.eta_seconds = elapsed * left / static_cast<double>(state.done_bytes);
  }
  return api::startup_response(state);
}

}  // namespace bulkhead::serve
