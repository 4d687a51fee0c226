// Answers of /v1/completions.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

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

  std::string opening_chunk(ChoiceView&, const RunningUsage&) override { return {}; }

  std::string piece_chunk(ChoiceView& choice, const Piece& piece,
                          const RunningUsage& usage) override {
    return chunk(choice, {&piece, nullptr, nullptr}, usage);
  }

  std::string finish_chunk(ChoiceView& choice, const Outcome& outcome, const Usage& own,
                           const RunningUsage& usage) override {
    return chunk(choice, {nullptr, &outcome, &own}, usage);
  }

  std::string usage_chunk(const Usage& usage) override {
    return usage_only_chunk(head_, "text_completion", usage);
  }

  std::string whole(std::span<WholeChoice> choices, const Usage& usage) override {
    base::JsonWriter json;
    json.begin_object();
    write_head(json, head_, "text_completion");
    json.key("choices").begin_array();
    for (WholeChoice& choice : choices) {
      write_choice(json, *choice.view, {choice.all, &choice.outcome, nullptr});
    }
    json.end_array();
    write_figures(json, usage);
    json.end_object();
    return std::move(json).take();
  }

 private:
  // What a choice tells; null: nothing.
  struct Told {
    const Piece* piece = nullptr;
    const Outcome* outcome = nullptr;
    const Usage* own = nullptr;
  };

  std::string chunk(ChoiceView& choice, const Told& told, const RunningUsage& usage) {
    base::JsonWriter json;
    json.begin_object();
    write_head(json, head_, "text_completion");
    json.key("choices").begin_array();
    write_choice(json, choice, told);
    json.end_array();
    write_running_usage(json, head_, usage);
    json.end_object();
    return std::move(json).take();
  }

  void write_choice(base::JsonWriter& json, ChoiceView& choice, const Told& told) {
    json.begin_object();
    json.key("index").value(choice.index);
    json.key("text").value(told.piece == nullptr ? std::string_view()
                                                 : std::string_view(told.piece->text));
    write_logprobs(json, choice, told.piece);
    write_ending(json, told.outcome);
    const bool prompt_is_new = !std::exchange(choice.prompt_told, true);
    if (head_.token_ids && prompt_is_new) {
      json.key("prompt_token_ids");
      write_ids(json, choice.prompt);
    }
    if (prompt_is_new) write_prompt_logprobs(json, head_, choice, tokenizer_);
    if (head_.token_ids && told.piece != nullptr) {
      json.key("token_ids");
      write_ids(json, told.piece->ids);
    }
    if (told.own != nullptr) {
      json.key("usage");
      write_usage(json, *told.own);
    }
    json.end_object();
  }

  void write_logprobs(base::JsonWriter& json, ChoiceView& choice, const Piece* piece) {
    json.key("logprobs");
    if (head_.logprobs < 0 || piece == nullptr) {
      json.null();
      return;
    }
    json.begin_object().key("tokens").begin_array();
    for (const TokenRecord& token : piece->tokens) json.value(name_of(token));
    json.end_array().key("token_logprobs").begin_array();
    for (const TokenRecord& token : piece->tokens) {
      token.scored ? json.value(finite_logprob(token.event.logprob)) : json.null();
    }
    json.end_array().key("top_logprobs").begin_array();
    for (const TokenRecord& token : piece->tokens) write_top(json, token);
    json.end_array().key("text_offset").begin_array();
    for (const TokenRecord& token : piece->tokens) {
      json.value(choice.text_offset);
      choice.text_offset += characters_in(token.bytes);
    }
    json.end_array().end_object();
  }

  std::string name_of(wire::TokenId id) const {
    return head_.token_id_names ? token_id_name(id) : token_name(tokenizer_.token_bytes(id));
  }
  // The part of the token that the text has, or all of one that the text leaves out.
  std::string name_of(const TokenRecord& token) const {
    if (token.hidden || head_.token_id_names) return name_of(token.event.token);
    return token_name(token.bytes);
  }

  // The chosen token and the most probable ones. Where two have one name, the second goes by its
  // id: readers look for the greatest value.
  void write_top(base::JsonWriter& json, const TokenRecord& token) {
    if (!token.scored) {
      json.null();
      return;
    }
    std::set<std::string> names;
    json.begin_object();
    const auto write = [&](wire::TokenId id, float logprob) {
      std::string name = name_of(id);
      if (names.contains(name)) name = token_id_name(id);
      json.key(name).value(finite_logprob(logprob));
      names.insert(std::move(name));
    };
    write(token.event.token, token.event.logprob);
    for (const wire::TokenLogprob& other : top_of(token.event, head_.logprobs)) {
      if (other.id != token.event.token) write(other.id, other.logprob);
    }
    json.end_object();
  }

  const AnswerHead head_;
  const text::Tokenizer& tokenizer_;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_completion_format(AnswerHead head,
                                                     const text::Tokenizer& tokenizer) {
  return std::make_unique<CompletionFormat>(std::move(head), tokenizer);
}

}  // namespace bulkhead::api
