// Answers of /v1/completions.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/answer/answer_format.h"
#include "base/utf8.h"

namespace bulkhead::api {
namespace {

// A token's name in the legacy form, which has no room for bytes: text where it is text.
std::string token_name(std::string_view bytes) {
  if (base::is_valid_utf8(bytes)) return std::string(bytes);
  std::string name = "bytes:";
  for (const char c : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

int64_t characters_in(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

class CompletionFormat final : public AnswerFormat {
 public:
  CompletionFormat(AnswerHead head, const text::Tokenizer& tokenizer)
      : head_(std::move(head)), tokenizer_(tokenizer) {}

  std::string opening_chunk(const RunningUsage&) override { return {}; }

  std::string piece_chunk(const Piece& piece, const RunningUsage& usage) override {
    return answer(&piece, nullptr,
                  [&](base::JsonWriter& json) { write_running_usage(json, head_, usage); });
  }

  std::string finish_chunk(const Outcome& outcome, const RunningUsage& usage) override {
    return answer(nullptr, &outcome,
                  [&](base::JsonWriter& json) { write_running_usage(json, head_, usage); });
  }

  std::string usage_chunk(const Usage& usage) override {
    return usage_only_chunk(head_, "text_completion", usage);
  }

  std::string whole(const Piece& all, const Outcome& outcome, const Usage& usage) override {
    return answer(&all, &outcome, [&](base::JsonWriter& json) {
      json.key("usage");
      write_usage(json, usage);
    });
  }

 private:
  template <typename WriteUsage>
  std::string answer(const Piece* piece, const Outcome* outcome, const WriteUsage& usage) {
    base::JsonWriter json;
    json.begin_object();
    write_head(json, head_, "text_completion");
    json.key("choices").begin_array().begin_object();
    json.key("index").value(0);
    json.key("text").value(piece == nullptr ? std::string_view() : std::string_view(piece->text));
    write_logprobs(json, piece);
    write_ending(json, outcome);
    json.end_object().end_array();
    usage(json);
    json.end_object();
    return std::move(json).take();
  }

  void write_logprobs(base::JsonWriter& json, const Piece* piece) {
    json.key("logprobs");
    if (!head_.logprobs || piece == nullptr) {
      json.null();
      return;
    }
    json.begin_object().key("tokens").begin_array();
    for (const TokenRecord& token : piece->tokens) json.value(token_name(token.bytes));
    json.end_array().key("token_logprobs").begin_array();
    for (const TokenRecord& token : piece->tokens) {
      json.value(finite_logprob(token.event.logprob));
    }
    json.end_array().key("top_logprobs").begin_array();
    for (const TokenRecord& token : piece->tokens) write_top(json, token);
    json.end_array().key("text_offset").begin_array();
    for (const TokenRecord& token : piece->tokens) {
      json.value(text_offset_);
      text_offset_ += characters_in(token.bytes);
    }
    json.end_array().end_object();
  }

  // The most probable tokens and the chosen one. Two tokens may have one name; the first stays.
  void write_top(base::JsonWriter& json, const TokenRecord& token) {
    std::set<std::string> names;
    json.begin_object();
    const auto write = [&](std::string name, float logprob) {
      const auto [place, is_new] = names.insert(std::move(name));
      if (is_new) json.key(*place).value(finite_logprob(logprob));
    };
    write(token_name(tokenizer_.token_bytes(token.event.token)), token.event.logprob);
    for (const wire::TokenLogprob& other : token.event.top_logprobs) {
      write(token_name(tokenizer_.token_bytes(other.id)), other.logprob);
    }
    json.end_object();
  }

  const AnswerHead head_;
  const text::Tokenizer& tokenizer_;
  int64_t text_offset_ = 0;  // characters of the answer so far
};

}  // namespace

std::unique_ptr<AnswerFormat> make_completion_format(AnswerHead head,
                                                     const text::Tokenizer& tokenizer) {
  return std::make_unique<CompletionFormat>(std::move(head), tokenizer);
}

}  // namespace bulkhead::api
