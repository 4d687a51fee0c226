#include "api/integrity_route.h"

#include <fmt/format.h>

#include <string>

#include "api/request/json_input.h"
#include "base/json_writer.h"

namespace bulkhead::api {
namespace {

using wire::IntegrityMode;

constexpr std::string_view kRequireHeader = "x-require-integrity";

std::optional<IntegrityMode> parse_mode(std::string_view name) {
  for (const IntegrityMode mode :
       {IntegrityMode::kOff, IntegrityMode::kObserve, IntegrityMode::kAbort}) {
    if (to_string(mode) == name) return mode;
  }
  return std::nullopt;
}

ApiError not_available(IntegrityMode required, std::string_view actual) {
  return ApiError{412,
                  "invalid_request_error",
                  "integrity_not_available",
                  fmt::format("X-Require-Integrity asks for {}, and this server's pages are "
                              "watched in mode {}",
                              to_string(required), actual),
                  "X-Require-Integrity",
                  false};
}

std::string hex(uint64_t value) { return fmt::format("{:#x}", value); }

void write_event(base::JsonWriter& json, const wire::IntegrityEvent& event) {
  json.begin_object();
  json.key("number").value(event.number);
  json.key("kind").value(event.kind);
  json.key("phase").value(event.phase);
  json.key("request").value(event.request);
  json.key("entry").value(event.entry);
  json.key("found").begin_object();
  json.key("page").value(event.page);
  json.key("tag").value(hex(event.found_tag));
  json.key("label").value(hex(event.found_label));
  json.key("place").value(event.found_place);
  json.end_object();
  json.key("expected").begin_object();
  json.key("page").value(event.expected_page);
  json.key("tag").value(hex(event.expected_tag));
  json.key("label").value(hex(event.expected_label));
  json.end_object();
  json.key("history").begin_array();
  for (const std::string& moment : event.history) json.value(moment);
  json.end_array().end_object();
}

void write_pool(base::JsonWriter& json, const wire::IntegrityPool& pool) {
  json.begin_object();
  json.key("name").value(pool.name);
  json.key("mode").value(to_string(pool.mode));
  json.key("checks").value(pool.checks);
  json.key("pages_checked").value(pool.pages_checked);
  json.key("pages_scrubbed").value(pool.pages_scrubbed);
  json.key("mismatches").begin_object();
  for (const auto& [kind, number] : pool.mismatches) json.key(kind).value(number);
  json.end_object();
  json.key("quarantined_pages").begin_array();
  for (const int32_t page : pool.quarantined) json.value(page);
  json.end_array();
  json.key("events").begin_array();
  for (const wire::IntegrityEvent& event : pool.events) write_event(json, event);
  json.end_array().end_object();
}

void write_worker(base::JsonWriter& json, const wire::IntegrityWorker& worker) {
  json.begin_object();
  json.key("name").value(worker.name);
  json.key("present").value(worker.present);
  json.key("http");
  worker.http.empty() ? json.null() : json.value(worker.http);
  json.end_object();
}

void write_faults(base::JsonWriter& json, const wire::InjectedFaults& faults) {
  json.begin_object();
  json.key("enabled").value(faults.enabled);
  json.key("waiting").value(faults.waiting);
  json.key("done").begin_array();
  for (const wire::InjectedFault& one : faults.done) {
    json.begin_object();
    json.key("fault").value(one.fault);
    json.key("pool").value(one.pool);
    json.key("request").value(one.request);
    json.key("page").value(one.page);
    json.end_object();
  }
  json.end_array().end_object();
}

// An optional member that is a string.
Failure read_text(const boost::json::object& object, std::string_view name, std::string& out) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_string()) {
    return invalid_type(std::string(name), fmt::format("{} must be a string, but {} was given",
                                                       name, describe(*value)));
  }
  out = std::string(view(value->get_string()));
  return std::nullopt;
}

}  // namespace

std::optional<http::Header> integrity_header(const wire::IntegrityPort* port) {
  if (port == nullptr) return std::nullopt;
  return http::Header{"x-kv-integrity", std::string(to_string(port->mode()))};
}

Failure check_required_integrity(const http::Request& request, const wire::IntegrityPort* port) {
  if (request.header_count(kRequireHeader) == 0) return std::nullopt;
  const auto required = parse_mode(request.header(kRequireHeader));
  if (!required || request.header_count(kRequireHeader) > 1) {
    return invalid_value("X-Require-Integrity",
                         "the header X-Require-Integrity must be off, observe or abort");
  }
  if (*required == IntegrityMode::kOff) return std::nullopt;
  if (port == nullptr) return not_available(*required, "unknown, by its workers");
  if (port->mode() >= *required) return std::nullopt;
  return not_available(*required, to_string(port->mode()));
}

http::Response integrity_response(const wire::IntegrityPort* port,
                                  std::span<const wire::IntegrityWorker> workers) {
  base::JsonWriter json;
  json.begin_object();
  json.key("mode");
  port == nullptr ? json.null() : json.value(to_string(port->mode()));
  json.key("pools").begin_array();
  if (port != nullptr) {
    for (const wire::IntegrityPool& pool : port->report()) write_pool(json, pool);
  }
  json.end_array();
  json.key("workers").begin_array();
  for (const wire::IntegrityWorker& worker : workers) write_worker(json, worker);
  json.end_array();
  json.key("faults");
  write_faults(json, port == nullptr ? wire::InjectedFaults{} : port->injected());
  json.end_object();
  http::Response response;
  response.body = std::move(json).take();
  return response;
}

Failure inject_fault(std::string_view body, wire::IntegrityPort* port) {
  boost::json::object object;
  if (Failure failure = parse_object(body, object)) return failure;
  std::string fault;
  std::string pool;
  if (Failure failure = read_text(object, "fault", fault)) return failure;
  if (Failure failure = read_text(object, "pool", pool)) return failure;
  if (fault.empty()) return missing_parameter("fault", "fault is required");
  if (port == nullptr) return not_implemented("a gateway has no pages to damage");
  const base::Status ordered = port->inject(fault, pool);
  if (ordered.ok()) return std::nullopt;
  if (ordered.error().code == base::ErrorCode::kUnsupported) {
    return not_implemented(ordered.error().message);
  }
  return invalid_value(ordered.error().field, ordered.error().message);
}

}  // namespace bulkhead::api
