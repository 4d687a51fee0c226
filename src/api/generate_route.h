// The way from a request for text to running generations: body, prompts, plan, answer.
//
// Threads: the I/O thread only. Invariants: a request either starts one answer or is refused with
// nothing submitted; whatever is submitted was checked here; what runs can be aborted by name.
// Life: outlives the generator's last event.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer/answer.h"
#include "api/api.h"
#include "api/api_metrics.h"
#include "api/auth.h"
#include "api/errors.h"
#include "api/live_requests.h"
#include "api/request/chat_dialect.h"
#include "api/request/field_readers.h"
#include "api/request/generation_plan.h"
#include "api/request/prompt_encoder.h"
#include "api/request/request_fields.h"

namespace bulkhead::api {

struct GenerateCall {
  const http::Request& request;
  std::shared_ptr<http::ResponseWriter> writer;
  std::string request_id;
  RouteId route = RouteId::kChat;
  base::Nanoseconds arrived{0};
  TenantDigest tenant{};
};

// A chat's prompt, and what it says of the answer's beginning.
struct RenderedChat {
  chat::Prompt prompt;
  chat::ThinkingStart start = chat::ThinkingStart::kUnknown;
};

class GenerateRoute {
 public:
  // Everything given must outlive the route; `deps` has its clock and entropy filled in.
  GenerateRoute(const ApiDeps& deps, const ModelCard& model, const ApiOptions& options,
                ApiMetrics& metrics, LiveRequests& live);

  // Starts the answer, or says why not; then the caller answers, under `call.request_id`, which the
  // body may have set.
  Failure start(GenerateCall& call, Endpoint endpoint);

  // For whoever needs prompts without a generation. Moves the conversation out of `fields`.
  Failure render_chat(RequestFields& fields, RenderedChat& out) const;
  Failure check_model(const RequestFields& fields) const;
  const PromptEncoder& encoder() const { return encoder_; }

 private:
  Failure prepare(GenerateCall& call, Endpoint endpoint, GenerationPlan& out) const;
  Failure plan_chat(RequestFields& fields, PromptPlan& prompt,
                    std::shared_ptr<const OutputMarkup>& markup) const;
  Failure plain_prompts(RequestFields& fields, std::vector<PromptPlan>& out) const;
  Failure plain_prompt(PromptInput& input, PromptPlan& out) const;
  Failure check_bytes(size_t bytes) const;
  Failure set_deadline(const GenerateCall& call, const RequestFields& fields,
                       GenerationPlan& out) const;
  Failure check_busy(const GenerationPlan& plan) const;
  wire::CacheScope cache_scope(const TenantDigest& salted, const RequestFields& fields) const;
  AnswerHead head_of(const GenerationPlan& plan, Endpoint endpoint) const;
  std::string random_name(std::string_view prefix) const;

  const ApiDeps& deps_;
  const ModelCard& model_;
  const ApiOptions& options_;
  const PromptEncoder encoder_;
  const ChatDialect dialect_;
  const GenerationServices services_;
  LiveRequests& live_;
  std::map<uint64_t, LiveRequests::Handle> running_;
  uint64_t last_running_ = 0;
};

}  // namespace bulkhead::api
