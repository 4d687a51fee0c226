#include "api/server_facts.h"

#include "base/json_writer.h"

namespace bulkhead::api {

Health health_of(const wire::GeneratorStatus& status, base::Nanoseconds now,
                 std::chrono::seconds stall_after) {
  const bool outstanding = status.running > 0 || status.waiting > 0;
  if (outstanding && now - status.last_progress > stall_after) return Health::kStalled;
  return status.draining ? Health::kDraining : Health::kOk;
}

http::Response health_response(Health health) {
  base::JsonWriter json;
  json.begin_object();
  switch (health) {
    case Health::kOk:
      json.key("status").value("ok");
      break;
    case Health::kDraining:
      json.key("status").value("draining");
      json.key("message").value("the server is shutting down");
      break;
    case Health::kStalled:
      json.key("status").value("stalled");
      json.key("message").value("requests are waiting and no step has completed lately");
      break;
  }
  json.end_object();
  http::Response response;
  response.status = health == Health::kOk ? 200 : 503;
  if (health == Health::kDraining) response.headers.push_back({"Retry-After", "1"});
  response.body = std::move(json).take();
  return response;
}

http::Response version_response(const std::string& version) {
  base::JsonWriter json;
  json.begin_object().key("version").value(version).end_object();
  http::Response response;
  response.body = std::move(json).take();
  return response;
}

}  // namespace bulkhead::api
