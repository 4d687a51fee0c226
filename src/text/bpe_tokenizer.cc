#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "text/added_token_matcher.h"
#include "text/nfc.h"
#include "text/tokenizer_parts.h"

namespace bulkhead::text {
namespace {

class ModelSink : public PieceSink {
 public:
  ModelSink(const BpeModel& model, std::vector<TokenId>& out) : model_(model), out_(out) {}
  void take(std::string_view piece) override { model_.encode(piece, scratch_, out_); }

 private:
  const BpeModel& model_;
  std::vector<TokenId>& out_;
  BpeScratch scratch_;
};

class BpeTokenizer : public Tokenizer {
 public:
  BpeTokenizer(BpeModel model, TokenizerParts parts);

  void encode(std::string_view text, AddedTokens added, std::vector<TokenId>& out) const override;
  std::span<const TokenId> prefix_ids() const override { return prefix_; }
  std::span<const TokenId> suffix_ids() const override { return suffix_; }
  std::string_view token_bytes(TokenId id) const override;
  bool is_special(TokenId id) const override;
  std::optional<TokenId> find(std::string_view piece) const override;
  std::span<const AddedToken> added_tokens() const override { return added_; }
  size_t vocabulary_size() const override { return size_; }

 private:
  const AddedToken* added_by_id(TokenId id) const;
  std::string normalised(std::string_view text) const;
  void encode_plain(std::string_view text, ModelSink& sink) const;
  void encode_normalised(std::string_view text, ModelSink& sink, std::vector<TokenId>& out) const;

  BpeModel model_;
  PreTokenizer pre_tokenizer_;
  bool nfc_;
  std::vector<AddedToken> added_;  // by id
  std::map<std::string, TokenId, std::less<>> added_by_content_;
  AddedTokenMatcher in_raw_text_;
  AddedTokenMatcher in_normalised_text_;
  std::vector<TokenId> prefix_;
  std::vector<TokenId> suffix_;
  size_t size_;
};

BpeTokenizer::BpeTokenizer(BpeModel model, TokenizerParts parts)
    : model_(std::move(model)),
      pre_tokenizer_(std::move(parts.steps)),
      nfc_(parts.nfc),
      added_(std::move(parts.added)),
      prefix_(std::move(parts.prefix)),
      suffix_(std::move(parts.suffix)),
      size_(model_.size()) {
  for (const AddedToken& token : added_) {
    size_ = std::max(size_, static_cast<size_t>(token.id) + 1);
    added_by_content_.emplace(token.content, token.id);
    if (token.normalized) {
      in_normalised_text_.add(normalised(token.content), token);
    } else {
      in_raw_text_.add(token.content, token);
    }
  }
}

std::string BpeTokenizer::normalised(std::string_view text) const {
  std::string out;
  if (nfc_) {
    append_nfc(text, out);
  } else {
    out = text;
  }
  return out;
}

void BpeTokenizer::encode_plain(std::string_view text, ModelSink& sink) const {
  pre_tokenizer_.split(text, sink);
}

void BpeTokenizer::encode_normalised(std::string_view text, ModelSink& sink,
                                     std::vector<TokenId>& out) const {
  std::vector<AddedMatch> matches;
  in_normalised_text_.find_all(text, matches);
  size_t at = 0;
  for (const AddedMatch& match : matches) {
    if (match.begin > at) encode_plain(text.substr(at, match.begin - at), sink);
    out.push_back(match.id);
    at = match.end;
  }
  encode_plain(text.substr(at), sink);
}

void BpeTokenizer::encode(std::string_view text, AddedTokens added,
                          std::vector<TokenId>& out) const {
  ModelSink sink(model_, out);
  const auto encode_gap = [&](std::string_view gap) {
    std::string form_c;
    if (nfc_) {
      append_nfc(gap, form_c);
      gap = form_c;
    }
    if (added == AddedTokens::kRecognise) {
      encode_normalised(gap, sink, out);
    } else {
      encode_plain(gap, sink);
    }
  };
  if (added == AddedTokens::kAsText) return encode_gap(text);
  std::vector<AddedMatch> matches;
  in_raw_text_.find_all(text, matches);
  size_t at = 0;
  for (const AddedMatch& match : matches) {
    if (match.begin > at) encode_gap(text.substr(at, match.begin - at));
    out.push_back(match.id);
    at = match.end;
  }
  encode_gap(text.substr(at));
}

const AddedToken* BpeTokenizer::added_by_id(TokenId id) const {
  const auto found =
      std::lower_bound(added_.begin(), added_.end(), id,
                       [](const AddedToken& token, TokenId wanted) { return token.id < wanted; });
  return found == added_.end() || found->id != id ? nullptr : &*found;
}

std::string_view BpeTokenizer::token_bytes(TokenId id) const {
  if (const AddedToken* token = added_by_id(id)) return token->content;
  return model_.bytes(id);
}

bool BpeTokenizer::is_special(TokenId id) const {
  const AddedToken* token = added_by_id(id);
  return token != nullptr && token->special;
}

std::optional<TokenId> BpeTokenizer::find(std::string_view piece) const {
  const auto found = added_by_content_.find(piece);
  return found != added_by_content_.end() ? found->second : model_.find(piece);
}

// Added tokens by id, each id and each content once, and in agreement with the vocabulary.
base::Status check_added(const BpeModel& model, std::vector<AddedToken>& added) {
  if (added.size() > AddedTokenMatcher::kMaxTokens) {
    return base::corrupt("there are more than " + std::to_string(AddedTokenMatcher::kMaxTokens) +
                         " added tokens");
  }
  std::sort(added.begin(), added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  size_t total = 0;
  std::map<std::string_view, TokenId> contents;
  for (size_t i = 0; i < added.size(); ++i) {
    const AddedToken& token = added[i];
    const std::string name = "added token " + std::to_string(token.id);
    if (token.id < 0 || static_cast<size_t>(token.id) >= kMaxVocabulary) {
      return base::corrupt(name + " has an id outside 0.." + std::to_string(kMaxVocabulary - 1));
    }
    total += token.content.size();
    if (token.content.empty() || token.content.size() > AddedTokenMatcher::kMaxContentBytes ||
        total > AddedTokenMatcher::kMaxTotalBytes) {
      return base::corrupt(name + " is empty or too long");
    }
    const auto [same, fresh] = contents.emplace(token.content, token.id);
    if (!fresh) return base::corrupt(name + " spells the same as " + std::to_string(same->second));
    if (i > 0 && added[i - 1].id == token.id) {
      return base::corrupt(name + " is listed twice");
    }
    const auto in_vocabulary = model.find(token.content);
    const bool id_is_free = model.bytes(token.id).empty();
    if (in_vocabulary ? *in_vocabulary != token.id : !id_is_free) {
      return base::corrupt(name + " contradicts the vocabulary, which has " +
                           (in_vocabulary ? "its content at id " + std::to_string(*in_vocabulary)
                                          : "another piece at its id"));
    }
  }
  return {};
}

base::Status check_ids(const std::vector<TokenId>& ids, size_t size) {
  for (const TokenId id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= size) {
      return base::corrupt("the post-processor's id " + std::to_string(id) +
                           " is outside the vocabulary");
    }
  }
  return {};
}

}  // namespace

base::Result<std::unique_ptr<Tokenizer>> assemble(TokenizerParts parts) {
  for (const AddedToken& token : parts.added) {
    if (token.special) parts.vocabulary.never_whole.push_back(token.id);
  }
  BH_ASSIGN(BpeModel model, BpeModel::create(parts.vocabulary));
  BH_TRY(check_added(model, parts.added));
  parts.vocabulary = {};
  auto tokenizer = std::make_unique<BpeTokenizer>(std::move(model), std::move(parts));
  BH_TRY(check_ids({tokenizer->prefix_ids().begin(), tokenizer->prefix_ids().end()},
                   tokenizer->vocabulary_size()));
  BH_TRY(check_ids({tokenizer->suffix_ids().begin(), tokenizer->suffix_ids().end()},
                   tokenizer->vocabulary_size()));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace bulkhead::text
