// A generation as it crosses stations: what is asked, what comes back, and the port between the API
// and whoever generates.
//
// Threads: plain values; each port says its own rule.
// Invariants: a GenerateRequest holds only validated values (the front door checked every range),
// so nothing behind it can fail because of its content; every accepted request ends with exactly
// one FinishEvent, after its last TokenEvent.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "wire/constraint.h"
#include "wire/types.h"

namespace bulkhead::wire {

// Ranges are those of the public API (docs/api.md); the values here are in range already.
struct SamplingParams {
  float temperature = 1.0f;         // [0, 2]; 0 = greedy
  float top_p = 1.0f;               // (0, 1]
  int32_t top_k = 0;                // 0 = off
  float min_p = 0.0f;               // [0, 1]
  float frequency_penalty = 0.0f;   // [-2, 2], on generated tokens
  float presence_penalty = 0.0f;    // [-2, 2], on generated tokens
  float repetition_penalty = 1.0f;  // (0, 2], on prompt and generated tokens
  uint64_t seed = 0;  // always set: the front door draws one where the client gave none
  std::vector<std::pair<TokenId, float>> logit_bias;  // ids inside the vocabulary
  int32_t top_logprobs = -1;  // -1: no logprobs; 0..20: the chosen token and so many others
};

// Whose cached prompts a request may read, and who may read what it leaves.
struct CacheScope {
  // Derived from the authenticated key, never from the request alone; equal scopes share pages.
  std::array<uint8_t, 32> tenant{};
  bool insert = true;  // false: nothing of this request enters the prefix index
};

struct GenerateRequest {
  RequestId id = 0;
  std::vector<TokenId> prompt;  // at least one id, all inside the vocabulary
  SamplingParams sampling;
  CacheScope cache;
  int32_t prompt_logprobs = -1;  // -1: none; 0..20: each prompt token's own and so many others
  int32_t priority = 0;          // lower goes first
  // Requests of one session should meet the same pool where there are several; 0: of none.
  uint64_t session = 0;
  // A request with the same prompt and scope, submitted before: this one waits until that one's
  // prompt is in the cache, so that they share its pages. 0: none.
  RequestId leader = 0;
  // >= 1, or 0 where only prompt_logprobs are wanted; prompt + max_tokens fits the model's context
  int32_t max_tokens = 0;
  int32_t min_tokens = 0;         // stop ids are not sampled before
  std::vector<TokenId> stop_ids;  // end of generation; empty when the client ignores EOS
  // What the answer must look like; null: anything. With one, some stop id must be able to end it.
  std::shared_ptr<const Constraint> constraint;
  std::optional<std::chrono::nanoseconds> deadline;  // on the server's monotonic clock
};

enum class FinishReason {
  kStop,       // a stop id was sampled (it is not emitted as a token)
  kLength,     // max_tokens or the context's end
  kCancelled,  // cancel() or a client that left
  kDeadline,
  kError,  // see FinishEvent::error
};
std::string_view to_string(FinishReason reason);

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0.0f;
};

struct TokenEvent {
  RequestId id = 0;
  TokenId token = 0;
  float logprob = 0.0f;                    // natural log, before temperature and truncation
  std::vector<TokenLogprob> top_logprobs;  // empty unless asked for
};

// A stretch of the prompt, scored. The first token of a prompt has no score and is left out.
struct PromptEvent {
  RequestId id = 0;
  int32_t position = 0;  // of tokens[0] in the prompt, at least 1
  std::vector<TokenEvent> tokens;
};

struct FinishEvent {
  RequestId id = 0;
  FinishReason reason = FinishReason::kStop;
  TokenId stop_id = -1;  // the id that ended a kStop
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;      // of the prompt, taken from the prefix index at first admission
  int32_t completion_tokens = 0;  // = TokenEvents sent
  int32_t preemptions = 0;        // times it gave way to others and was run again
  std::optional<base::Error> error;
  std::chrono::nanoseconds queue_time{0};
  std::chrono::nanoseconds prefill_time{0};
  std::chrono::nanoseconds decode_time{0};
};

// Receives one request's events. Called on the step thread, in order; must not block or throw and
// should only hand over. `on_finish` is the last call.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // In order of position, before the first on_token(); only where prompt_logprobs are asked for.
  virtual void on_prompt(PromptEvent event) = 0;
  virtual void on_token(TokenEvent event) = 0;
  virtual void on_finish(FinishEvent event) = 0;
};

// What a server may promise about sizes; fixed at start.
struct GenerateLimits {
  int32_t context_tokens = 0;  // longest prompt + answer of one request
  int32_t cache_tokens = 0;    // of the whole pool: the one both use, or decode's
  int32_t vocabulary_size = 0;
  uint32_t running_max = 0;          // sequences decoding at once
  uint32_t queued_max = 0;           // requests waiting; beyond: kResourceExhausted
  int32_t prefill_cache_tokens = 0;  // of prefill's own pool; 0: it has none of its own
};

struct PageGauges {
  int32_t total = 0;
  int32_t free = 0;         // neither used nor promised to an admitted request
  int32_t cached = 0;       // held by the prefix index alone: given up when others need them
  int32_t quarantined = 0;  // failed a check, and out of use until the process ends

  int32_t used() const { return total - free - cached - quarantined; }
};

struct GeneratorStatus {
  uint32_t running = 0;
  uint32_t waiting = 0;
  PageGauges pages = {};                         // of the pool both use, or of decode's own
  std::optional<PageGauges> prefill_pages = {};  // where prefill has pages of its own
  double decode_tokens_per_second = 0;           // lately; 0 when nothing was decoded for a while
  bool draining = false;
  std::chrono::nanoseconds last_progress{
      0};  // monotonic time of the last completed step or idle tick
};

struct Submission {
  GenerateRequest request;
  std::shared_ptr<EventSink> sink;
};

// The port behind the API: accepts requests and produces their events.
//
// Threads: any thread. Submitting never blocks: it refuses with kResourceExhausted (queue full:
// answer 429), kUnavailable (draining: 503) or kInvalidArgument (can never fit; names the limit:
// 400).
class Generator {
 public:
  virtual ~Generator() = default;
  virtual const GenerateLimits& limits() const = 0;
  virtual GeneratorStatus status() const = 0;
  virtual RequestId next_id() = 0;
  // All of them or none.
  virtual base::Status submit_all(std::vector<Submission> batch) = 0;
  base::Status submit(GenerateRequest request, std::shared_ptr<EventSink> sink);
  // Asks for an early end; the FinishEvent still comes. Unknown or finished ids are ignored.
  virtual void cancel(RequestId id) = 0;
  // Asks that the prefix index forget everything; pages in use stay with their requests.
  virtual void flush_cache() = 0;
};

}  // namespace bulkhead::wire
