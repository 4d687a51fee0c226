// The public HTTP API: routes, request schemas, answers, errors, usage, health and metrics.
//
// Threads: construct anywhere, before the server runs; the handler runs on the I/O thread and so
// does everything it starts. Token events come on the step thread and are only handed over.
// Invariants: every request gets exactly one answer; nothing a client sends reaches the generator
// unchecked; a failure before the first byte is a 4xx or 5xx with a JSON error, one after it is an
// error event, never a silent end.
// Life: an Api outlives the server that calls its handler and the generator's last event.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "chat/output/tool_format.h"
#include "chat/template.h"
#include "http/server.h"
#include "telemetry/metrics.h"
#include "text/tokenizer.h"
#include "wire/generate.h"
#include "wire/integrity.h"

namespace bulkhead::api {

// What applies where the client gave nothing; from generation_config.json, all inside the ranges of
// docs/api.md (values outside are refused by validate()).
struct GenerationDefaults {
  std::vector<wire::TokenId> eos_ids;  // end of generation, unless the client says ignore_eos
  double temperature = 1.0;
  double top_p = 1.0;
  int64_t top_k = 0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;

  base::Status validate(int32_t vocabulary_size) const;
};

// The served model as clients see it.
struct ModelCard {
  std::string id;           // the served name
  std::string root;         // where it came from; accepted as a name too
  int64_t created = 0;      // Unix seconds
  uint64_t parameters = 0;  // facts for `meta`; 0 where not known
  uint64_t bytes = 0;
  int64_t context_trained = 0;
  std::string bos_token;  // spelled out, for the chat template
  std::string eos_token;
  std::string chat_template;  // Jinja text; empty: none
  // How the model writes tool calls and reasoning; kNone: as plain text.
  chat::ToolFormat tool_format = chat::ToolFormat::kNone;
  chat::ReasoningFormat reasoning_format = chat::ReasoningFormat::kNone;
  GenerationDefaults defaults;
};

struct PoolFacts {
  std::string weights;      // "bf16"
  std::string cache_dtype;  // "bf16"
};

// How the server runs its model, for those who ask; nothing decides by it.
struct EngineFacts {
  int32_t page_tokens = 0;
  int32_t prefill_chunk_tokens = 0;
  unsigned threads = 0;
  std::string isa;                        // "avx512"
  PoolFacts decode = {};                  // of the one pool both use, or of decode's
  std::optional<PoolFacts> prefill = {};  // where prefill has a pool of its own
  bool remote = false;                    // both pools are of other processes
  double load_seconds = 0;                // reading and packing the weights
  double ready_seconds = 0;               // from the start of the process's work to now
};

// What a chat's reasoning is called in answers.
enum class ReasoningField : uint8_t { kReasoningContent, kReasoning, kBoth };

struct ApiOptions {
  std::vector<std::string> keys;  // bearer keys; empty: no authentication
  std::string admin_key;          // empty: none
  bool loopback_only = false;     // the server cannot be reached from other machines
  std::string version;            // of the server
  EngineFacts engine;
  // A generation older than this ends with deadline_exceeded; nothing: no limit.
  std::optional<std::chrono::seconds> request_timeout;
  bool higher_priority_first = false;  // otherwise lower ones go first, as in vLLM
  ReasoningField reasoning_field = ReasoningField::kReasoningContent;
  // /health turns red when work is outstanding and no step has completed for so long.
  std::chrono::seconds stall_after{30};
  // Token events that may wait for the I/O thread, per request; beyond, the request fails.
  size_t backlog_events_max = 8192;
  // What GET /health_generate waits for its token.
  std::chrono::seconds probe_timeout{10};
};

struct ApiDeps {
  wire::Generator& generator;
  const text::Tokenizer& tokenizer;
  const chat::ChatTemplate* chat_template;  // null: /v1/chat/completions answers 400
  telemetry::Registry& registry;            // carries the model_name label
  base::Logger& logger;
  const base::Clock& clock;
  // Runs a task on the I/O thread (http::Server::post). May be called from the step thread.
  std::function<void(std::function<void()>)> post;
  // Replaceable for tests; empty: the system's calendar and random device.
  std::function<int64_t()> unix_seconds = {};
  std::function<uint64_t()> entropy = {};
  // Runs a task on the I/O thread later (http::Server::post_after); empty: nothing ever times out
  // here.
  std::function<void(std::chrono::milliseconds, std::function<void()>)> post_after = {};
  // Null: no answer can be constrained. Ends before the Api does.
  wire::ConstraintCompiler* constraints = nullptr;
  // Of this process's page pools; null: they are elsewhere. Outlives the Api's last answer.
  wire::IntegrityPort* integrity = nullptr;
  // Who has the pages where they are elsewhere; empty: nobody. Asked on the I/O thread.
  std::function<std::vector<wire::IntegrityWorker>()> workers = {};
};

class Api {
 public:
  Api(ApiDeps deps, ModelCard model, ApiOptions options);
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // For http::Server::listen. Refers to this Api.
  http::Handler handler();
  // From now on these are the keys that open the API; the admin key stays. Requests under way go
  // on. Any thread.
  void replace_keys(std::vector<std::string> keys);

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace bulkhead::api
