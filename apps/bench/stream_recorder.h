// What one streamed answer was worth: times of its tokens, counts, and how it failed if it did.
//
// Threads: one thread. Invariants: times are handed in, none is read here; a record without
// `failure` is a complete answer: status 200, at least one token, no error event, ended by [DONE].
// A token's time is that of the chunk that brought its text; chunks without text (a role, a usage
// record) are not tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "http/client.h"
#include "http/sse.h"

namespace bulkhead::apps {

struct RequestRecord {
  uint64_t index = 0;
  double start_s = 0.0;  // its arrival, from the start of the run
  double ttft_s = 0.0;   // arrival to first token
  double e2e_s = 0.0;    // arrival to the end of the answer
  double tpot_s = 0.0;   // (last token - first token) / (output tokens - 1); 0 below two tokens
  std::vector<double> itl_s;  // between chunks with text
  int64_t asked_tokens = 0;
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  int64_t cached_tokens = 0;
  bool usage = false;  // counts are the server's; otherwise a chunk counts as a token
  std::string finish_reason;
  // Empty for a success; else "connect", "timeout", "broken_stream", "bad_answer", "error_event",
  // "no_tokens" or "http_429" and the like.
  std::string failure;
  std::string failure_text;
};

class StreamRecorder {
 public:
  // `arrived`: what its times count from.
  explicit StreamRecorder(base::Nanoseconds arrived) : arrived_(arrived) {}

  void piece(std::string_view bytes, base::Nanoseconds now);
  // The call's end, with the answer or the reason there is none.
  RequestRecord finish(const base::Result<http::ClientResponse>& result, base::Nanoseconds now);

 private:
  void take_event(const std::string& data, base::Nanoseconds now);
  void token_seen(base::Nanoseconds now);
  void judge(const base::Result<http::ClientResponse>& result);

  const base::Nanoseconds arrived_;
  base::Nanoseconds first_token_{0};
  base::Nanoseconds last_token_{0};
  base::Nanoseconds end_{0};
  int64_t chunks_ = 0;  // with text
  bool done_ = false;   // [DONE] came
  bool bad_json_ = false;
  std::string error_event_;
  std::string head_;  // of the body, for the text of a refusal
  http::SseParser parser_;
  RequestRecord record_;
};

}  // namespace bulkhead::apps
