// Byte-pair merges over the bytes of one piece of text.
//
// Threads: immutable after create(); any thread may encode with its own scratch.
// Invariants: the result is that of applying, again and again, the best-ranked merge, leftmost
// first; a piece of n bytes costs at most 6 n queue operations of log n each.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/probe_table.h"
#include "text/tokenizer.h"

namespace bulkhead::text {

inline constexpr TokenId kNoToken = -1;

// Limits on what a vocabulary file may ask for; published ones stay below a quarter of each.
inline constexpr size_t kMaxVocabulary = size_t{1} << 20;
inline constexpr size_t kMaxMerges = size_t{1} << 22;
inline constexpr size_t kMaxPieceBytes = 4096;

struct VocabularyEntry {
  std::string piece;  // GPT-2 byte spelling, or the bytes themselves
  TokenId id = 0;
  bool raw = false;  // the bytes themselves
};

struct Merge {
  std::string left;  // GPT-2 byte spelling
  std::string right;
};

struct BpeVocabulary {
  std::vector<VocabularyEntry> entries;
  std::vector<Merge> merges;  // best rank first
  // tiktoken's way, without a list: any two neighbours whose bytes joined are a token merge to it,
  // and the lowest id goes first.
  bool merge_by_id = false;
  // A piece that is a token as a whole is taken as that token, whatever the merges say; except for
  // these ids, which no user's text may spell.
  bool ignore_merges = false;
  std::vector<TokenId> never_whole;
  // What stands for a byte without a token; without it such a byte is dropped.
  std::optional<TokenId> unknown;
  bool fuse_unknown = false;  // one id for a run of such bytes
};

// Working memory of one encode call, reused from piece to piece.
struct BpeScratch {
  struct Symbol {
    TokenId id;
    uint32_t rank;  // of the merge with the next symbol; kNoRank for none
    uint32_t previous;
    uint32_t next;
  };
  std::vector<Symbol> symbols;
  std::vector<uint64_t> queue;    // rank << 32 | position, a min-heap
  uint64_t queue_operations = 0;  // pushes and pops, for the proof that work stays linear
};

class BpeModel {
 public:
  static base::Result<BpeModel> create(const BpeVocabulary& vocabulary);

  void encode(std::string_view piece, BpeScratch& scratch, std::vector<TokenId>& out) const;

  // The bytes of a token: the spelled ones, or the piece itself where it is no spelling of bytes.
  std::string_view bytes(TokenId id) const;
  // `piece` as the file spells it.
  std::optional<TokenId> find(std::string_view piece) const;
  size_t size() const { return tokens_.size(); }  // largest id + 1

 private:
  struct Token {
    uint32_t offset = 0;  // in arena_
    uint32_t length = 0;
    bool present = false;
    bool whole = false;  // encode(bytes) is this token alone
  };
  struct PieceSlot {
    TokenId id = kNoToken;
    uint32_t hash = 0;  // upper half, to skip most comparisons
    bool empty() const { return id == kNoToken; }
  };
  struct MergeSlot {
    uint64_t pair = ~uint64_t{0};
    uint32_t rank = 0;
    TokenId result = kNoToken;
    bool empty() const { return result == kNoToken; }
  };

  BpeModel(size_t pieces, size_t merges) : pieces_(pieces), merges_(merges) {}

  base::Status add_pieces(const BpeVocabulary& vocabulary);
  base::Status add_piece(const VocabularyEntry& entry);
  base::Status add_merge(const Merge& merge, uint32_t rank);
  base::Status add_merges_by_id();
  void mark_whole_tokens(const BpeVocabulary& vocabulary);

  TokenId find_bytes(std::string_view bytes) const;
  const MergeSlot* find_merge(TokenId left, TokenId right) const;

  void load_symbols(std::string_view piece, BpeScratch& scratch) const;
  void merge_symbols(std::string_view piece, BpeScratch& scratch, std::vector<TokenId>& out) const;
  void merge_few(BpeScratch& scratch) const;
  void merge_many(BpeScratch& scratch) const;

  std::string arena_;
  std::vector<Token> tokens_;  // by id
  std::array<TokenId, 256> byte_tokens_{};
  size_t longest_piece_ = 0;
  ProbeTable<PieceSlot> pieces_;                         // by bytes
  std::map<std::string, TokenId, std::less<>> foreign_;  // pieces that spell no bytes
  ProbeTable<MergeSlot> merges_;
  std::optional<TokenId> unknown_;
  bool fuse_unknown_ = false;
};

}  // namespace bulkhead::text
