// Answers of /v1/chat/completions.
#include <functional>
#include <utility>

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

  std::string opening_chunk(ChoiceView& choice, const RunningUsage& usage) override {
    return chunk(choice, {}, usage, [](base::JsonWriter& json) {
      json.key("role").value("assistant").key("content").value("");
    });
  }

  std::string piece_chunk(ChoiceView& choice, const Piece& piece,
                          const RunningUsage& usage) override {
    return chunk(choice, {&piece, nullptr, nullptr}, usage, [&](base::JsonWriter& json) {
      write_reasoning(json, piece.reasoning);
      // Log-probabilities and token ids may come without text.
      const bool other = !piece.reasoning.empty() || !piece.calls.empty();
      if (!piece.text.empty() || !other) json.key("content").value(piece.text);
      write_calls(json, piece.calls, true);
    });
  }

  std::string finish_chunk(ChoiceView& choice, const Outcome& outcome, const Usage& own,
                           const RunningUsage& usage) override {
    return chunk(choice, {nullptr, &outcome, &own}, usage, [](base::JsonWriter&) {});
  }

  std::string usage_chunk(const Usage& usage) override {
    return usage_only_chunk(head_, "chat.completion.chunk", usage);
  }

  std::string whole(std::span<WholeChoice> choices, const Usage& usage) override {
    base::JsonWriter json;
    json.begin_object();
    write_head(json, head_, "chat.completion");
    json.key("choices").begin_array();
    for (const WholeChoice& choice : choices) write_choice(json, choice);
    json.end_array();
    // All choices of a chat have one prompt.
    write_prompt_logprobs(json, head_, *choices.front().view, tokenizer_);
    write_prompt_ids(json, *choices.front().view);
    write_figures(json, usage);
    json.end_object();
    return std::move(json).take();
  }

 private:
  // What a chunk tells beside its delta; null: nothing.
  struct Told {
    const Piece* piece = nullptr;
    const Outcome* outcome = nullptr;
    const Usage* own = nullptr;
  };

  std::string chunk(ChoiceView& choice, const Told& told, const RunningUsage& usage,
                    const std::function<void(base::JsonWriter&)>& write_delta) {
    base::JsonWriter json;
    json.begin_object();
    write_head(json, head_, "chat.completion.chunk");
    json.key("choices").begin_array().begin_object();
    json.key("index").value(choice.index);
    json.key("delta").begin_object();
    write_delta(json);
    json.end_object();
    write_logprobs(json, told.piece);
    write_ending(json, told.outcome);
    write_token_ids(json, told.piece);
    if (told.own != nullptr) {
      json.key("usage");
      write_usage(json, *told.own);
    }
    json.end_object().end_array();
    if (!std::exchange(choice.prompt_told, true)) write_prompt_ids(json, choice);
    write_running_usage(json, head_, usage);
    json.end_object();
    return std::move(json).take();
  }

  void write_choice(base::JsonWriter& json, const WholeChoice& choice) {
    json.begin_object();
    json.key("index").value(choice.view->index);
    json.key("message").begin_object();
    json.key("role").value("assistant");
    json.key("content");
    // As OpenAI has it, calls without text have no content.
    const bool none = choice.all->text.empty() && !choice.all->calls.empty();
    none ? json.null() : json.value(choice.all->text);
    json.key("refusal").null();
    write_reasoning(json, choice.all->reasoning);
    write_calls(json, choice.all->calls, false);
    json.end_object();
    write_logprobs(json, choice.all);
    write_ending(json, &choice.outcome);
    write_token_ids(json, choice.all);
    json.end_object();
  }

  void write_reasoning(base::JsonWriter& json, const std::string& reasoning) const {
    if (reasoning.empty()) return;
    if (head_.reasoning_field != ReasoningField::kReasoning) {
      json.key("reasoning_content").value(reasoning);
    }
    if (head_.reasoning_field != ReasoningField::kReasoningContent) {
      json.key("reasoning").value(reasoning);
    }
  }

  // `numbered`: in a chunk, where a call comes in parts.
  static void write_calls(base::JsonWriter& json, const std::vector<CallPiece>& calls,
                          bool numbered) {
    if (calls.empty()) return;
    json.key("tool_calls").begin_array();
    for (const CallPiece& call : calls) {
      json.begin_object();
      if (numbered) json.key("index").value(call.index);
      if (call.begins) json.key("id").value(call.id).key("type").value("function");
      json.key("function").begin_object();
      if (call.begins) json.key("name").value(call.name);
      json.key("arguments").value(call.arguments);
      json.end_object().end_object();
    }
    json.end_array();
  }

  void write_prompt_ids(base::JsonWriter& json, const ChoiceView& choice) {
    if (!head_.token_ids) return;
    json.key("prompt_token_ids");
    write_ids(json, choice.prompt);
  }

  void write_token_ids(base::JsonWriter& json, const Piece* piece) {
    if (!head_.token_ids || piece == nullptr) return;
    json.key("token_ids");
    write_ids(json, piece->ids);
  }

  void write_logprobs(base::JsonWriter& json, const Piece* piece) {
    json.key("logprobs");
    if (head_.logprobs < 0 || piece == nullptr) {
      json.null();
      return;
    }
    json.begin_object().key("content").begin_array();
    for (const TokenRecord& token : piece->tokens) {
      json.begin_object();
      write_token(json, token.event.token, token.bytes, token.event.logprob);
      json.key("top_logprobs").begin_array();
      for (const wire::TokenLogprob& other : top_of(token.event, head_.logprobs)) {
        json.begin_object();
        write_token(json, other.id, tokenizer_.token_bytes(other.id), other.logprob);
        json.end_object();
      }
      json.end_array().end_object();
    }
    json.end_array().key("refusal").null().end_object();
  }

  void write_token(base::JsonWriter& json, wire::TokenId id, std::string_view bytes,
                   float logprob) const {
    json.key("token");
    head_.token_id_names ? json.value(token_id_name(id)) : json.value(bytes);
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
