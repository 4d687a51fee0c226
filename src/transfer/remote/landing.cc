#include "transfer/remote/landing.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "transfer/remote/digest.h"

namespace bulkhead::transfer::remote {

std::vector<GrantPage> granted_pages(std::span<const kv::Lease> leases, int32_t tokens,
                                     int32_t page_tokens) {
  std::vector<GrantPage> out;
  out.reserve(leases.size());
  for (int32_t begin = 0; begin < tokens; begin += page_tokens) {
    BH_CHECK(out.size() < leases.size(), "the table covers the tokens to be granted");
    out.push_back({leases[out.size()].ref(), begin, std::min(page_tokens, tokens - begin)});
  }
  return out;
}

Landing::Landing(kv::PagePool& pool, kv::PageTable pages, const GrantId& grant, int32_t tokens,
                 size_t chunk_bytes)
    : pool_(&pool),
      table_(std::move(pages)),
      grant_(grant),
      chunk_bytes_(chunk_bytes),
      chunks_per_page_((pool.layout().page_bytes() + chunk_bytes - 1) / chunk_bytes),
      granted_(granted_pages(table_.leases(), tokens, pool.layout().page_tokens)),
      covered_((granted_.size() * chunks_per_page_ + 63) / 64, 0),
      chunks_missing_(granted_.size(), static_cast<uint32_t>(chunks_per_page_)),
      digests_(granted_.size()),
      pages_missing_(granted_.size()) {}

std::span<std::byte> Landing::page_bytes(size_t page_index) {
  const size_t bytes = pool_->layout().page_bytes();
  const auto page = static_cast<size_t>(granted_[page_index].ref.page);
  return {pool_->view().arena + page * bytes, bytes};
}

Landed Landing::land(const Chunk& chunk) {
  if (chunk.page_index >= granted_.size()) return Landed::kOutOfRange;
  const kv::PageRef& ref = granted_[chunk.page_index].ref;
  if (chunk.tag != ref.tag || pool_->tags()[static_cast<size_t>(ref.page)] != ref.tag) {
    return Landed::kStaleTag;
  }
  const std::span<std::byte> page = page_bytes(chunk.page_index);
  if (chunk.offset >= page.size() || chunk.offset % chunk_bytes_ != 0 ||
      chunk.payload.size() != std::min<size_t>(chunk_bytes_, page.size() - chunk.offset)) {
    return Landed::kOutOfRange;
  }
  const size_t bit = chunk.page_index * chunks_per_page_ + chunk.offset / chunk_bytes_;
  const uint64_t mask = uint64_t{1} << (bit % 64);
  if ((covered_[bit / 64] & mask) != 0) return Landed::kDuplicate;
  std::memcpy(page.data() + chunk.offset, chunk.payload.data(), chunk.payload.size());
  covered_[bit / 64] |= mask;
  if (--chunks_missing_[chunk.page_index] == 0) {
    --pages_missing_;
    // Now, while the bytes are near, and not all at once when the record comes.
    digests_[chunk.page_index] = page_digest(grant_, granted_[chunk.page_index], page);
  }
  return Landed::kWritten;
}

std::vector<uint32_t> Landing::missing_pages() const {
  std::vector<uint32_t> out;
  out.reserve(pages_missing_);
  for (size_t i = 0; i < chunks_missing_.size(); ++i) {
    if (chunks_missing_[i] > 0) out.push_back(static_cast<uint32_t>(i));
  }
  return out;
}

bool Landing::tags_hold() const {
  return std::all_of(granted_.begin(), granted_.end(), [this](const GrantPage& page) {
    return pool_->tags()[static_cast<size_t>(page.ref.page)] == page.ref.tag;
  });
}

}  // namespace bulkhead::transfer::remote
