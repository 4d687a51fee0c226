#include "api/generate_route.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "api/request/continuation.h"
#include "api/request/json_input.h"

namespace bulkhead::api {
namespace {

constexpr std::string_view kTimeoutHeader = "x-request-timeout-ms";
constexpr int32_t kPriorityMax = std::numeric_limits<int32_t>::max();

ApiError busy() {
  return ApiError{429,
                  "rate_limit_error",
                  "capacity_exceeded",
                  "the request would have to wait, and options.rejectIfBusy says that it must not",
                  {},
                  true};
}

// The same order the other way round; the lowest number has no negative.
int32_t reversed(int32_t priority) { return -std::max(priority, -kPriorityMax); }

// The header's milliseconds; nothing where there is none.
Failure read_timeout(const http::Request& request, std::optional<int64_t>& out) {
  const std::string_view text = request.header(kTimeoutHeader);
  if (request.header_count(kTimeoutHeader) == 0) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 ||
      value > kDeadlineMillisecondsMax) {
    return invalid_value("X-Request-Timeout-Ms",
                         fmt::format("the header X-Request-Timeout-Ms must be a whole number from "
                                     "1 to {}",
                                     kDeadlineMillisecondsMax));
  }
  out = value;
  return std::nullopt;
}

// Two keys never share a session, whatever their clients call it.
uint64_t session_of(const TenantDigest& tenant, std::string_view name) {
  if (name.empty()) return 0;
  std::vector<uint8_t> bytes(tenant.begin(), tenant.end());
  bytes.insert(bytes.end(), name.begin(), name.end());
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256(bytes.data(), bytes.size(), digest.data());
  uint64_t session = 0;
  for (size_t i = 0; i < sizeof(session); ++i) session = session << 8 | digest[i];
  return std::max<uint64_t>(session, 1);
}

// A salt makes another tenant of its key.
TenantDigest salted_tenant(const TenantDigest& tenant, std::string_view salt) {
  std::vector<uint8_t> bytes(tenant.begin(), tenant.end());
  bytes.insert(bytes.end(), salt.begin(), salt.end());
  TenantDigest out{};
  SHA256(bytes.data(), bytes.size(), out.data());
  return out;
}

}  // namespace

GenerateRoute::GenerateRoute(const ApiDeps& deps, const ModelCard& model, const ApiOptions& options,
                             ApiMetrics& metrics, LiveRequests& live)
    : deps_(deps),
      model_(model),
      options_(options),
      encoder_(deps.tokenizer),
      dialect_(deps, model),
      services_{deps.generator, deps.tokenizer, metrics, deps.logger, deps.clock, deps.post,
                model.defaults.eos_ids, options.backlog_events_max, deps.constraints,
                // As OpenAI's look.
                [&deps] {
                  return fmt::format("call_{:016x}{:08x}", deps.entropy(),
                                     static_cast<uint32_t>(deps.entropy()));
                },
                deps.integrity},
      live_(live) {}

Failure GenerateRoute::start(GenerateCall& call, Endpoint endpoint) {
  GenerationPlan plan;
  if (Failure failure = prepare(call, endpoint, plan)) return failure;
  AnswerHead head = head_of(plan, endpoint);
  const std::vector<std::string> names = {call.request_id, head.id};
  AnswerInput input;
  input.format = endpoint == kChat ? make_chat_format(std::move(head), deps_.tokenizer)
                                   : make_completion_format(std::move(head), deps_.tokenizer);
  input.plan = std::move(plan);
  input.writer = call.writer;
  input.request_id = call.request_id;
  input.route = call.route;
  input.arrived = call.arrived;
  const uint64_t entry = ++last_running_;
  input.on_end = [this, entry] { running_.erase(entry); };
  const auto answer = std::make_shared<Answer>(services_, std::move(input));
  running_[entry] = live_.add(names, call.tenant, [weak = std::weak_ptr<Answer>(answer)] {
    if (const auto running = weak.lock()) running->abort();
  });
  answer->start();
  return std::nullopt;
}

AnswerHead GenerateRoute::head_of(const GenerationPlan& plan, Endpoint endpoint) const {
  AnswerHead head;
  head.id = random_name(endpoint == kChat ? "chatcmpl-" : "cmpl-");
  head.created = deps_.unix_seconds();
  head.model = model_.id;
  head.usage_in_chunks = plan.include_usage || plan.continuous_usage;
  head.service_tier = plan.service_tier;
  head.token_ids = plan.output.token_ids;
  head.token_id_names = plan.token_id_names;
  head.reasoning_field = options_.reasoning_field;
  head.logprobs = plan.request.sampling.top_logprobs;
  head.prompt_logprobs = plan.prompt_logprobs;
  return head;
}

Failure GenerateRoute::prepare(GenerateCall& call, Endpoint endpoint, GenerationPlan& out) const {
  boost::json::object body;
  if (Failure failure = parse_object(call.request.body, body)) return failure;
  const wire::GenerateLimits& limits = deps_.generator.limits();
  RequestFields fields;
  if (Failure failure = decode_fields(body, endpoint, {limits.vocabulary_size}, fields)) {
    return failure;
  }
  // As in vLLM, the header's name goes before the body's.
  if (!is_request_id(call.request.header("x-request-id"))) {
    const auto& name = fields.request_id ? fields.request_id : fields.rid;
    if (name) call.request_id = *name;
  }
  if (Failure failure = check_model(fields)) return failure;
  std::vector<PromptPlan> prompts;
  std::shared_ptr<const OutputMarkup> markup;
  if (Failure failure = endpoint == kChat ? plan_chat(fields, prompts.emplace_back(), markup)
                                          : plain_prompts(fields, prompts)) {
    return failure;
  }
  if (Failure failure = plan_generation(fields, endpoint, std::move(prompts), model_.defaults,
                                        limits, deps_.entropy(), out)) {
    return failure;
  }
  out.output.markup = std::move(markup);
  const TenantDigest salted = salted_tenant(call.tenant, fields.cache_salt);
  out.request.cache = cache_scope(salted, fields);
  if (out.constraint) out.constraint->scope = salted;
  out.request.session = session_of(call.tenant, call.request.header("x-session-affinity"));
  if (options_.higher_priority_first) out.request.priority = reversed(out.request.priority);
  if (Failure failure = set_deadline(call, fields, out)) return failure;
  return fields.reject_if_busy ? check_busy(out) : std::nullopt;
}

Failure GenerateRoute::set_deadline(const GenerateCall& call, const RequestFields& fields,
                                    GenerationPlan& out) const {
  std::optional<int64_t> header;
  if (Failure failure = read_timeout(call.request, header)) return failure;
  std::optional<base::Nanoseconds> shortest = options_.request_timeout;
  for (const std::optional<int64_t>& given : {fields.deadline_ms, header}) {
    if (!given) continue;
    const base::Nanoseconds time = std::chrono::milliseconds(*given);
    shortest = shortest ? std::min(*shortest, time) : time;
  }
  if (shortest) out.request.deadline = call.arrived + *shortest;
  return std::nullopt;
}

// Judged when the request arrives; whoever comes in the same moment may still be first.
Failure GenerateRoute::check_busy(const GenerationPlan& plan) const {
  const wire::GeneratorStatus status = deps_.generator.status();
  const wire::GenerateLimits& limits = deps_.generator.limits();
  const size_t choices = plan.prompts.size() * static_cast<size_t>(plan.n);
  if (status.waiting > 0 || status.running + choices > limits.running_max) return busy();
  // Prompts have to fit where prefill runs.
  const bool split = status.prefill_pages.has_value();
  const wire::PageGauges& pool = split ? *status.prefill_pages : status.pages;
  const int32_t cache_tokens = split ? limits.prefill_cache_tokens : limits.cache_tokens;
  if (pool.total <= 0) return std::nullopt;
  const int64_t page_tokens = std::max(cache_tokens / pool.total, 1);
  int64_t pages = 0;
  int64_t promised = 0;  // by a decode pool of its own: each choice's longest answer
  for (const PromptPlan& prompt : plan.prompts) {
    const auto ids = static_cast<int64_t>(prompt.ids.size());
    pages += ids / page_tokens + 1;
    promised += plan.n * ((ids + prompt.max_tokens + page_tokens - 1) / page_tokens);
  }
  if (split && promised > status.pages.free) return busy();
  const int64_t free = int64_t{pool.free} + pool.cached;
  return pages > free ? Failure(busy()) : std::nullopt;
}

// Nobody else can name a random tenant, and who may leave nothing in the index shares its prompt
// among its own choices only.
wire::CacheScope GenerateRoute::cache_scope(const TenantDigest& salted,
                                            const RequestFields& fields) const {
  wire::CacheScope scope{.tenant = salted};
  if (!fields.cache_prompt.value_or(true)) {
    for (size_t i = 0; i < scope.tenant.size(); i += sizeof(uint64_t)) {
      const uint64_t bits = deps_.entropy();
      for (size_t k = 0; k < sizeof(uint64_t); ++k) {
        scope.tenant[i + k] = static_cast<uint8_t>(bits >> (8 * k));
      }
    }
    scope.insert = fields.n.value_or(1) > 1;
  }
  return scope;
}

Failure GenerateRoute::check_model(const RequestFields& fields) const {
  if (!fields.model || *fields.model == model_.id || *fields.model == model_.root) {
    return std::nullopt;
  }
  return model_not_found(model_.id, "model");
}

Failure GenerateRoute::render_chat(RequestFields& fields, RenderedChat& out) const {
  if (deps_.chat_template == nullptr) {
    return invalid_request("chat_template_missing", {},
                           "this model has no chat template; use /v1/completions");
  }
  const bool continues = fields.continue_final_message.value_or(false) || fields.partial;
  const boost::json::value& last = fields.messages.get_array().back();
  if (continues && last.at("role").get_string() != "assistant") {
    return invalid_value("continue_final_message",
                         "the last message must be the assistant's to be continued");
  }
  const std::string content(view(last.at("content").get_string()));
  chat::RenderInput input;
  dialect_.fill(fields, input);
  input.add_generation_prompt = fields.add_generation_prompt.value_or(!continues);
  input.bos_token = model_.bos_token;
  input.eos_token = model_.eos_token;
  input.now_unix_seconds = deps_.unix_seconds();
  base::Result<chat::Prompt> prompt = deps_.chat_template->render(input);
  if (!prompt) {
    return invalid_value("messages", "the model's chat template refuses this conversation: " +
                                         prompt.error().message);
  }
  if (continues && !end_inside_message(*prompt, content)) {
    return unsupported_parameter(
        fields.partial ? "messages" : "continue_final_message",
        "the last message is empty or the model's chat template changes it, so that it cannot be "
        "continued");
  }
  out.prompt = std::move(prompt).value();
  out.start = continues ? chat::thinking_start(content) : chat::thinking_start(out.prompt);
  return std::nullopt;
}

Failure GenerateRoute::plain_prompts(RequestFields& fields, std::vector<PromptPlan>& out) const {
  for (PromptInput& input : fields.prompts) {
    if (Failure failure = plain_prompt(input, out.emplace_back())) return failure;
  }
  return std::nullopt;
}

Failure GenerateRoute::plan_chat(RequestFields& fields, PromptPlan& prompt,
                                 std::shared_ptr<const OutputMarkup>& markup) const {
  if (Failure failure = dialect_.check(fields)) return failure;
  dialect_.require_calls(fields);
  const auto schemas = dialect_.schemas(fields);
  RenderedChat chat;
  if (Failure failure = render_chat(fields, chat)) return failure;
  size_t bytes = 0;
  for (const chat::PromptSegment& segment : chat.prompt.segments) bytes += segment.text.size();
  if (Failure failure = check_bytes(bytes)) return failure;
  prompt.ids = encoder_.encode(chat.prompt);
  dialect_.let_think(fields, chat.start);
  markup = dialect_.markup(fields, chat.start, schemas);
  return std::nullopt;
}

Failure GenerateRoute::plain_prompt(PromptInput& input, PromptPlan& out) const {
  if (auto* ids = std::get_if<std::vector<wire::TokenId>>(&input)) {
    out.ids = std::move(*ids);
    return std::nullopt;
  }
  const auto& text = std::get<std::string>(input);
  if (Failure failure = check_bytes(text.size())) return failure;
  out.ids = encoder_.encode_plain(text);
  out.hidden = deps_.tokenizer.prefix_ids().size();
  return std::nullopt;
}

// What cannot fit whatever its tokens are is refused before the tokenizer spends time on it.
Failure GenerateRoute::check_bytes(size_t bytes) const {
  const int64_t limit = context_limit(deps_.generator.limits());
  if (bytes <= encoder_.bytes_max(limit)) return std::nullopt;
  return context_overflow(fmt::format(
      "the context holds {} tokens and the prompt of {} bytes has more; shorten it", limit, bytes));
}

std::string GenerateRoute::random_name(std::string_view prefix) const {
  return fmt::format("{}{:016x}{:016x}", prefix, deps_.entropy(), deps_.entropy());
}

}  // namespace bulkhead::api
