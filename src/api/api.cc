#include "api/api.h"

#include <fmt/format.h>

#include <chrono>
#include <random>

#include "api/answer/generation.h"
#include "api/api_metrics.h"
#include "api/auth.h"
#include "api/errors.h"
#include "api/request/generation_plan.h"
#include "api/request/json_input.h"
#include "api/request/prompt_encoder.h"
#include "api/request/request_fields.h"
#include "api/server_facts.h"

namespace bulkhead::api {
namespace {

constexpr std::string_view kModelsPrefix = "/v1/models/";
constexpr size_t kRequestIdMax = 128;

int64_t system_unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

uint64_t system_entropy() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

// Clients' ids go back into a header and into logs, so only plain characters pass.
bool is_request_id(std::string_view id) {
  if (id.empty() || id.size() > kRequestIdMax) return false;
  for (const char c : id) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (!letter && !digit && c != '-' && c != '_' && c != '.' && c != ':') return false;
  }
  return true;
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

ApiError unsupported_media_type() {
  return ApiError{415,
                  "invalid_request_error",
                  "unsupported_media_type",
                  "the body must be JSON: send the header 'Content-Type: application/json'",
                  {},
                  false};
}

struct Route {
  RouteId id = RouteId::kOther;
  std::string_view method;  // empty: no such path
};

Route route_of(std::string_view path) {
  if (path == "/v1/chat/completions") return {RouteId::kChat, "POST"};
  if (path == "/v1/completions") return {RouteId::kCompletions, "POST"};
  if (path == "/v1/models" || (path.starts_with(kModelsPrefix) && path != kModelsPrefix)) {
    return {RouteId::kModels, "GET"};
  }
  if (path == "/health" || path == "/livez" || path == "/readyz") return {RouteId::kHealth, "GET"};
  if (path == "/metrics") return {RouteId::kMetrics, "GET"};
  if (path == "/version") return {RouteId::kVersion, "GET"};
  return {};
}

}  // namespace

struct Api::Core {
  Core(ApiDeps given, ModelCard card, ApiOptions settings)
      : deps(std::move(given)),
        model(std::move(card)),
        options(std::move(settings)),
        keys(options.keys),
        metrics(deps.registry, deps.generator),
        encoder(deps.tokenizer),
        services{deps.generator,
                 deps.tokenizer,
                 metrics,
                 deps.logger,
                 deps.clock,
                 deps.post,
                 model.defaults.eos_ids,
                 options.backlog_events_max} {
    if (!deps.unix_seconds) deps.unix_seconds = system_unix_seconds;
    if (!deps.entropy) deps.entropy = system_entropy;
  }

  // One request on its way through the front door.
  struct Visit {
    http::Request request;
    std::shared_ptr<http::ResponseWriter> writer;
    std::string request_id;
    Route route;
    base::Nanoseconds arrived{0};
  };

  void handle(http::Request request, std::shared_ptr<http::ResponseWriter> writer);
  Failure check(const Visit& visit) const;
  void respond(const Visit& visit, http::Response response);
  void answer(Visit& visit);
  http::Response health(const http::Request& request) const;
  http::Response metrics_text() const;
  void answer_model(const Visit& visit);

  void generate(Visit& visit, Endpoint endpoint);
  Failure prepare(const http::Request& request, Endpoint endpoint, GenerationPlan& out) const;
  Failure check_model(const RequestFields& fields) const;
  Failure chat_prompt(RequestFields& fields, std::vector<wire::TokenId>& out) const;
  Failure plain_prompt(RequestFields& fields, std::vector<wire::TokenId>& out) const;
  Failure check_bytes(size_t bytes) const;
  std::string random_name(std::string_view prefix) const;

  ApiDeps deps;
  const ModelCard model;
  const ApiOptions options;
  const KeyRing keys;
  ApiMetrics metrics;
  const PromptEncoder encoder;
  const GenerationServices services;
};

void Api::Core::handle(http::Request request, std::shared_ptr<http::ResponseWriter> writer) {
  Visit visit;
  visit.arrived = deps.clock.now();
  const std::string_view id = request.header("x-request-id");
  visit.request_id = is_request_id(id) ? std::string(id) : random_name("req-");
  visit.route = route_of(request.path);
  visit.request = std::move(request);
  visit.writer = std::move(writer);
  if (const Failure failure = check(visit)) {
    http::Response response = error_response(*failure, visit.request_id);
    if (failure->status == 405) {
      response.headers.push_back({"Allow", std::string(visit.route.method)});
    }
    respond(visit, std::move(response));
    return;
  }
  answer(visit);
}

// The checks that come before the body is looked at.
Failure Api::Core::check(const Visit& visit) const {
  if (visit.route.id != RouteId::kHealth) {
    if (Failure failure = keys.check(visit.request)) return failure;
  }
  if (visit.route.method.empty()) {
    return not_found("there is no such endpoint; docs/api.md lists those there are");
  }
  if (visit.request.method != visit.route.method) {
    return ApiError{405,
                    "invalid_request_error",
                    "method_not_allowed",
                    fmt::format("this endpoint takes {} requests", visit.route.method),
                    {},
                    false};
  }
  if (visit.route.method == "POST" && !is_json(visit.request.header("content-type"))) {
    return unsupported_media_type();
  }
  return std::nullopt;
}

void Api::Core::respond(const Visit& visit, http::Response response) {
  metrics.count_response(visit.route.id, response.status);
  response.headers.push_back({"x-request-id", visit.request_id});
  visit.writer->send(std::move(response));
}

void Api::Core::answer(Visit& visit) {
  switch (visit.route.id) {
    case RouteId::kChat:
      return generate(visit, kChat);
    case RouteId::kCompletions:
      return generate(visit, kCompletions);
    case RouteId::kModels:
      return answer_model(visit);
    case RouteId::kHealth:
      return respond(visit, health(visit.request));
    case RouteId::kMetrics:
      return respond(visit, metrics_text());
    case RouteId::kVersion:
      return respond(visit, version_response(options.version));
    case RouteId::kOther:
      return respond(visit, error_response(internal_error(), visit.request_id));
  }
}

http::Response Api::Core::health(const http::Request& request) const {
  // Alive is the I/O thread's own answer; the other two ask the generator.
  if (request.path == "/livez") return health_response(Health::kOk);
  return health_response(health_of(deps.generator.status(), deps.clock.now(), options.stall_after));
}

http::Response Api::Core::metrics_text() const {
  http::Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = deps.registry.expose();
  return response;
}

void Api::Core::answer_model(const Visit& visit) {
  const std::string_view path = visit.request.path;
  if (path == "/v1/models") return respond(visit, models_response(model, deps.generator.limits()));
  const std::string_view id = path.substr(kModelsPrefix.size());
  if (id == model.id || id == model.root) {
    return respond(visit, model_response(model, deps.generator.limits()));
  }
  const ApiError error{404,
                       "not_found_error",
                       "model_not_found",
                       fmt::format("this server serves the model '{}' only", model.id),
                       {},
                       false};
  respond(visit, error_response(error, visit.request_id));
}

void Api::Core::generate(Visit& visit, Endpoint endpoint) {
  GenerationPlan plan;
  if (const Failure failure = prepare(visit.request, endpoint, plan)) {
    return respond(visit, error_response(*failure, visit.request_id));
  }
  if (options.request_timeout) plan.request.deadline = visit.arrived + *options.request_timeout;
  AnswerHead head;
  head.id = random_name(endpoint == kChat ? "chatcmpl-" : "cmpl-");
  head.created = deps.unix_seconds();
  head.model = model.id;
  head.usage_in_chunks = plan.include_usage || plan.continuous_usage;
  head.logprobs = plan.output.logprobs;
  GenerationInput request;
  request.plan = std::move(plan);
  request.format = endpoint == kChat ? make_chat_format(std::move(head), deps.tokenizer)
                                     : make_completion_format(std::move(head), deps.tokenizer);
  request.writer = visit.writer;
  request.request_id = visit.request_id;
  request.route = visit.route.id;
  request.arrived = visit.arrived;
  std::make_shared<Generation>(services, std::move(request))->start();
}

Failure Api::Core::prepare(const http::Request& request, Endpoint endpoint,
                           GenerationPlan& out) const {
  boost::json::object body;
  if (Failure failure = parse_object(request.body, body)) return failure;
  const wire::GenerateLimits& limits = deps.generator.limits();
  RequestFields fields;
  if (Failure failure = decode_fields(body, endpoint, {limits.vocabulary_size}, fields)) {
    return failure;
  }
  if (Failure failure = check_model(fields)) return failure;
  std::vector<wire::TokenId> prompt;
  if (Failure failure =
          endpoint == kChat ? chat_prompt(fields, prompt) : plain_prompt(fields, prompt)) {
    return failure;
  }
  return plan_generation(fields, endpoint, std::move(prompt), model.defaults, limits,
                         deps.entropy(), out);
}

Failure Api::Core::check_model(const RequestFields& fields) const {
  if (!fields.model || *fields.model == model.id || *fields.model == model.root) {
    return std::nullopt;
  }
  return ApiError{404,
                  "not_found_error",
                  "model_not_found",
                  fmt::format("this server serves the model '{}' only", model.id),
                  "model",
                  false};
}

Failure Api::Core::chat_prompt(RequestFields& fields, std::vector<wire::TokenId>& out) const {
  if (deps.chat_template == nullptr) {
    return invalid_request("chat_template_missing", {},
                           "this model has no chat template; use /v1/completions");
  }
  chat::RenderInput input;
  input.messages = std::move(fields.messages);
  if (fields.tools_allowed) input.tools = std::move(fields.tools);
  input.extra = std::move(fields.chat_template_kwargs);
  input.add_generation_prompt = fields.add_generation_prompt.value_or(true);
  input.bos_token = model.bos_token;
  input.eos_token = model.eos_token;
  input.now_unix_seconds = deps.unix_seconds();
  base::Result<chat::Prompt> prompt = deps.chat_template->render(input);
  if (!prompt) {
    return invalid_value("messages", "the model's chat template refuses this conversation: " +
                                         prompt.error().message);
  }
  size_t bytes = 0;
  for (const chat::PromptSegment& segment : prompt->segments) bytes += segment.text.size();
  if (Failure failure = check_bytes(bytes)) return failure;
  out = encoder.encode(*prompt);
  return std::nullopt;
}

Failure Api::Core::plain_prompt(RequestFields& fields, std::vector<wire::TokenId>& out) const {
  if (fields.prompt_ids) {
    out = std::move(*fields.prompt_ids);
    return std::nullopt;
  }
  if (Failure failure = check_bytes(fields.prompt_text.size())) return failure;
  out = encoder.encode_plain(fields.prompt_text);
  return std::nullopt;
}

// What cannot fit whatever its tokens are is refused before the tokenizer spends time on it.
Failure Api::Core::check_bytes(size_t bytes) const {
  const int64_t limit = context_limit(deps.generator.limits());
  if (bytes <= encoder.bytes_max(limit)) return std::nullopt;
  return context_overflow(fmt::format(
      "the context holds {} tokens and the prompt of {} bytes has more; shorten it", limit, bytes));
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

}  // namespace bulkhead::api
