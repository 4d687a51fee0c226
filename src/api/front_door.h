// The way in and out of a server: every request gets a name, its route and a look at its key before
// anything reads it, and every answer of a route is counted, logged and marked.
//
// Threads: the I/O thread. Invariant: what admit() gives back has a route, may use it, and brings a
// body of the kind that the route takes; everybody else has been answered.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/auth.h"
#include "api/response_counts.h"
#include "api/route_table.h"
#include "base/clock.h"
#include "base/log.h"
#include "http/server.h"
#include "wire/integrity.h"
#include "wire/secrets.h"

namespace bulkhead::api {

// One request on its way through.
struct Visit {
  http::Request request;
  std::shared_ptr<http::ResponseWriter> writer;
  std::string request_id;
  const RouteSpec* route = nullptr;  // null: no such path
  Caller caller;
  base::Nanoseconds arrived{0};

  RouteId id() const { return route == nullptr ? RouteId::kOther : route->id; }
  // What follows the path of a route that ends in "/*".
  std::string_view name() const { return find_route(request.path).name; }
};

struct FrontDoorDeps {
  base::Logger& logger;
  const base::Clock& clock;
  ResponseCounts& responses;
  std::function<uint64_t()> entropy = wire::draw_word;  // makes names
  wire::IntegrityPort* integrity = nullptr;  // of this process's page pools; null: none are here
};

class FrontDoor {
 public:
  FrontDoor(FrontDoorDeps deps, KeyOptions keys);
  FrontDoor(const FrontDoor&) = delete;
  FrontDoor& operator=(const FrontDoor&) = delete;

  // Nothing: it was refused.
  std::optional<Visit> admit(http::Request request, std::shared_ptr<http::ResponseWriter> writer);
  void respond(const Visit& visit, http::Response response);
  void refuse(const Visit& visit, const ApiError& error);

  // 403 unless the caller is an admin.
  Failure check_admin(const Caller& caller) const { return keys_.check_admin(caller); }
  // From now on these open the door; the admin key stays.
  void replace_keys(std::vector<std::string> keys);

 private:
  Failure check(Visit& visit) const;

  const FrontDoorDeps deps_;
  KeyOptions options_;
  const KeyRing::Secret secret_ = KeyRing::random_secret();
  KeyRing keys_;
};

// What most answers are.
http::Response json_body(std::string json);
// The text of GET /metrics.
http::Response metrics_response(const telemetry::Registry& registry);

}  // namespace bulkhead::api
