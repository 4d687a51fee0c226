#include <array>
#include <boost/json.hpp>
#include <string>
#include <utility>

#include "text/tokenizer_parts.h"

namespace bulkhead::text {
namespace {

enum class Digits { kNone, kIndividual };

// What a GGUF file's pre-tokenizer name stands for. GGUF says nothing of normalisers; Qwen2's
// published tokenizer normalises to form C.
struct Family {
  std::string_view name;
  Matcher matcher;
  Digits digits = Digits::kNone;
  bool nfc = false;
  bool ignore_merges = false;
};

constexpr Family kFamilies[] = {
    {"default", match_gpt2},
    {"gpt-2", match_gpt2},
    {"smollm", match_gpt2, Digits::kIndividual},
    {"starcoder", match_gpt2, Digits::kIndividual},
    {"refact", match_gpt2, Digits::kIndividual},
    {"command-r", match_gpt2, Digits::kIndividual, true},
    {"llama-bpe", match_llama3, Digits::kNone, false, true},
    {"llama3", match_llama3, Digits::kNone, false, true},
    {"llama-v3", match_llama3, Digits::kNone, false, true},
    {"glm4", match_llama3},
    {"chatglm-bpe", match_llama3},
    {"qwen2", match_qwen2, Digits::kNone, true},
    {"deepseek-r1-qwen", match_qwen2, Digits::kNone, true},
    {"gpt-4o", match_o200k},
    {"llama4", match_o200k},
};

constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;

base::Result<Family> find_family(std::string_view name) {
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.name == name || (name.empty() && family.name == "default")) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.name);
  }
  return base::unsupported("tokenizer.ggml.pre \"" + std::string(name) +
                           "\" is not supported; supported are " + known);
}

base::Status add_tokens(const GgufVocabulary& file, TokenizerParts& parts) {
  if (file.tokens.size() > kMaxVocabulary) {
    return base::corrupt("tokenizer.ggml.tokens has more than " + std::to_string(kMaxVocabulary) +
                         " entries");
  }
  if (!file.types.empty() && file.types.size() != file.tokens.size()) {
    return base::corrupt("tokenizer.ggml.token_type has " + std::to_string(file.types.size()) +
                         " entries for " + std::to_string(file.tokens.size()) + " tokens");
  }
  for (size_t i = 0; i < file.tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const int32_t type = file.types.empty() ? 1 : file.types[i];
    if (type == kControl || type == kUserDefined) {
      AddedToken token;
      token.id = id;
      token.content = file.tokens[i];
      token.special = type == kControl;
      parts.added.push_back(std::move(token));
    } else {
      parts.vocabulary.entries.push_back({file.tokens[i], id});
    }
  }
  return {};
}

base::Status add_merges(const GgufVocabulary& file, TokenizerParts& parts) {
  for (size_t i = 0; i < file.merges.size(); ++i) {
    const std::string& merge = file.merges[i];
    const size_t space = merge.find(' ');
    if (space == std::string::npos) {
      return base::corrupt("tokenizer.ggml.merges[" + std::to_string(i) + "] is not a pair");
    }
    parts.vocabulary.merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  return {};
}

namespace json = boost::json;

json::array steps_of(const Family& family) {
  json::array steps;
  if (family.digits == Digits::kIndividual) {
    steps.push_back(json::object{{"type", "Digits"}, {"individual_digits", true}});
  }
  const bool built_in = family.matcher == match_gpt2;
  if (!built_in) {
    steps.push_back({{"type", "Split"},
                     {"pattern", json::object{{"Regex", regex_of(family.matcher)}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back({{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", built_in}});
  return steps;
}

// What stands before and after a text: BOS, EOS, or nothing.
json::value post_processor(const GgufVocabulary& file) {
  json::array single;
  json::object special;
  const auto add = [&](TokenId id) {
    const std::string& content = file.tokens[static_cast<size_t>(id)];
    single.push_back(json::object{{"SpecialToken", {{"id", content}, {"type_id", 0}}}});
    special[content] = {
        {"id", content}, {"ids", json::array{id}}, {"tokens", json::array{content}}};
  };
  if (file.add_bos && file.bos) add(*file.bos);
  single.push_back(json::object{{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (file.add_eos && file.eos) add(*file.eos);
  if (special.empty()) return nullptr;
  json::array pair = single;
  pair.push_back(json::object{{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(special)}};
}

json::object model_of(const GgufVocabulary& file, const Family& family) {
  json::object vocabulary;
  vocabulary.reserve(file.tokens.size());
  for (size_t i = 0; i < file.tokens.size(); ++i) vocabulary[file.tokens[i]] = i;
  json::array merges;
  merges.reserve(file.merges.size());
  for (const std::string& merge : file.merges) merges.emplace_back(merge);
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", family.ignore_merges},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

json::array added_of(const TokenizerParts& parts) {
  json::array added;
  for (const AddedToken& token : parts.added) {
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", token.special}});
  }
  return added;
}

}  // namespace

base::Result<std::string> tokenizer_json_of(const GgufVocabulary& file) {
  BH_TRY(Tokenizer::from_gguf(file));  // names what cannot be expressed
  BH_ASSIGN(const Family family, find_family(file.pre));
  TokenizerParts parts;
  BH_TRY(add_tokens(file, parts));
  const json::object ends = {{"type", "ByteLevel"},
                             {"add_prefix_space", false},
                             {"trim_offsets", true},
                             {"use_regex", true}};
  return json::serialize(
      json::object{{"version", "1.0"},
                   {"truncation", nullptr},
                   {"padding", nullptr},
                   {"added_tokens", added_of(parts)},
                   {"normalizer",
                    family.nfc ? json::value(json::object{{"type", "NFC"}}) : json::value(nullptr)},
                   {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps_of(family)}}},
                   {"post_processor", post_processor(file)},
                   {"decoder", ends},
                   {"model", model_of(file, family)}});
}

base::Result<std::unique_ptr<Tokenizer>> Tokenizer::from_gguf(const GgufVocabulary& file) {
  if (file.model != "gpt2") {
    return base::unsupported("tokenizer.ggml.model \"" + file.model +
                             "\" is not supported; supported is gpt2 (byte-level BPE)");
  }
  BH_ASSIGN(const Family family, find_family(file.pre));
  TokenizerParts parts;
  BH_TRY(add_tokens(file, parts));
  BH_TRY(add_merges(file, parts));
  parts.vocabulary.ignore_merges = family.ignore_merges;
  parts.nfc = family.nfc;
  if (family.digits == Digits::kIndividual) parts.steps.push_back(SplitDigits{true});
  parts.steps.push_back(family.matcher);
  if (file.add_bos && file.bos) parts.prefix.push_back(*file.bos);
  if (file.add_eos && file.eos) parts.suffix.push_back(*file.eos);
  auto tokenizer = assemble(std::move(parts));
  if (!tokenizer.ok()) return std::move(tokenizer).error().within("tokenizer.ggml");
  return tokenizer;
}

}  // namespace bulkhead::text
