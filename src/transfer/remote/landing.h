// The fence in front of the pages of one grant: what may land, and what has.
//
// Threads: step thread only. Invariants: bytes are written only into a page that is leased here,
// whose tag is the one that was granted and still is the pool's, and only where nothing was written
// before; a page counts as whole when every byte of it has arrived.
#pragma once

#include <cstdint>
#include <vector>

#include "kv/page_table.h"
#include "transfer/remote/messages.h"

namespace bulkhead::transfer::remote {

enum class Landed {
  kWritten,
  kOutOfRange,  // no such page, or not a chunk of it
  kStaleTag,    // of another life of the page
  kDuplicate,   // was written already
};

class Landing {
 public:
  // The first pages_for(tokens) pages of `pages`, which cover so many tokens.
  Landing(kv::PagePool& pool, kv::PageTable pages, const GrantId& grant, int32_t tokens,
          size_t chunk_bytes);

  // Copies the chunk to its place when every check says so.
  Landed land(const Chunk& chunk);

  std::span<const GrantPage> pages() const { return granted_; }
  bool is_whole() const { return pages_missing_ == 0; }
  std::vector<uint32_t> missing_pages() const;
  // Of the bytes as they stand in the pool; the page is whole.
  const Digest& digest(size_t page_index) const { return digests_[page_index]; }
  // Every granted tag still is its page's.
  bool tags_hold() const;
  const kv::PageTable& table() const { return table_; }
  int32_t page_count() const { return static_cast<int32_t>(table_.pages().size()); }
  // Its pages are granted: what is known of them may change, which they are may not.
  kv::PageTable& table() { return table_; }
  kv::PageTable take_table() && { return std::move(table_); }

 private:
  std::span<std::byte> page_bytes(size_t page_index);

  kv::PagePool* pool_;
  kv::PageTable table_;
  GrantId grant_;
  size_t chunk_bytes_;
  size_t chunks_per_page_;
  std::vector<GrantPage> granted_;
  std::vector<uint64_t> covered_;         // one bit a chunk
  std::vector<uint32_t> chunks_missing_;  // per page
  std::vector<Digest> digests_;
  size_t pages_missing_;
};

// The pages that `tokens` tokens fill, in order, with the references of `leases`.
std::vector<GrantPage> granted_pages(std::span<const kv::Lease> leases, int32_t tokens,
                                     int32_t page_tokens);

}  // namespace bulkhead::transfer::remote
