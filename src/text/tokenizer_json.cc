#include <boost/json.hpp>
#include <limits>
#include <string>
#include <utility>

#include "text/added_token_matcher.h"
#include "text/tokenizer_parts.h"

namespace bulkhead::text {
namespace {

namespace json = boost::json;

constexpr size_t kMaxFileBytes = size_t{64} << 20;

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }
json::string_view key(std::string_view name) { return {name.data(), name.size()}; }

// One value of the document and where it stands, for errors that point at it.
class Node {
 public:
  Node(const json::value* value, std::string path) : value_(value), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  bool is_null() const { return value_ == nullptr || value_->is_null(); }

  // The member `name`; a null node when there is none or this is no object.
  Node get(std::string_view name) const {
    const json::object* object = value_ == nullptr ? nullptr : value_->if_object();
    return {object == nullptr ? nullptr : object->if_contains(key(name)),
            path_.empty() ? std::string(name) : path_ + "." + std::string(name)};
  }
  Node at(const json::array& array, size_t index) const {
    return {&array[index], path_ + "[" + std::to_string(index) + "]"};
  }

  base::Result<const json::object*> object() const {
    if (value_ != nullptr && value_->is_object()) return value_->if_object();
    return wrong("an object");
  }
  base::Result<const json::array*> array() const {
    if (value_ != nullptr && value_->is_array()) return value_->if_array();
    return wrong("an array");
  }
  base::Result<std::string_view> string() const {
    if (value_ != nullptr && value_->is_string()) return view(value_->get_string());
    return wrong("a string");
  }
  // A null or missing value is `fallback`.
  base::Result<bool> boolean(bool fallback) const {
    if (is_null()) return fallback;
    if (value_->is_bool()) return value_->get_bool();
    return wrong("true or false");
  }
  base::Result<TokenId> id() const {
    const int64_t* number = value_ == nullptr ? nullptr : value_->if_int64();
    if (number != nullptr && *number >= 0 && *number <= std::numeric_limits<TokenId>::max()) {
      return static_cast<TokenId>(*number);
    }
    return wrong("a token id");
  }
  // The member "type" of a component.
  base::Result<std::string_view> type() const { return get("type").string(); }

  base::Error wrong(std::string_view expected) const {
    return base::invalid_argument(path_, path_ + " must be " + std::string(expected));
  }
  base::Error not_supported(std::string_view what, std::string_view supported) const {
    base::Error error =
        base::unsupported(path_ + ": " + std::string(what) +
                          " is not supported; supported: " + std::string(supported));
    error.field = path_;
    return error;
  }

 private:
  const json::value* value_;
  std::string path_;
};

// Calls `each(Node)` for every component: the node itself or, of a Sequence, its parts in order.
template <typename Each>
base::Status for_each_part(const Node& node, std::string_view list_name, Each each) {
  if (node.is_null()) return {};
  BH_ASSIGN(const std::string_view type, node.type());
  if (type != "Sequence") return each(node);
  const Node list = node.get(list_name);
  BH_ASSIGN(const json::array* parts, list.array());
  for (size_t i = 0; i < parts->size(); ++i) {
    const Node part = list.at(*parts, i);
    BH_ASSIGN(const std::string_view inner, part.type());
    if (inner == "Sequence") return part.not_supported("a Sequence inside a Sequence", "one level");
    BH_TRY(each(part));
  }
  return {};
}

base::Status read_normalizer(const Node& node, TokenizerParts& parts) {
  return for_each_part(node, "normalizers", [&](const Node& part) -> base::Status {
    BH_ASSIGN(const std::string_view type, part.type());
    if (type != "NFC") return part.not_supported("normalizer " + std::string(type), "none, NFC");
    parts.nfc = true;
    return {};
  });
}

base::Status read_split(const Node& node, TokenizerParts& parts) {
  BH_ASSIGN(const std::string_view behavior, node.get("behavior").string());
  BH_ASSIGN(const bool invert, node.get("invert").boolean(false));
  const Node pattern = node.get("pattern").get("Regex");
  if (pattern.is_null()) return node.not_supported("a pattern that is not a Regex", "Regex");
  BH_ASSIGN(const std::string_view regex, pattern.string());
  auto step = split_by_regex(regex);
  if (!step.ok()) {
    base::Error error = std::move(step).error().within(pattern.path());
    error.field = pattern.path();
    return error;
  }
  // Keeping the matches and removing the rest comes to the same for a pattern that leaves no rest.
  const bool isolated = behavior == "Isolated" && !invert;
  const bool kept = behavior == "Removed" && invert && matches_everything(regex);
  if (!isolated && !kept) {
    return node.not_supported("behavior " + std::string(behavior) + (invert ? " inverted" : ""),
                              "Isolated");
  }
  parts.steps.push_back(*std::move(step));
  return {};
}

base::Status read_byte_level(const Node& node, TokenizerParts& parts) {
  BH_ASSIGN(const bool prefix_space, node.get("add_prefix_space").boolean(true));
  BH_ASSIGN(const bool use_regex, node.get("use_regex").boolean(true));
  if (prefix_space) parts.steps.push_back(PrefixSpace{});
  if (use_regex) parts.steps.push_back(Matcher(match_gpt2));
  return {};
}

base::Status read_pre_tokenizer(const Node& node, TokenizerParts& parts) {
  constexpr std::string_view kSupported =
      "Split, Digits, then ByteLevel as the last one (byte-level BPE)";
  bool byte_level = false;
  BH_TRY(for_each_part(node, "pretokenizers", [&](const Node& part) -> base::Status {
    BH_ASSIGN(const std::string_view type, part.type());
    if (byte_level) return part.not_supported("a pre-tokenizer after ByteLevel", kSupported);
    if (parts.steps.size() >= PreTokenizer::kMaxSteps) {
      return part.not_supported("a chain this long",
                                std::to_string(PreTokenizer::kMaxSteps) + " steps");
    }
    if (type == "Split") return read_split(part, parts);
    if (type == "Digits") {
      BH_ASSIGN(const bool individual, part.get("individual_digits").boolean(false));
      parts.steps.push_back(SplitDigits{individual});
      return {};
    }
    if (type != "ByteLevel") {
      return part.not_supported("pre-tokenizer " + std::string(type), kSupported);
    }
    byte_level = true;
    return read_byte_level(part, parts);
  }));
  if (!byte_level) return node.not_supported("a pre-tokenizer without ByteLevel", kSupported);
  return {};
}

base::Status read_decoder(const Node& node) {
  bool byte_level = false;
  BH_TRY(for_each_part(node, "decoders", [&](const Node& part) -> base::Status {
    BH_ASSIGN(const std::string_view type, part.type());
    if (type != "ByteLevel" || byte_level) {
      return part.not_supported("decoder " + std::string(type), "one ByteLevel");
    }
    byte_level = true;
    return {};
  }));
  return byte_level ? base::Status() : node.not_supported("no decoder", "ByteLevel");
}

base::Status read_vocabulary(const Node& node, BpeVocabulary& out) {
  BH_ASSIGN(const json::object* vocabulary, node.object());
  if (vocabulary->size() > kMaxVocabulary) return node.wrong("a vocabulary of at most 2^20 pieces");
  out.entries.reserve(vocabulary->size());
  for (const auto& entry : *vocabulary) {
    const std::string_view piece(entry.key().data(), entry.key().size());
    const int64_t* id = entry.value().if_int64();
    if (id == nullptr || *id < 0 || *id >= static_cast<int64_t>(kMaxVocabulary)) {
      const std::string path = node.path() + "[\"" + std::string(piece) + "\"]";
      return base::invalid_argument(path, path + " must be a token id below 2^20");
    }
    out.entries.push_back({std::string(piece), static_cast<TokenId>(*id)});
  }
  return {};
}

base::Status read_merges(const Node& node, BpeVocabulary& out) {
  BH_ASSIGN(const json::array* merges, node.array());
  if (merges->size() > kMaxMerges) return node.wrong("a list of at most 2^22 merges");
  out.merges.reserve(merges->size());
  for (size_t i = 0; i < merges->size(); ++i) {
    const json::value& merge = (*merges)[i];
    if (const json::string* text = merge.if_string()) {
      const std::string_view both = view(*text);
      const size_t space = both.find(' ');
      if (space != std::string_view::npos && both.find(' ', space + 1) == std::string_view::npos) {
        out.merges.push_back(
            {std::string(both.substr(0, space)), std::string(both.substr(space + 1))});
        continue;
      }
    }
    const json::array* pair = merge.if_array();
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_string() ||
        !(*pair)[1].is_string()) {
      return node.at(*merges, i).wrong("\"left right\" or [\"left\", \"right\"]");
    }
    out.merges.push_back(
        {std::string(view((*pair)[0].get_string())), std::string(view((*pair)[1].get_string()))});
  }
  return {};
}

// A member that must be absent, null, false, zero or empty.
base::Status must_be_off(const Node& model, std::string_view name) {
  const Node node = model.get(name);
  if (node.is_null()) return {};
  if (const auto text = node.string(); text.ok() && text->empty()) return {};
  if (const auto flag = node.boolean(false); flag.ok() && !*flag) return {};
  return node.not_supported("this setting", "null");
}

base::Status read_model(const Node& node, TokenizerParts& parts) {
  BH_TRY(node.object());
  // Files from before 2020 leave the type of a BPE model out.
  if (!node.get("type").is_null()) {
    BH_ASSIGN(const std::string_view type, node.type());
    if (type != "BPE") return node.not_supported("model " + std::string(type), "BPE");
  }
  for (const std::string_view name :
       {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"}) {
    BH_TRY(must_be_off(node, name));
  }
  BpeVocabulary& vocabulary = parts.vocabulary;
  BH_ASSIGN(vocabulary.ignore_merges, node.get("ignore_merges").boolean(false));
  BH_ASSIGN(vocabulary.fuse_unknown, node.get("fuse_unk").boolean(false));
  BH_TRY(read_vocabulary(node.get("vocab"), vocabulary));
  BH_TRY(read_merges(node.get("merges"), vocabulary));
  const Node unknown = node.get("unk_token");
  if (unknown.is_null()) return {};
  BH_ASSIGN(const std::string_view content, unknown.string());
  for (const VocabularyEntry& entry : vocabulary.entries) {
    if (entry.piece == content) vocabulary.unknown = entry.id;
  }
  return vocabulary.unknown ? base::Status() : unknown.wrong("a piece of the vocabulary");
}

base::Status read_added_tokens(const Node& node, TokenizerParts& parts) {
  if (node.is_null()) return {};
  BH_ASSIGN(const json::array* tokens, node.array());
  if (tokens->size() > AddedTokenMatcher::kMaxTokens) {
    return node.wrong("a list of at most 2^16 tokens");
  }
  for (size_t i = 0; i < tokens->size(); ++i) {
    const Node entry = node.at(*tokens, i);
    AddedToken token;
    BH_ASSIGN(token.id, entry.get("id").id());
    BH_ASSIGN(const std::string_view content, entry.get("content").string());
    token.content = content;
    BH_ASSIGN(token.special, entry.get("special").boolean(false));
    BH_ASSIGN(token.lstrip, entry.get("lstrip").boolean(false));
    BH_ASSIGN(token.rstrip, entry.get("rstrip").boolean(false));
    BH_ASSIGN(token.single_word, entry.get("single_word").boolean(false));
    BH_ASSIGN(token.normalized, entry.get("normalized").boolean(!token.special));
    parts.added.push_back(std::move(token));
  }
  return {};
}

// Ids of one special token of a template, which names it and lists its ids apart.
base::Status append_template_ids(const Node& processor, std::string_view name,
                                 std::vector<TokenId>& out) {
  const Node list = processor.get("special_tokens").get(name).get("ids");
  BH_ASSIGN(const json::array* ids, list.array());
  for (size_t i = 0; i < ids->size(); ++i) {
    BH_ASSIGN(const TokenId id, list.at(*ids, i).id());
    out.push_back(id);
  }
  return {};
}

base::Status read_template(const Node& processor, TokenizerParts& parts) {
  constexpr std::string_view kSupported = "SpecialToken and one Sequence A";
  const Node single = processor.get("single");
  BH_ASSIGN(const json::array* items, single.array());
  std::vector<TokenId> before;
  std::vector<TokenId> after;
  bool seen_text = false;
  for (size_t i = 0; i < items->size(); ++i) {
    const Node item = single.at(*items, i);
    const Node special = item.get("SpecialToken");
    if (!special.is_null()) {
      BH_ASSIGN(const std::string_view name, special.get("id").string());
      BH_TRY(append_template_ids(processor, name, seen_text ? after : before));
      continue;
    }
    if (seen_text || item.get("Sequence").is_null()) {
      return item.not_supported("this template item", kSupported);
    }
    seen_text = true;
  }
  if (!seen_text) return single.not_supported("a template without the text", kSupported);
  parts.prefix.insert(parts.prefix.begin(), before.begin(), before.end());
  parts.suffix.insert(parts.suffix.end(), after.begin(), after.end());
  return {};
}

base::Status read_post_processor(const Node& node, TokenizerParts& parts) {
  return for_each_part(node, "processors", [&](const Node& part) -> base::Status {
    BH_ASSIGN(const std::string_view type, part.type());
    if (type == "ByteLevel") return {};  // adjusts offsets only
    if (type == "TemplateProcessing") return read_template(part, parts);
    return part.not_supported("post-processor " + std::string(type),
                              "none, ByteLevel, TemplateProcessing");
  });
}

base::Status read_document(const Node& root, TokenizerParts& parts) {
  BH_TRY(root.object());
  BH_TRY(read_normalizer(root.get("normalizer"), parts));
  BH_TRY(read_pre_tokenizer(root.get("pre_tokenizer"), parts));
  BH_TRY(read_model(root.get("model"), parts));
  BH_TRY(read_added_tokens(root.get("added_tokens"), parts));
  BH_TRY(read_post_processor(root.get("post_processor"), parts));
  return read_decoder(root.get("decoder"));
}

}  // namespace

base::Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json) {
  if (tokenizer_json.size() > kMaxFileBytes) {
    return base::corrupt("tokenizer.json is larger than 64 MiB");
  }
  TokenizerParts parts;
  {
    json::error_code failed;
    const json::value document = json::parse(key(tokenizer_json), failed);
    if (failed) return base::corrupt("tokenizer.json is not JSON: " + failed.message());
    BH_TRY(read_document(Node(&document, ""), parts));
  }
  return assemble(std::move(parts));
}

}  // namespace bulkhead::text
