#include "api/api.h"

#include <fmt/format.h>

#include <chrono>
#include <random>

#include "api/api_metrics.h"
#include "api/auth.h"
#include "api/errors.h"
#include "api/generate_route.h"
#include "api/health_probe.h"
#include "api/integrity_route.h"
#include "api/live_requests.h"
#include "api/request/json_input.h"
#include "api/request_log.h"
#include "api/route_table.h"
#include "api/server_facts.h"
#include "api/text_routes.h"
#include "api/timing_headers.h"
#include "base/json_writer.h"

namespace bulkhead::api {
namespace {

int64_t system_unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

uint64_t system_entropy() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

ApiDeps with_defaults(ApiDeps deps) {
  if (!deps.unix_seconds) deps.unix_seconds = system_unix_seconds;
  if (!deps.entropy) deps.entropy = system_entropy;
  return deps;
}

bool is_json(std::string_view content_type) {
  constexpr std::string_view kJson = "application/json";
  if (content_type.size() < kJson.size()) return false;
  for (size_t i = 0; i < kJson.size(); ++i) {
    const char c = content_type[i];
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (lower != kJson[i]) return false;
  }
  const std::string_view rest = content_type.substr(kJson.size());
  return rest.empty() || rest.front() == ';' || rest.front() == ' ';
}

ApiError not_found(std::string message) {
  return ApiError{404, "not_found_error", "not_found", std::move(message), {}, false};
}

ApiError method_not_allowed(std::string_view methods) {
  return ApiError{405,
                  "invalid_request_error",
                  "method_not_allowed",
                  fmt::format("this endpoint takes {} requests", methods),
                  {},
                  false};
}

ApiError unsupported_media_type() {
  return ApiError{415,
                  "invalid_request_error",
                  "unsupported_media_type",
                  "the body must be JSON: send the header 'Content-Type: application/json'",
                  {},
                  false};
}

http::Response with_body(std::string json) {
  http::Response response;
  response.body = std::move(json);
  return response;
}

struct AbortFields {
  std::string request_id;
  bool all = false;
};

Failure read_abort(std::string_view body, AbortFields& out) {
  boost::json::object object;
  if (Failure failure = parse_object(body, object)) return failure;
  if (const auto* all = object.if_contains("abort_all"); all != nullptr && !all->is_null()) {
    if (!all->is_bool()) {
      return invalid_type("abort_all",
                          "abort_all must be a boolean, but " + describe(*all) + " was given");
    }
    out.all = all->get_bool();
  }
  for (const char* name : {"rid", "request_id"}) {
    const auto* id = object.if_contains(name);
    if (id == nullptr || id->is_null()) continue;
    if (!id->is_string()) {
      return invalid_type(
          name, fmt::format("{} must be a string, but {} was given", name, describe(*id)));
    }
    if (out.request_id.empty()) out.request_id = std::string(view(id->get_string()));
  }
  if (out.request_id.empty() && !out.all) {
    return missing_parameter("rid", "one of rid, request_id and abort_all is required");
  }
  return std::nullopt;
}

}  // namespace

struct Api::Core {
  Core(ApiDeps given, ModelCard card, ApiOptions settings)
      : deps(with_defaults(std::move(given))),
        model(std::move(card)),
        options(std::move(settings)),
        started(deps.clock.now()),
        keys(key_options(options.keys), secret),
        metrics(deps.registry, deps.generator),
        generation(deps, model, options, metrics, live),
        text(deps, model, generation),
        probe(deps, model, options) {}

  // One request on its way through the front door.
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

  KeyOptions key_options(std::vector<std::string> api_keys) const {
    return {std::move(api_keys), options.admin_key, options.loopback_only};
  }

  void handle(http::Request request, std::shared_ptr<http::ResponseWriter> writer);
  Failure check(Visit& visit) const;
  void respond(const Visit& visit, http::Response response);
  void refuse(const Visit& visit, const ApiError& error);
  void answer(Visit& visit);
  http::Response facts(const Visit& visit) const;
  http::Response health() const;
  http::Response metrics_text() const;

  void answer_text(const Visit& visit);
  void answer_model(const Visit& visit);
  void probe_health(const Visit& visit);
  void generate(Visit& visit, Endpoint endpoint);
  void flush_cache(const Visit& visit);
  void abort(const Visit& visit);
  void abort_one(const Visit& visit);
  void inject(const Visit& visit);
  std::string random_name(std::string_view prefix) const;

  ApiDeps deps;
  const ModelCard model;
  const ApiOptions options;
  const base::Nanoseconds started;
  const KeyRing::Secret secret = KeyRing::random_secret();
  KeyRing keys;  // I/O thread
  ApiMetrics metrics;
  LiveRequests live;
  GenerateRoute generation;
  const TextRoutes text;
  HealthProbe probe;
};

void Api::Core::handle(http::Request request, std::shared_ptr<http::ResponseWriter> writer) {
  Visit visit;
  visit.arrived = deps.clock.now();
  const std::string_view id = request.header("x-request-id");
  visit.request_id = is_request_id(id) ? std::string(id) : random_name("req-");
  visit.request = std::move(request);
  visit.writer = std::move(writer);
  visit.route = find_route(visit.request.path).spec;
  if (const Failure failure = check(visit)) return refuse(visit, *failure);
  answer(visit);
}

// The checks that come before the body is looked at.
Failure Api::Core::check(Visit& visit) const {
  const RouteSpec* route = visit.route;
  if (route == nullptr || route->access != Access::kOpen) {
    if (Failure failure = keys.check(visit.request, visit.caller)) return failure;
  }
  if (route == nullptr) {
    return not_found("there is no such endpoint; docs/api.md lists those there are");
  }
  if (!takes_method(*route, visit.request.method)) return method_not_allowed(route->methods);
  if (route->access == Access::kAdmin) {
    if (Failure failure = keys.check_admin(visit.caller)) return failure;
  }
  if (route->takes_json && !is_json(visit.request.header("content-type"))) {
    return unsupported_media_type();
  }
  return std::nullopt;
}

void Api::Core::respond(const Visit& visit, http::Response response) {
  const base::Nanoseconds since_arrival = deps.clock.now() - visit.arrived;
  metrics.count_response(visit.id(), response.status);
  log_answered(deps.logger, visit.request_id, visit.id(), response.status, since_arrival);
  response.headers.push_back({"x-request-id", visit.request_id});
  response.headers.push_back(processing_header(since_arrival));
  if (const auto header = integrity_header(deps.integrity)) response.headers.push_back(*header);
  visit.writer->send(std::move(response));
}

void Api::Core::refuse(const Visit& visit, const ApiError& error) {
  http::Response response = error_response(error, visit.request_id);
  if (error.status == 405) {
    response.headers.push_back({"Allow", std::string(visit.route->methods)});
  }
  respond(visit, std::move(response));
}

void Api::Core::answer(Visit& visit) {
  switch (visit.route->action) {
    case Action::kChat:
      return generate(visit, kChat);
    case Action::kCompletions:
      return generate(visit, kCompletions);
    case Action::kTokenize:
    case Action::kDetokenize:
    case Action::kApplyTemplate:
      return answer_text(visit);
    case Action::kModel:
      return answer_model(visit);
    case Action::kHealthGenerate:
      return probe_health(visit);
    case Action::kFlushCache:
      return flush_cache(visit);
    case Action::kAbort:
      return abort(visit);
    case Action::kAbortOne:
      return abort_one(visit);
    case Action::kInjectFault:
      return inject(visit);
    case Action::kNotImplemented:
      return refuse(visit,
                    not_implemented(fmt::format("{} is not part of this build; text comes from "
                                                "/v1/chat/completions and /v1/completions",
                                                visit.route->path)));
    default:
      return respond(visit, facts(visit));
  }
}

// Whatever needs nothing but what the server knows.
http::Response Api::Core::facts(const Visit& visit) const {
  const wire::GenerateLimits& limits = deps.generator.limits();
  const FactSources sources{model, options, limits, deps.generator.status(),
                            base::to_seconds(deps.clock.now() - started)};
  switch (visit.route->action) {
    case Action::kTokenizerInfo:
      return with_body(text.tokenizer_info());
    case Action::kModels:
      return models_response(model, limits);
    case Action::kHealth:
      return health();
    case Action::kLive:
      return health_response(Health::kOk);  // the I/O thread's own answer
    case Action::kStartup:
      return startup_response({"ready", model.bytes, model.bytes, 0});
    case Action::kMetrics:
      return metrics_text();
    case Action::kServerInfo:
      return server_info_response(sources);
    case Action::kModelInfo:
      return model_info_response(sources);
    case Action::kLoads:
      return loads_response(sources, deps.unix_seconds());
    case Action::kIntegrity:
      return integrity_response(deps.integrity);
    case Action::kLoad:
      return load_response(sources.status);
    default:
      return version_response(options.version);
  }
}

http::Response Api::Core::health() const {
  return health_response(health_of(deps.generator.status(), deps.clock.now(), options.stall_after));
}

http::Response Api::Core::metrics_text() const {
  http::Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = deps.registry.expose();
  return response;
}

void Api::Core::answer_text(const Visit& visit) {
  std::string out;
  const std::string_view body = visit.request.body;
  const Action action = visit.route->action;
  const Failure failure = action == Action::kTokenize     ? text.tokenize(body, out)
                          : action == Action::kDetokenize ? text.detokenize(body, out)
                                                          : text.apply_template(body, out);
  if (failure) return refuse(visit, *failure);
  respond(visit, with_body(std::move(out)));
}

void Api::Core::answer_model(const Visit& visit) {
  if (visit.name() != model.id && visit.name() != model.root) {
    return refuse(visit, model_not_found(model.id, {}));
  }
  respond(visit, model_response(model, deps.generator.limits()));
}

void Api::Core::probe_health(const Visit& visit) {
  probe.ask([this, visit](Health health) { respond(visit, health_response(health)); });
}

void Api::Core::inject(const Visit& visit) {
  if (const Failure failure = inject_fault(visit.request.body, deps.integrity)) {
    return refuse(visit, *failure);
  }
  deps.logger.warning("a fault was ordered", {{"request_id", visit.request_id}});
  respond(visit, integrity_response(deps.integrity));
}

void Api::Core::generate(Visit& visit, Endpoint endpoint) {
  if (const Failure failure = check_required_integrity(visit.request, deps.integrity)) {
    return refuse(visit, *failure);
  }
  GenerateCall call{visit.request, visit.writer,  visit.request_id,
                    visit.id(),    visit.arrived, visit.caller.tenant};
  if (const Failure failure = generation.start(call, endpoint)) {
    visit.request_id = call.request_id;
    refuse(visit, *failure);
  }
}

void Api::Core::flush_cache(const Visit& visit) {
  deps.generator.flush_cache();
  deps.logger.info("prefix cache flushed on demand", {{"request_id", visit.request_id}});
  base::JsonWriter json;
  json.begin_object().key("success").value(true);
  json.key("message").value("cached prompts are forgotten; pages in use stay with their requests");
  json.end_object();
  respond(visit, with_body(std::move(json).take()));
}

void Api::Core::abort(const Visit& visit) {
  AbortFields fields;
  if (const Failure failure = read_abort(visit.request.body, fields)) {
    return refuse(visit, *failure);
  }
  if (fields.all) {
    if (const Failure failure = keys.check_admin(visit.caller)) return refuse(visit, *failure);
  }
  const size_t aborted =
      fields.all ? live.cancel_all() : live.cancel(fields.request_id, visit.caller);
  base::JsonWriter json;
  json.begin_object().key("aborted").value(uint64_t{aborted}).end_object();
  respond(visit, with_body(std::move(json).take()));
}

void Api::Core::abort_one(const Visit& visit) {
  const size_t aborted = live.cancel(visit.name(), visit.caller);
  if (aborted == 0) {
    return refuse(visit, ApiError{404,
                                  "not_found_error",
                                  "request_not_found",
                                  "no request of this key has that id now; it may have ended",
                                  {},
                                  false});
  }
  base::JsonWriter json;
  json.begin_object().key("aborted").value(uint64_t{aborted}).end_object();
  respond(visit, with_body(std::move(json).take()));
}

std::string Api::Core::random_name(std::string_view prefix) const {
  return fmt::format("{}{:016x}{:016x}", prefix, deps.entropy(), deps.entropy());
}

Api::Api(ApiDeps deps, ModelCard model, ApiOptions options)
    : core_(std::make_unique<Core>(std::move(deps), std::move(model), std::move(options))) {}

Api::~Api() = default;

http::Handler Api::handler() {
  return [core = core_.get()](http::Request request, std::shared_ptr<http::ResponseWriter> writer) {
    core->handle(std::move(request), std::move(writer));
  };
}

void Api::replace_keys(std::vector<std::string> keys) {
  core_->deps.post([core = core_.get(), keys = std::move(keys)]() mutable {
    core->keys = KeyRing(core->key_options(std::move(keys)), core->secret);
  });
}

}  // namespace bulkhead::api
