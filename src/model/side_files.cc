#include "model/side_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/value.hpp>
#include <charconv>

#include "model/families/family.h"
#include "model/fields.h"
#include "model/formats/quant_config.h"

namespace bulkhead::model {
namespace {

constexpr size_t kEosMax = 64;

base::Result<int32_t> token_id(const JsonFields& fields, std::string_view key,
                               const boost::json::value& value, int32_t vocabulary) {
  if (!value.is_int64() || value.get_int64() < 0 || value.get_int64() >= vocabulary) {
    return fields.refuse(key, fmt::format("must be token ids from 0 to {}", vocabulary - 1));
  }
  return static_cast<int32_t>(value.get_int64());
}

// "eos_token_id": a number, a list of numbers, or null.
base::Status read_eos(const JsonFields& fields, int32_t vocabulary,
                      GenerationDefaults& generation) {
  constexpr std::string_view kKey = "eos_token_id";
  const boost::json::value* value = fields.value(kKey);
  if (value == nullptr) return {};
  if (!value->is_array()) {
    BH_ASSIGN(const int32_t id, token_id(fields, kKey, *value, vocabulary));
    add_eos(id, generation);
    return {};
  }
  if (value->get_array().size() > kEosMax) {
    return fields.refuse(kKey, fmt::format("more than {} ids", kEosMax));
  }
  for (const boost::json::value& element : value->get_array()) {
    BH_ASSIGN(const int32_t id, token_id(fields, kKey, element, vocabulary));
    add_eos(id, generation);
  }
  return {};
}

base::Result<std::optional<float>> optional_number(const JsonFields& fields, std::string_view key,
                                                   NumberRange range) {
  if (!fields.has(key)) return std::optional<float>{};
  BH_ASSIGN(const double value, fields.number(key, range));
  return std::optional<float>(static_cast<float>(value));
}

std::string to_std(const boost::json::string& text) { return {text.data(), text.size()}; }

// A special token: its spelling, or an object that holds it as "content".
base::Result<std::string> token_spelling(const JsonFields& fields, std::string_view key) {
  const boost::json::value* value = fields.value(key);
  if (value == nullptr) return std::string();
  if (value->is_string()) return to_std(value->get_string());
  BH_ASSIGN(const auto object, fields.object(key));
  return object->text_or("content", "");
}

// A template, or a list of named ones of which "default" is taken.
base::Result<std::string> chat_template(const JsonFields& fields) {
  const boost::json::value* value = fields.value("chat_template");
  if (value == nullptr) return std::string();
  if (value->is_string()) return to_std(value->get_string());
  if (!value->is_array()) return fields.refuse("chat_template", "must be a string or a list");
  for (const boost::json::value& element : value->get_array()) {
    if (!element.is_object()) return fields.refuse("chat_template", "must list objects");
    const JsonFields named("tokenizer_config.json: chat_template", element.get_object());
    BH_ASSIGN(const std::string name, named.text_or("name", ""));
    if (name == "default") return named.text_or("template", "");
  }
  return std::string();
}

// added_tokens_decoder: {"163584": {"content": "[BOS]", "special": true, ...}, ...}.
base::Result<std::vector<DeclaredToken>> declared_tokens(const JsonFields& fields) {
  std::vector<DeclaredToken> out;
  const boost::json::value* value = fields.value("added_tokens_decoder");
  if (value == nullptr) return out;
  if (!value->is_object()) return fields.refuse("added_tokens_decoder", "must be an object");
  for (const auto& [key, described] : value->get_object()) {
    const std::string id(key.data(), key.size());
    const std::string where = "added_tokens_decoder." + id;
    DeclaredToken token;
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), token.id);
    if (error != std::errc() || end != id.data() + id.size() || token.id < 0) {
      return fields.refuse(where, "is not a token id");
    }
    if (!described.is_object()) return fields.refuse(where, "must be an object");
    const JsonFields one(fields.where() + ": " + where, described.get_object());
    BH_ASSIGN(token.content, one.text_or("content", ""));
    BH_ASSIGN(token.special, one.flag_or("special", false));
    BH_ASSIGN(token.lstrip, one.flag_or("lstrip", false));
    BH_ASSIGN(token.rstrip, one.flag_or("rstrip", false));
    BH_ASSIGN(token.single_word, one.flag_or("single_word", false));
    BH_ASSIGN(token.normalized, one.flag_or("normalized", false));
    out.push_back(std::move(token));
  }
  return out;
}

}  // namespace

void add_eos(int32_t id, GenerationDefaults& generation) {
  std::vector<int32_t>& ids = generation.eos_ids;
  const auto place = std::lower_bound(ids.begin(), ids.end(), id);
  if (place == ids.end() || *place != id) ids.insert(place, id);
}

base::Result<ModelConfig> parse_config(std::string_view text, GenerationDefaults& generation) {
  constexpr std::string_view kFile = "config.json";
  BH_ASSIGN(boost::json::object object, parse_json_object(kFile, text));
  BH_TRY(formats::take_quant_config(kFile, object));
  const JsonFields fields{std::string(kFile), object};
  if (!fields.has("model_type")) return fields.refuse("model_type", "missing");
  BH_ASSIGN(const std::string type, fields.text_or("model_type", ""));
  BH_ASSIGN(const Family* family, find_family(kFile, type));
  BH_ASSIGN(ModelConfig config, family->from_json(fields));
  BH_TRY(read_eos(fields, config.vocabulary, generation));
  // A model of several parts may name its end tokens in the part that writes.
  BH_ASSIGN(const auto writer, fields.object("text_config"));
  if (writer) BH_TRY(read_eos(*writer, config.vocabulary, generation));
  return config;
}

base::Status parse_generation_config(std::string_view text, int32_t vocabulary,
                                     GenerationDefaults& generation) {
  constexpr std::string_view kFile = "generation_config.json";
  BH_ASSIGN(const boost::json::object object, parse_json_object(kFile, text));
  const JsonFields fields{std::string(kFile), object};
  BH_TRY(read_eos(fields, vocabulary, generation));
  if (fields.has("do_sample")) {
    BH_ASSIGN(const bool sample, fields.flag_or("do_sample", false));
    generation.do_sample = sample;
  }
  BH_ASSIGN(generation.temperature, optional_number(fields, "temperature", {0.0, 100.0}));
  BH_ASSIGN(generation.top_p, optional_number(fields, "top_p", {0.0, 1.0}));
  BH_ASSIGN(generation.repetition_penalty,
            optional_number(fields, "repetition_penalty", {1e-3, 1e3}));
  if (fields.has("top_k")) {
    BH_ASSIGN(const double top_k, fields.number("top_k", {0.0, 1e9}));
    generation.top_k = static_cast<int32_t>(top_k);
  }
  return {};
}

base::Status parse_tokenizer_config(std::string_view text, TextSource& out) {
  constexpr std::string_view kFile = "tokenizer_config.json";
  BH_ASSIGN(const boost::json::object object, parse_json_object(kFile, text));
  const JsonFields fields{std::string(kFile), object};
  BH_ASSIGN(out.bos_token, token_spelling(fields, "bos_token"));
  BH_ASSIGN(out.eos_token, token_spelling(fields, "eos_token"));
  if (fields.has("add_bos_token")) {
    BH_ASSIGN(const bool add, fields.flag_or("add_bos_token", false));
    out.add_bos = add;
  }
  BH_ASSIGN(out.chat_template, chat_template(fields));
  BH_ASSIGN(out.declared, declared_tokens(fields));
  return {};
}

}  // namespace bulkhead::model
