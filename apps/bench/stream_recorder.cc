#include "apps/bench/stream_recorder.h"

#include <algorithm>
#include <boost/json.hpp>

namespace bulkhead::apps {
namespace {

namespace json = boost::json;

constexpr size_t kHeadBytesMax = 2048;

const json::value* member(const json::value* value, std::string_view name) {
  return value != nullptr && value->is_object() ? value->as_object().if_contains(name) : nullptr;
}

bool is_text(const json::value* value) {
  return value != nullptr && value->is_string() && !value->as_string().empty();
}

bool is_filled_array(const json::value* value) {
  return value != nullptr && value->is_array() && !value->as_array().empty();
}

// Whether a choice brings something that was generated, under any of the names in use.
bool brings_tokens(const json::value& choice) {
  if (is_text(member(&choice, "text")) || is_filled_array(member(&choice, "token_ids"))) {
    return true;
  }
  const json::value* delta = member(&choice, "delta");
  return is_text(member(delta, "content")) || is_text(member(delta, "reasoning_content")) ||
         is_text(member(delta, "reasoning")) || is_filled_array(member(delta, "tool_calls"));
}

int64_t number(const json::value* value) {
  return value != nullptr && value->is_int64() ? value->as_int64() : 0;
}

std::string text_of_error(const json::value& error) {
  const json::value* message = error.is_object() ? member(&error, "message") : &error;
  if (is_text(message)) return std::string(message->as_string());
  return json::serialize(error);
}

// The message of an error body, or its beginning where it has another form.
std::string refusal_text(const std::string& body) {
  boost::system::error_code bad;
  const json::value value = json::parse(body, bad);
  const json::value* error = bad ? nullptr : member(&value, "error");
  return error != nullptr ? text_of_error(*error) : body.substr(0, 300);
}

std::string_view failure_of(base::ErrorCode code) {
  switch (code) {
    case base::ErrorCode::kUnavailable:
      return "connect";
    case base::ErrorCode::kCancelled:
      return "timeout";
    case base::ErrorCode::kIo:
      return "broken_stream";
    default:
      return "bad_answer";
  }
}

}  // namespace

void StreamRecorder::piece(std::string_view bytes, base::Nanoseconds now) {
  if (head_.size() < kHeadBytesMax) head_ += bytes.substr(0, kHeadBytesMax - head_.size());
  for (const std::string& data : parser_.push(bytes)) take_event(data, now);
}

void StreamRecorder::take_event(const std::string& data, base::Nanoseconds now) {
  if (done_) return;
  if (data == "[DONE]") {
    done_ = true;
    end_ = now;
    return;
  }
  boost::system::error_code bad;
  const json::value event = json::parse(data, bad);
  if (bad || !event.is_object()) {
    bad_json_ = true;
    return;
  }
  if (const json::value* error = member(&event, "error"); error != nullptr && !error->is_null()) {
    error_event_ = text_of_error(*error);
    return;
  }
  bool tokens = false;
  if (const json::value* choices = member(&event, "choices"); is_filled_array(choices)) {
    for (const json::value& choice : choices->as_array()) {
      tokens = tokens || brings_tokens(choice);
      const json::value* reason = member(&choice, "finish_reason");
      if (is_text(reason)) record_.finish_reason = reason->as_string();
    }
  }
  if (tokens) token_seen(now);
  if (const json::value* usage = member(&event, "usage"); usage != nullptr && usage->is_object()) {
    record_.usage = true;
    record_.input_tokens = number(member(usage, "prompt_tokens"));
    record_.output_tokens = number(member(usage, "completion_tokens"));
    const json::value* details = member(usage, "prompt_tokens_details");
    record_.cached_tokens = number(member(details, "cached_tokens"));
  }
}

void StreamRecorder::token_seen(base::Nanoseconds now) {
  if (chunks_++ == 0) {
    first_token_ = now;
  } else {
    record_.itl_s.push_back(base::to_seconds(now - last_token_));
  }
  last_token_ = now;
}

void StreamRecorder::judge(const base::Result<http::ClientResponse>& result) {
  if (!result.ok()) {
    record_.failure = failure_of(result.error().code);
    record_.failure_text = result.error().message;
  } else if (result->status != 200) {
    record_.failure = "http_" + std::to_string(result->status);
    record_.failure_text = refusal_text(head_);
  } else if (!error_event_.empty()) {
    record_.failure = "error_event";
    record_.failure_text = error_event_;
  } else if (bad_json_) {
    record_.failure = "bad_answer";
    record_.failure_text = "an event is not a JSON object";
  } else if (!done_) {
    record_.failure = "broken_stream";
    record_.failure_text = "the stream ended without [DONE]";
  } else if (chunks_ == 0 && record_.output_tokens == 0) {
    record_.failure = "no_tokens";
    record_.failure_text = "the answer is empty";
  }
}

RequestRecord StreamRecorder::finish(const base::Result<http::ClientResponse>& result,
                                     base::Nanoseconds now) {
  if (!done_) end_ = now;
  judge(result);
  if (!record_.usage) record_.output_tokens = chunks_;
  // Tokens without any text (control tokens alone) are only known to be there at the end.
  if (chunks_ == 0) first_token_ = last_token_ = end_;
  record_.ttft_s = base::to_seconds(first_token_ - arrived_);
  record_.e2e_s = base::to_seconds(end_ - arrived_);
  if (record_.output_tokens > 1) {
    record_.tpot_s = base::to_seconds(last_token_ - first_token_) /
                     static_cast<double>(record_.output_tokens - 1);
  }
  return std::move(record_);
}

}  // namespace bulkhead::apps
