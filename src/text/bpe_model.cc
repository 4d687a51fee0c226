#include "text/bpe_model.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/check.h"
#include "text/byte_spelling.h"

namespace bulkhead::text {
namespace {

constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kNoSymbol = std::numeric_limits<uint32_t>::max();
// Up to here a scan over all ranks beats a queue; above it the scan would grow with the square.
constexpr size_t kFewSymbols = 32;

uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

base::Error crowded() {
  return base::corrupt("the vocabulary's keys collide as no published vocabulary's do");
}

// Every cut of a token is looked up when merges are not listed, so tokens must be short; published
// ones stay below 130 bytes.
constexpr size_t kMaxMergedBytes = 256;

std::string quoted(std::string_view piece) { return "\"" + std::string(piece) + "\""; }

}  // namespace

base::Result<BpeModel> BpeModel::create(const BpeVocabulary& vocabulary) {
  if (vocabulary.entries.empty()) return base::corrupt("the vocabulary is empty");
  if (vocabulary.entries.size() > kMaxVocabulary) {
    return base::corrupt("the vocabulary has more than " + std::to_string(kMaxVocabulary) +
                         " pieces");
  }
  if (vocabulary.merges.size() > kMaxMerges) {
    return base::corrupt("there are more than " + std::to_string(kMaxMerges) + " merges");
  }
  BpeModel model(vocabulary.entries.size(), vocabulary.merges.size());
  BH_TRY(model.add_pieces(vocabulary));
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    BH_TRY(model.add_merge(vocabulary.merges[rank], static_cast<uint32_t>(rank)));
  }
  if (vocabulary.merge_by_id) BH_TRY(model.add_merges_by_id());
  model.mark_whole_tokens(vocabulary);
  return model;
}

base::Status BpeModel::add_pieces(const BpeVocabulary& vocabulary) {
  byte_tokens_.fill(kNoToken);
  for (const VocabularyEntry& entry : vocabulary.entries) BH_TRY(add_piece(entry));
  unknown_ = vocabulary.unknown;
  fuse_unknown_ = vocabulary.fuse_unknown;
  return {};
}

base::Status BpeModel::add_piece(const VocabularyEntry& entry) {
  if (entry.id < 0 || static_cast<size_t>(entry.id) >= kMaxVocabulary) {
    return base::corrupt("the id of piece " + quoted(entry.piece) + " is outside 0.." +
                         std::to_string(kMaxVocabulary - 1));
  }
  if (entry.piece.size() > kMaxPieceBytes) {
    return base::corrupt("piece " + std::to_string(entry.id) + " is longer than " +
                         std::to_string(kMaxPieceBytes) + " bytes");
  }
  const auto index = static_cast<size_t>(entry.id);
  if (index >= tokens_.size()) tokens_.resize(index + 1);
  Token& token = tokens_[index];
  if (token.present) return base::corrupt("id " + std::to_string(entry.id) + " is given twice");
  const std::optional<std::string> bytes =
      entry.raw ? entry.piece : bytes_from_spelling(entry.piece);
  const std::string& stored = bytes ? *bytes : entry.piece;
  token = {static_cast<uint32_t>(arena_.size()), static_cast<uint32_t>(stored.size()), true, false};
  arena_ += stored;
  if (!bytes) {
    if (foreign_.emplace(entry.piece, entry.id).second) return {};
    return base::corrupt("piece " + quoted(entry.piece) + " is listed twice");
  }
  const uint64_t hash = hash_of(*bytes);
  PieceSlot* slot = pieces_.place(hash, [&](const PieceSlot& other) {
    return other.hash == hash >> 32 && this->bytes(other.id) == *bytes;
  });
  if (slot == nullptr) return crowded();
  if (!slot->empty()) return base::corrupt("piece " + quoted(entry.piece) + " is listed twice");
  *slot = {entry.id, static_cast<uint32_t>(hash >> 32)};
  longest_piece_ = std::max(longest_piece_, bytes->size());
  if (bytes->size() == 1) byte_tokens_[static_cast<unsigned char>(bytes->front())] = entry.id;
  return {};
}

base::Status BpeModel::add_merge(const Merge& merge, uint32_t rank) {
  const std::string where =
      "merge " + std::to_string(rank) + " (" + merge.left + " " + merge.right + ")";
  const auto left = bytes_from_spelling(merge.left);
  const auto right = bytes_from_spelling(merge.right);
  if (!left || !right || left->empty() || right->empty()) {
    return base::corrupt(where + " is not in byte-level spelling");
  }
  const TokenId left_id = find_bytes(*left);
  const TokenId right_id = find_bytes(*right);
  const TokenId result = find_bytes(*left + *right);
  if (left_id == kNoToken || right_id == kNoToken || result == kNoToken) {
    return base::corrupt(where + " names a piece that is not in the vocabulary");
  }
  const uint64_t pair = pair_key(left_id, right_id);
  MergeSlot* slot =
      merges_.place(hash_of(pair), [&](const MergeSlot& other) { return other.pair == pair; });
  if (slot == nullptr) return crowded();
  *slot = {pair, rank, result};  // of a merge listed twice the last rank counts
  return {};
}

base::Status BpeModel::add_merges_by_id() {
  std::vector<MergeSlot> merges;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view whole = bytes(id);
    if (whole.size() > kMaxMergedBytes) {
      return base::corrupt("token " + std::to_string(id) + " is longer than " +
                           std::to_string(kMaxMergedBytes) + " bytes");
    }
    for (size_t cut = 1; cut < whole.size(); ++cut) {
      const TokenId left = find_bytes(whole.substr(0, cut));
      if (left == kNoToken) continue;
      const TokenId right = find_bytes(whole.substr(cut));
      if (right == kNoToken) continue;
      merges.push_back({pair_key(left, right), static_cast<uint32_t>(id), id});
    }
    if (merges.size() > kMaxMerges) {
      return base::corrupt("the tokens allow more than " + std::to_string(kMaxMerges) + " merges");
    }
  }
  merges_ = ProbeTable<MergeSlot>(merges.size());
  for (const MergeSlot& merge : merges) {
    MergeSlot* slot = merges_.place(
        hash_of(merge.pair), [&](const MergeSlot& other) { return other.pair == merge.pair; });
    if (slot == nullptr) return crowded();
    *slot = merge;
  }
  return {};
}

// Most words of real text are tokens that their own merges lead to; looking such a word up spares
// the merging.
void BpeModel::mark_whole_tokens(const BpeVocabulary& vocabulary) {
  BpeScratch scratch;
  std::vector<TokenId> ids;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    Token& token = tokens_[i];
    const auto id = static_cast<TokenId>(i);
    if (!token.present || find_bytes(bytes(id)) != id) continue;
    ids.clear();
    merge_symbols(bytes(id), scratch, ids);
    token.whole = ids.size() == 1 && ids.front() == id;
  }
  if (!vocabulary.ignore_merges) return;
  std::vector<bool> never(tokens_.size());
  for (const TokenId id : vocabulary.never_whole) {
    if (id >= 0 && static_cast<size_t>(id) < never.size()) never[static_cast<size_t>(id)] = true;
  }
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (!never[i]) tokens_[i].whole = tokens_[i].present;
  }
}

std::string_view BpeModel::bytes(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= tokens_.size()) return {};
  const Token& token = tokens_[static_cast<size_t>(id)];
  return std::string_view(arena_).substr(token.offset, token.length);
}

std::optional<TokenId> BpeModel::find(std::string_view piece) const {
  if (const auto found = foreign_.find(piece); found != foreign_.end()) return found->second;
  const auto bytes = bytes_from_spelling(piece);
  const TokenId id = bytes ? find_bytes(*bytes) : kNoToken;
  return id == kNoToken ? std::nullopt : std::optional<TokenId>(id);
}

TokenId BpeModel::find_bytes(std::string_view bytes) const {
  if (bytes.size() > longest_piece_) return kNoToken;
  const uint64_t hash = hash_of(bytes);
  const PieceSlot* slot = pieces_.find(hash, [&](const PieceSlot& other) {
    return other.hash == hash >> 32 && this->bytes(other.id) == bytes;
  });
  return slot == nullptr ? kNoToken : slot->id;
}

const BpeModel::MergeSlot* BpeModel::find_merge(TokenId left, TokenId right) const {
  const uint64_t pair = pair_key(left, right);
  return merges_.find(hash_of(pair), [&](const MergeSlot& other) { return other.pair == pair; });
}

void BpeModel::encode(std::string_view piece, BpeScratch& scratch,
                      std::vector<TokenId>& out) const {
  const TokenId whole = find_bytes(piece);
  if (whole != kNoToken && tokens_[static_cast<size_t>(whole)].whole) {
    out.push_back(whole);
    return;
  }
  merge_symbols(piece, scratch, out);
}

void BpeModel::merge_symbols(std::string_view piece, BpeScratch& scratch,
                             std::vector<TokenId>& out) const {
  load_symbols(piece, scratch);
  if (scratch.symbols.size() <= kFewSymbols) {
    merge_few(scratch);
  } else {
    merge_many(scratch);
  }
  if (scratch.symbols.empty()) return;
  for (uint32_t at = 0; at != kNoSymbol; at = scratch.symbols[at].next) {
    out.push_back(scratch.symbols[at].id);
  }
}

void BpeModel::load_symbols(std::string_view piece, BpeScratch& scratch) const {
  BH_CHECK(piece.size() < kNoSymbol, "a piece of text must be under 4 GiB");
  auto& symbols = scratch.symbols;
  symbols.clear();
  bool after_unknown = false;
  for (const char byte : piece) {
    TokenId id = byte_tokens_[static_cast<unsigned char>(byte)];
    const bool is_unknown = id == kNoToken;
    if (is_unknown) {
      if (!unknown_ || (fuse_unknown_ && after_unknown)) continue;
      id = *unknown_;
    }
    after_unknown = is_unknown;
    const auto at = static_cast<uint32_t>(symbols.size());
    if (at > 0) {
      const MergeSlot* merge = find_merge(symbols.back().id, id);
      symbols.back().rank = merge == nullptr ? kNoRank : merge->rank;
      symbols.back().next = at;
    }
    symbols.push_back({id, kNoRank, at == 0 ? kNoSymbol : at - 1, kNoSymbol});
  }
}

void BpeModel::merge_few(BpeScratch& scratch) const {
  auto& symbols = scratch.symbols;
  const auto rank_with_next = [&](size_t at) {
    if (at + 1 >= symbols.size()) return kNoRank;
    const MergeSlot* merge = find_merge(symbols[at].id, symbols[at + 1].id);
    return merge == nullptr ? kNoRank : merge->rank;
  };
  while (symbols.size() > 1) {
    const auto best = std::min_element(
        symbols.begin(), symbols.end(),
        [](const BpeScratch::Symbol& a, const BpeScratch::Symbol& b) { return a.rank < b.rank; });
    if (best->rank == kNoRank) break;
    const auto at = static_cast<size_t>(best - symbols.begin());
    symbols[at].id = find_merge(symbols[at].id, symbols[at + 1].id)->result;
    symbols.erase(best + 1);
    symbols[at].rank = rank_with_next(at);
    if (at > 0) symbols[at - 1].rank = rank_with_next(at - 1);
  }
  for (size_t at = 0; at < symbols.size(); ++at) {
    symbols[at].next = at + 1 == symbols.size() ? kNoSymbol : static_cast<uint32_t>(at + 1);
  }
}

void BpeModel::merge_many(BpeScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& queue = scratch.queue;
  const auto entry = [&](uint32_t at) { return uint64_t{symbols[at].rank} << 32 | at; };
  const auto refresh = [&](uint32_t at) {
    BpeScratch::Symbol& symbol = symbols[at];
    const MergeSlot* merge =
        symbol.next == kNoSymbol ? nullptr : find_merge(symbol.id, symbols[symbol.next].id);
    symbol.rank = merge == nullptr ? kNoRank : merge->rank;
    if (merge == nullptr) return;
    queue.push_back(entry(at));
    std::push_heap(queue.begin(), queue.end(), std::greater<>());
    ++scratch.queue_operations;
  };
  queue.clear();
  for (uint32_t at = 0; at < symbols.size(); ++at) {
    if (symbols[at].rank != kNoRank) queue.push_back(entry(at));
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  scratch.queue_operations += queue.size();
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const uint64_t top = queue.back();
    queue.pop_back();
    ++scratch.queue_operations;
    const auto at = static_cast<uint32_t>(top);
    // An entry is stale when the symbol has merged since: its rank is another one now, or none.
    if (symbols[at].rank != top >> 32) continue;
    BpeScratch::Symbol& left = symbols[at];
    BpeScratch::Symbol& right = symbols[left.next];
    left.id = find_merge(left.id, right.id)->result;
    left.next = right.next;
    right.rank = kNoRank;
    if (left.next != kNoSymbol) symbols[left.next].previous = at;
    refresh(at);
    if (left.previous != kNoSymbol) refresh(left.previous);
  }
}

}  // namespace bulkhead::text
