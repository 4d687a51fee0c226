// Answers of /v1/chat/completions.
#include <functional>

#include "api/answer/answer_format.h"

namespace bulkhead::api {
namespace {

void write_bytes(base::JsonWriter& json, std::string_view bytes) {
  json.begin_array();
  for (const char c : bytes) json.value(static_cast<int>(static_cast<unsigned char>(c)));
  json.end_array();
}

class ChatFormat final : public AnswerFormat {
 public:
  ChatFormat(AnswerHead head, const text::Tokenizer& tokenizer)
      : head_(std::move(head)), tokenizer_(tokenizer) {}

  std::string opening_chunk(const RunningUsage& usage) override {
    return chunk(usage, nullptr, nullptr, [](base::JsonWriter& json) {
      json.key("role").value("assistant").key("content").value("");
    });
  }

  std::string piece_chunk(const Piece& piece, const RunningUsage& usage) override {
    return chunk(usage, &piece, nullptr,
                 [&](base::JsonWriter& json) { json.key("content").value(piece.text); });
  }

  std::string finish_chunk(const Outcome& outcome, const RunningUsage& usage) override {
    return chunk(usage, nullptr, &outcome, [](base::JsonWriter&) {});
  }

  std::string usage_chunk(const Usage& usage) override {
    return usage_only_chunk(head_, "chat.completion.chunk", usage);
  }

  std::string whole(const Piece& all, const Outcome& outcome, const Usage& usage) override {
    base::JsonWriter json;
    json.begin_object();
    write_head(json, head_, "chat.completion");
    json.key("choices").begin_array().begin_object();
    json.key("index").value(0);
    json.key("message").begin_object();
    json.key("role").value("assistant");
    json.key("content").value(all.text);
    json.key("refusal").null();
    json.end_object();
    write_logprobs(json, &all);
    write_ending(json, &outcome);
    json.end_object().end_array();
    json.key("usage");
    write_usage(json, usage);
    json.end_object();
    return std::move(json).take();
  }

 private:
  std::string chunk(const RunningUsage& usage, const Piece* piece, const Outcome* outcome,
                    const std::function<void(base::JsonWriter&)>& write_delta) {
    base::JsonWriter json;
    json.begin_object();
    write_head(json, head_, "chat.completion.chunk");
    json.key("choices").begin_array().begin_object();
    json.key("index").value(0);
    json.key("delta").begin_object();
    write_delta(json);
    json.end_object();
    write_logprobs(json, piece);
    write_ending(json, outcome);
    json.end_object().end_array();
    write_running_usage(json, head_, usage);
    json.end_object();
    return std::move(json).take();
  }

  void write_logprobs(base::JsonWriter& json, const Piece* piece) {
    json.key("logprobs");
    if (!head_.logprobs || piece == nullptr) {
      json.null();
      return;
    }
    json.begin_object().key("content").begin_array();
    for (const TokenRecord& token : piece->tokens) {
      json.begin_object();
      write_token(json, token.bytes, token.event.logprob);
      json.key("top_logprobs").begin_array();
      for (const wire::TokenLogprob& other : token.event.top_logprobs) {
        json.begin_object();
        write_token(json, tokenizer_.token_bytes(other.id), other.logprob);
        json.end_object();
      }
      json.end_array().end_object();
    }
    json.end_array().key("refusal").null().end_object();
  }

  static void write_token(base::JsonWriter& json, std::string_view bytes, float logprob) {
    json.key("token").value(bytes);
    json.key("logprob").value(finite_logprob(logprob));
    json.key("bytes");
    write_bytes(json, bytes);
  }

  const AnswerHead head_;
  const text::Tokenizer& tokenizer_;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_chat_format(AnswerHead head, const text::Tokenizer& tokenizer) {
  return std::make_unique<ChatFormat>(std::move(head), tokenizer);
}

}  // namespace bulkhead::api
