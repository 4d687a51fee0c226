#include "transfer/remote/commit_record.h"

#include <fmt/format.h>

#include "base/check.h"

namespace bulkhead::transfer::remote {
namespace {

FaultReport integrity(std::string text) { return {Fault::kIntegrity, std::move(text)}; }

std::optional<FaultReport> check_page(const CommitPage& recorded, size_t index,
                                      const Landing& landing) {
  if (recorded.page != landing.pages()[index]) {
    return integrity(fmt::format("the record's page {} is not the one granted", index));
  }
  if (!recorded.has_digest) {
    return integrity(fmt::format("the record has no digest of page {}", index));
  }
  if (recorded.digest != landing.digest(index)) {
    return integrity(fmt::format("page {} does not have the digest of the record", index));
  }
  return std::nullopt;
}

}  // namespace

std::vector<uint64_t> layer_manifest(const kv::PageLayout& layout) {
  std::vector<uint64_t> out(static_cast<size_t>(layout.layers), layout.layer_bytes());
  out.insert(out.end(), static_cast<size_t>(layout.index_layers),
             layout.index_layers > 0 ? layout.index_bytes() : 0);
  return out;
}

std::optional<FaultReport> check_record(const Commit& commit, const TransferId& transfer,
                                        int32_t tokens, const kv::PageLayout& layout,
                                        const Landing& landing) {
  BH_CHECK(landing.is_whole(), "what is missing is asked for first");
  if (commit.transfer != transfer) return integrity("the record is of another transfer");
  if (commit.layout != layout.id() || commit.page_bytes != layout.page_bytes()) {
    return integrity(fmt::format("the record's layout {} is not {}", commit.layout, layout.id()));
  }
  if (commit.layer_bytes != layer_manifest(layout)) {
    return integrity("the record's layers are not those of a page");
  }
  if (commit.tokens != tokens) {
    return integrity(
        fmt::format("the record has {} tokens, {} were granted", commit.tokens, tokens));
  }
  if (commit.pages.size() != landing.pages().size()) {
    return integrity(fmt::format("the record has {} pages, {} were granted", commit.pages.size(),
                                 landing.pages().size()));
  }
  for (size_t i = 0; i < commit.pages.size(); ++i) {
    if (auto bad = check_page(commit.pages[i], i, landing)) return bad;
  }
  if (!landing.tags_hold()) return integrity("a granted page has another life now");
  return std::nullopt;
}

}  // namespace bulkhead::transfer::remote
