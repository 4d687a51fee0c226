#include "api/text_routes.h"

#include <fmt/format.h>

#include <utility>

#include "api/request/field_readers.h"
#include "api/request/json_input.h"
#include "api/request/messages.h"
#include "base/utf8.h"

namespace bulkhead::api {
namespace {

namespace json = boost::json;

// The member, or null where it is absent or null itself.
json::value* member(json::object& body, std::string_view name) {
  json::value* value = body.if_contains(json::string_view(name.data(), name.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

// A flag under either of two names; the first goes before.
Failure read_flag(json::object& body, std::string_view name, std::string_view other, bool& out) {
  for (const std::string_view one : {name, other}) {
    if (one.empty()) continue;
    if (const json::value* value = member(body, one)) return read_bool(*value, one, out);
  }
  return std::nullopt;
}

Failure check_bytes(std::string_view path, size_t bytes) {
  if (bytes <= kTextBytesMax) return std::nullopt;
  return too_large(std::string(path), fmt::format("{} may have at most {} bytes of text, but it "
                                                  "has {}; send it in parts",
                                                  path, kTextBytesMax, bytes));
}

Failure wrong_type(std::string_view path, std::string_view wanted, const json::value& given) {
  return invalid_type(std::string(path), fmt::format("{} must be {}, but {} was given", path,
                                                     wanted, describe(given)));
}

// The piece of a token in llama-server's form: text, or the bytes of what is none.
void write_piece(base::JsonWriter& json, std::string_view bytes) {
  if (base::is_valid_utf8(bytes)) {
    json.value(bytes);
    return;
  }
  json.begin_array();
  for (const char c : bytes) json.value(static_cast<int>(static_cast<unsigned char>(c)));
  json.end_array();
}

}  // namespace

Failure TextRoutes::check_model(json::object& body) const {
  json::value* name = member(body, "model");
  if (name == nullptr) return std::nullopt;
  RequestFields fields;
  if (Failure failure = read_model(*name, {}, fields)) return failure;
  return generation_.check_model(fields);
}

TextRoutes::Ids TextRoutes::encode_text(std::string_view text, bool add_special) const {
  if (add_special) return generation_.encoder().encode_plain(text);
  Ids ids;
  deps_.tokenizer.encode(text, text::AddedTokens::kRecognise, ids);
  return ids;
}

Failure TextRoutes::encode_prompts(const json::value& prompt, bool add_special,
                                   std::vector<Ids>& out) const {
  if (prompt.is_string()) {
    const std::string_view text = view(prompt.get_string());
    if (Failure failure = check_bytes("prompt", text.size())) return failure;
    out.push_back(encode_text(text, add_special));
    return std::nullopt;
  }
  if (!prompt.is_array()) return wrong_type("prompt", "a string or an array of strings", prompt);
  const json::array& array = prompt.get_array();
  if (array.size() > kTextPromptsMax) {
    return invalid_value("prompt",
                         fmt::format("prompt may hold at most {} texts, but {} were given",
                                     kTextPromptsMax, array.size()));
  }
  size_t bytes = 0;
  for (size_t i = 0; i < array.size(); ++i) {
    if (!array[i].is_string()) return wrong_type(at_index("prompt", i), "a string", array[i]);
    bytes += array[i].get_string().size();
  }
  if (Failure failure = check_bytes("prompt", bytes)) return failure;
  for (const json::value& text : array) {
    out.push_back(encode_text(view(text.get_string()), add_special));
  }
  return std::nullopt;
}

Failure TextRoutes::render(json::object& body, chat::Prompt& out) const {
  RequestFields fields;
  const DecodeContext context{deps_.generator.limits().vocabulary_size};
  json::value* messages = member(body, "messages");
  if (messages == nullptr) return missing_parameter("messages", "messages is required");
  if (Failure failure = read_messages(*messages, context, fields)) return failure;
  if (json::value* tools = member(body, "tools")) {
    if (Failure failure = read_tools(*tools, context, fields)) return failure;
  }
  if (json::value* extra = member(body, "chat_template_kwargs")) {
    if (Failure failure = read_chat_template_kwargs(*extra, context, fields)) return failure;
  }
  if (const json::value* flag = member(body, "add_generation_prompt")) {
    if (Failure failure =
            read_bool(*flag, "add_generation_prompt", fields.add_generation_prompt.emplace())) {
      return failure;
    }
  }
  RenderedChat chat;
  if (Failure failure = generation_.render_chat(fields, chat)) return failure;
  out = std::move(chat.prompt);
  size_t bytes = 0;
  for (const chat::PromptSegment& segment : out.segments) bytes += segment.text.size();
  return check_bytes("messages", bytes);
}

// A token's name: its text, or its bytes spelled out where they are no text of their own.
std::string TextRoutes::token_name(wire::TokenId id) const {
  const std::string_view bytes = deps_.tokenizer.token_bytes(id);
  if (base::is_valid_utf8(bytes)) return std::string(bytes);
  std::string name = "bytes:";
  for (const char c : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

void TextRoutes::write_ids(base::JsonWriter& json, const Ids& ids,
                           const TokenizeOptions& options) const {
  json.begin_array();
  for (const wire::TokenId id : ids) {
    if (!options.with_pieces) {
      json.value(id);
      continue;
    }
    json.begin_object().key("id").value(id).key("piece");
    write_piece(json, deps_.tokenizer.token_bytes(id));
    json.end_object();
  }
  json.end_array();
}

std::string TextRoutes::tokens_answer(const std::vector<Ids>& all, bool is_list,
                                      const TokenizeOptions& options) const {
  base::JsonWriter json;
  // One value, or for a list of prompts a list of them.
  const auto write = [&](std::string_view key, const auto& one) {
    json.key(key);
    if (is_list) json.begin_array();
    for (const Ids& ids : all) one(ids);
    if (is_list) json.end_array();
  };
  json.begin_object();
  write("tokens", [&](const Ids& ids) { write_ids(json, ids, options); });
  write("count", [&](const Ids& ids) { json.value(uint64_t{ids.size()}); });
  json.key("max_model_len").value(context_limit(deps_.generator.limits()));
  if (options.token_strs) {
    write("token_strs", [&](const Ids& ids) {
      json.begin_array();
      for (const wire::TokenId id : ids) json.value(token_name(id));
      json.end_array();
    });
  }
  json.end_object();
  return std::move(json).take();
}

Failure TextRoutes::encode_chat(json::object& body, bool add_special, Ids& out) const {
  chat::Prompt rendered;
  if (Failure failure = render(body, rendered)) return failure;
  if (add_special) {
    const auto prefix = deps_.tokenizer.prefix_ids();
    out.assign(prefix.begin(), prefix.end());
  }
  const Ids encoded = generation_.encoder().encode(rendered);
  out.insert(out.end(), encoded.begin(), encoded.end());
  return std::nullopt;
}

Failure TextRoutes::tokenize(std::string_view request, std::string& out) const {
  json::object body;
  if (Failure failure = parse_object(request, body)) return failure;
  if (Failure failure = check_model(body)) return failure;
  const json::value* prompt = member(body, "prompt");
  const json::value* content = member(body, "content");
  const bool chat = member(body, "messages") != nullptr;
  if ((prompt != nullptr) + (content != nullptr) + (chat ? 1 : 0) != 1) {
    return missing_parameter("prompt", "one of prompt, content and messages is required");
  }
  TokenizeOptions options;
  // Templates write the BOS token themselves, and llama-server leaves it out of `content`.
  options.add_special = prompt != nullptr;
  if (Failure failure = read_flag(body, "add_special_tokens", "add_special", options.add_special)) {
    return failure;
  }
  if (Failure failure = read_flag(body, "return_token_strs", {}, options.token_strs)) {
    return failure;
  }
  if (Failure failure = read_flag(body, "with_pieces", {}, options.with_pieces)) return failure;
  std::vector<Ids> all;
  if (chat) {
    if (Failure failure = encode_chat(body, options.add_special, all.emplace_back())) {
      return failure;
    }
  } else if (prompt != nullptr) {
    if (Failure failure = encode_prompts(*prompt, options.add_special, all)) return failure;
  } else {
    if (!content->is_string()) return wrong_type("content", "a string", *content);
    const std::string_view text = view(content->get_string());
    if (Failure failure = check_bytes("content", text.size())) return failure;
    all.push_back(encode_text(text, options.add_special));
  }
  out = tokens_answer(all, prompt != nullptr && prompt->is_array(), options);
  return std::nullopt;
}

Failure TextRoutes::read_ids(const json::value& value, std::string_view path, size_t& bytes,
                             Ids& out) const {
  if (!value.is_array()) return wrong_type(path, "an array of token ids", value);
  const json::array& array = value.get_array();
  out.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    int64_t id = 0;
    if (Failure failure = read_integer(array[i], at_index(path, i), 0,
                                       int64_t{deps_.generator.limits().vocabulary_size} - 1, id)) {
      return failure;
    }
    out.push_back(static_cast<wire::TokenId>(id));
    bytes += deps_.tokenizer.token_bytes(out.back()).size();
    if (Failure failure = check_bytes(path, bytes)) return failure;
  }
  return std::nullopt;
}

Failure TextRoutes::detokenize(std::string_view request, std::string& out) const {
  json::object body;
  if (Failure failure = parse_object(request, body)) return failure;
  if (Failure failure = check_model(body)) return failure;
  const json::value* tokens = member(body, "tokens");
  if (tokens == nullptr) return missing_parameter("tokens", "tokens is required");
  bool skip_special = false;
  if (Failure failure = read_flag(body, "skip_special_tokens", {}, skip_special)) return failure;
  const bool is_list =
      tokens->is_array() && !tokens->get_array().empty() && tokens->get_array().front().is_array();
  std::vector<std::string> texts;
  size_t bytes = 0;
  const size_t count = is_list ? tokens->get_array().size() : 1;
  for (size_t i = 0; i < count; ++i) {
    const json::value& one = is_list ? tokens->get_array()[i] : *tokens;
    Ids ids;
    if (Failure failure =
            read_ids(one, is_list ? at_index("tokens", i) : std::string("tokens"), bytes, ids)) {
      return failure;
    }
    texts.push_back(deps_.tokenizer.decode(ids, skip_special));
  }
  base::JsonWriter json;
  json.begin_object();
  // What vLLM, SGLang and llama-server call it.
  for (const char* name : {"prompt", "text", "content"}) {
    json.key(name);
    if (is_list) json.begin_array();
    for (const std::string& text : texts) json.value(text);
    if (is_list) json.end_array();
  }
  json.end_object();
  out = std::move(json).take();
  return std::nullopt;
}

Failure TextRoutes::apply_template(std::string_view request, std::string& out) const {
  json::object body;
  if (Failure failure = parse_object(request, body)) return failure;
  if (Failure failure = check_model(body)) return failure;
  chat::Prompt rendered;
  if (Failure failure = render(body, rendered)) return failure;
  base::JsonWriter json;
  json.begin_object().key("prompt").value(rendered.text()).end_object();
  out = std::move(json).take();
  return std::nullopt;
}

std::string TextRoutes::tokenizer_info() const {
  base::JsonWriter json;
  const auto text_or_null = [&](const char* key, const std::string& text) {
    json.key(key);
    text.empty() ? json.null() : json.value(text);
  };
  json.begin_object();
  json.key("tokenizer_class").value("PreTrainedTokenizerFast");
  text_or_null("bos_token", model_.bos_token);
  text_or_null("eos_token", model_.eos_token);
  json.key("pad_token").null();  // nothing is padded here
  json.key("add_bos_token").value(!deps_.tokenizer.prefix_ids().empty());
  json.key("vocab_size").value(uint64_t{deps_.tokenizer.vocabulary_size()});
  json.key("model_max_length").value(context_limit(deps_.generator.limits()));
  text_or_null("chat_template", model_.chat_template);
  json.end_object();
  return std::move(json).take();
}

}  // namespace bulkhead::api
