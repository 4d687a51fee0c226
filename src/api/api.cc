#include "api/api.h"

#include <fmt/format.h>

#include <chrono>

#include "api/api_metrics.h"
#include "api/errors.h"
#include "api/front_door.h"
#include "api/generate_route.h"
#include "api/health_probe.h"
#include "api/integrity_route.h"
#include "api/live_requests.h"
#include "api/request/json_input.h"
#include "api/server_facts.h"
#include "api/text_routes.h"
#include "base/json_writer.h"
#include "wire/secrets.h"

namespace bulkhead::api {
namespace {

int64_t system_unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

ApiDeps with_defaults(ApiDeps deps) {
  if (!deps.unix_seconds) deps.unix_seconds = system_unix_seconds;
  if (!deps.entropy) deps.entropy = wire::draw_word;
  return deps;
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
        metrics(deps.registry, deps.generator),
        door({.logger = deps.logger,
              .clock = deps.clock,
              .responses = metrics.responses(),
              .entropy = deps.entropy,
              .integrity = deps.integrity},
             {options.keys, options.admin_key, options.loopback_only}),
        generation(deps, model, options, metrics, live),
        text(deps, model, generation),
        probe(deps, model, options) {}

  void handle(http::Request request, std::shared_ptr<http::ResponseWriter> writer);
  void answer(Visit& visit);
  http::Response facts(const Visit& visit) const;
  http::Response health() const;
  http::Response integrity() const;

  void answer_text(const Visit& visit);
  void answer_model(const Visit& visit);
  void probe_health(const Visit& visit);
  void generate(Visit& visit, Endpoint endpoint);
  void flush_cache(const Visit& visit);
  void abort(const Visit& visit);
  void abort_one(const Visit& visit);
  void inject(const Visit& visit);

  ApiDeps deps;
  const ModelCard model;
  const ApiOptions options;
  const base::Nanoseconds started;
  ApiMetrics metrics;
  FrontDoor door;
  LiveRequests live;
  GenerateRoute generation;
  const TextRoutes text;
  HealthProbe probe;
};

void Api::Core::handle(http::Request request, std::shared_ptr<http::ResponseWriter> writer) {
  if (auto visit = door.admit(std::move(request), std::move(writer))) answer(*visit);
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
      return door.refuse(
          visit, not_implemented(fmt::format("{} is not part of this build; text comes from "
                                             "/v1/chat/completions and /v1/completions",
                                             visit.route->path)));
    default:
      return door.respond(visit, facts(visit));
  }
}

// Whatever needs nothing but what the server knows.
http::Response Api::Core::facts(const Visit& visit) const {
  const wire::GenerateLimits& limits = deps.generator.limits();
  const FactSources sources{model, options, limits, deps.generator.status(),
                            base::to_seconds(deps.clock.now() - started)};
  switch (visit.route->action) {
    case Action::kTokenizerInfo:
      return json_body(text.tokenizer_info());
    case Action::kModels:
      return models_response(model, limits);
    case Action::kHealth:
      return health();
    case Action::kLive:
      return health_response(Health::kOk);  // the I/O thread's own answer
    case Action::kStartup:
      return startup_response({"ready", model.bytes, model.bytes, 0});
    case Action::kMetrics:
      return metrics_response(deps.registry);
    case Action::kServerInfo:
      return server_info_response(sources);
    case Action::kModelInfo:
      return model_info_response(sources);
    case Action::kLoads:
      return loads_response(sources, deps.unix_seconds());
    case Action::kIntegrity:
      return integrity();
    case Action::kLoad:
      return load_response(sources.status);
    default:
      return version_response(options.version);
  }
}

http::Response Api::Core::health() const {
  return health_response(health_of(deps.generator.status(), deps.clock.now(), options.stall_after));
}

http::Response Api::Core::integrity() const {
  return integrity_response(deps.integrity,
                            deps.workers ? deps.workers() : std::vector<wire::IntegrityWorker>{});
}

void Api::Core::answer_text(const Visit& visit) {
  std::string out;
  const std::string_view body = visit.request.body;
  const Action action = visit.route->action;
  const Failure failure = action == Action::kTokenize     ? text.tokenize(body, out)
                          : action == Action::kDetokenize ? text.detokenize(body, out)
                                                          : text.apply_template(body, out);
  if (failure) return door.refuse(visit, *failure);
  door.respond(visit, json_body(std::move(out)));
}

void Api::Core::answer_model(const Visit& visit) {
  if (visit.name() != model.id && visit.name() != model.root) {
    return door.refuse(visit, model_not_found(model.id, {}));
  }
  door.respond(visit, model_response(model, deps.generator.limits()));
}

void Api::Core::probe_health(const Visit& visit) {
  probe.ask([this, visit](Health health) { door.respond(visit, health_response(health)); });
}

void Api::Core::inject(const Visit& visit) {
  if (const Failure failure = inject_fault(visit.request.body, deps.integrity)) {
    return door.refuse(visit, *failure);
  }
  deps.logger.warning("a fault was ordered", {{"request_id", visit.request_id}});
  door.respond(visit, integrity());
}

void Api::Core::generate(Visit& visit, Endpoint endpoint) {
  if (const Failure failure = check_required_integrity(visit.request, deps.integrity)) {
    return door.refuse(visit, *failure);
  }
  GenerateCall call{visit.request, visit.writer,  visit.request_id,
                    visit.id(),    visit.arrived, visit.caller.tenant};
  if (const Failure failure = generation.start(call, endpoint)) {
    visit.request_id = call.request_id;
    door.refuse(visit, *failure);
  }
}

void Api::Core::flush_cache(const Visit& visit) {
  deps.generator.flush_cache();
  deps.logger.info("prefix cache flushed on demand", {{"request_id", visit.request_id}});
  base::JsonWriter json;
  json.begin_object().key("success").value(true);
  json.key("message").value("cached prompts are forgotten; pages in use stay with their requests");
  json.end_object();
  door.respond(visit, json_body(std::move(json).take()));
}

void Api::Core::abort(const Visit& visit) {
  AbortFields fields;
  if (const Failure failure = read_abort(visit.request.body, fields)) {
    return door.refuse(visit, *failure);
  }
  if (fields.all) {
    if (const Failure failure = door.check_admin(visit.caller)) return door.refuse(visit, *failure);
  }
  const size_t aborted =
      fields.all ? live.cancel_all() : live.cancel(fields.request_id, visit.caller);
  base::JsonWriter json;
  json.begin_object().key("aborted").value(uint64_t{aborted}).end_object();
  door.respond(visit, json_body(std::move(json).take()));
}

void Api::Core::abort_one(const Visit& visit) {
  const size_t aborted = live.cancel(visit.name(), visit.caller);
  if (aborted == 0) {
    return door.refuse(visit, ApiError{404,
                                       "not_found_error",
                                       "request_not_found",
                                       "no request of this key has that id now; it may have ended",
                                       {},
                                       false});
  }
  base::JsonWriter json;
  json.begin_object().key("aborted").value(uint64_t{aborted}).end_object();
  door.respond(visit, json_body(std::move(json).take()));
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
    core->door.replace_keys(std::move(keys));
  });
}

}  // namespace bulkhead::api
