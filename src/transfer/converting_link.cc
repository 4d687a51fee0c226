#include "transfer/converting_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "kernels/kv_write.h"
#include "kv/integrity/isolate.h"
#include "kv/integrity/stamp.h"

namespace bulkhead::transfer {

using kv::integrity::Phase;

namespace {

// Slots behind the written ones are copied along: nobody reads them in this process, and a page in
// one piece is faster than its parts.
void copy_page(const kv::CacheView& from, const kv::CacheView& to, const PageMove& move) {
  const size_t bytes = from.layout.page_bytes();
  std::memcpy(to.arena + static_cast<size_t>(move.to) * bytes,
              from.arena + static_cast<size_t>(move.from) * bytes, bytes);
}

// With the bytes that a model would have written into a page of the other format.
void quantise_page(const kv::CacheView& from, const kv::CacheView& to, const PageMove& move) {
  for (int32_t layer = 0; layer < from.layout.layers; ++layer) {
    kernels::convert_page(from.layer(layer), move.from, to.layer(layer), move.to, move.tokens);
  }
  for (int32_t layer = 0; layer < from.layout.index_layers; ++layer) {
    kernels::convert_page(from.index_layer(layer), move.from, to.index_layer(layer), move.to,
                          move.tokens);
  }
}

}  // namespace

base::Result<ConvertPage> page_conversion(const kv::PageLayout& from, const kv::PageLayout& to) {
  if (from == to) return ConvertPage(copy_page);
  kv::PageLayout other = from;
  other.format = to.format;
  if (other == to && from.format == kv::PageFormat::kBf16) return ConvertPage(quantise_page);
  return base::unsupported(fmt::format("pages of {} are not converted to {}", from.id(), to.id()));
}

base::Result<PageToBytes> page_to_bytes(const kv::PageLayout& from, const kv::PageLayout& to) {
  BH_ASSIGN(ConvertPage convert, page_conversion(from, to));
  return PageToBytes([convert = std::move(convert), from, to](std::span<const std::byte> page,
                                                              int32_t tokens,
                                                              std::span<std::byte> out) {
    // A page alone is an arena of one, and the source is only read.
    const kv::CacheView source{const_cast<std::byte*>(page.data()), from, 1};
    const kv::CacheView target{out.data(), to, 1};
    std::fill(out.begin(), out.end(), std::byte{0});  // a format may have bytes of no slot
    convert(source, target, {0, 0, tokens});
    for (int32_t layer = 0; layer < to.layers; ++layer) {
      kernels::clear_slots(target.layer(layer), 0, tokens);
    }
    for (int32_t layer = 0; layer < to.index_layers; ++layer) {
      kernels::clear_slots(target.index_layer(layer), 0, tokens);
    }
  });
}

ConvertingLink::ConvertingLink(const ConvertingLinkOptions& options, ConvertingLinkDeps deps)
    : options_(options), deps_(std::move(deps)) {
  BH_CHECK(options.pages_per_step > 0, "a step makes progress");
  BH_CHECK(deps_.from.layout().page_tokens == deps_.to.layout().page_tokens,
           "both pools cut sequences at the same positions");
  promises_.reserve(options.capacity);
  parcels_.reserve(options.capacity);
  moves_.reserve(static_cast<size_t>(options.pages_per_step));
}

bool ConvertingLink::reserve(wire::Slot slot, int64_t tokens) {
  BH_CHECK(promises_.size() + parcels_.size() < options_.capacity,
           "no more requests are admitted than the link can carry");
  const int32_t pages = deps_.to.pages_for(tokens);
  kv::Reservation promise = deps_.to.reserve(pages);
  if (promise.pages() < pages) return false;
  promises_.push_back({slot, std::move(promise)});
  return true;
}

void ConvertingLink::unreserve(wire::Slot slot) {
  std::erase_if(promises_, [slot](const Promise& promise) { return promise.slot == slot; });
}

void ConvertingLink::offer(Handoff handoff) {
  const wire::Slot slot = handoff.state.slot;
  const auto promise = std::find_if(promises_.begin(), promises_.end(),
                                    [slot](const Promise& one) { return one.slot == slot; });
  BH_CHECK(promise != promises_.end(), "admission promised the pages of what is offered");
  Parcel parcel;
  parcel.pages = kv::PageTable(deps_.to, handoff.state.tokens_max(), std::move(promise->pages),
                               kv::label_of(handoff.state.cache.tenant));
  parcel.handoff = std::move(handoff);
  promises_.erase(promise);
  parcels_.push_back(std::move(parcel));
}

int32_t ConvertingLink::pages_of(const Parcel& parcel) const {
  return deps_.to.pages_for(parcel.handoff.state.written);
}

bool ConvertingLink::is_done(const Parcel& parcel) const {
  return !parcel.handoff.intact || parcel.converted == pages_of(parcel);
}

// Adds the parcel's next pages to the moves, as many as there is room for.
void ConvertingLink::plan(Parcel& parcel) {
  const auto limit = static_cast<size_t>(options_.pages_per_step);
  const int32_t page_tokens = deps_.to.layout().page_tokens;
  const int32_t pages = pages_of(parcel);
  const size_t moves_before = moves_.size();
  parcel.before = parcel.converted;
  if (is_done(parcel)) return;
  for (; parcel.converted < pages && moves_.size() < limit; ++parcel.converted) {
    const auto index = static_cast<size_t>(parcel.converted);
    const int32_t begin = parcel.converted * page_tokens;
    const int32_t tokens = std::min(page_tokens, parcel.handoff.state.written - begin);
    BH_CHECK(parcel.pages.cover(begin + tokens), "promised at admission");
    moves_.push_back({parcel.handoff.pages.pages()[index], parcel.pages.pages()[index], tokens});
  }
  if (verify(parcel, Phase::kBefore)) return;
  moves_.resize(moves_before);
  fail(parcel);
}

void ConvertingLink::fail(Parcel& parcel) {
  parcel.handoff.intact = false;
  parcel.before = parcel.converted;
}

bool ConvertingLink::verify(const Parcel& parcel, Phase phase) {
  // Both, whatever the first says: each pool counts its own.
  const bool source = verify(deps_.from, parcel.handoff.pages, parcel, phase);
  const bool target = verify(deps_.to, parcel.pages, parcel, phase);
  return source && target;
}

bool ConvertingLink::verify(kv::PagePool& pool, const kv::PageTable& table, const Parcel& parcel,
                            Phase phase) {
  kv::integrity::Tracker& tracker = pool.integrity();
  const auto begin = static_cast<size_t>(parcel.before);
  const auto pages = static_cast<size_t>(parcel.converted - parcel.before);
  const kv::integrity::Reading reading{
      table.pages().subspan(begin, pages), table.leases().subspan(begin, pages),
      kv::label_of(parcel.handoff.state.cache.tenant), parcel.handoff.state.id, parcel.before};
  uint8_t bad = 0;
  if (tracker.check(std::span(&reading, 1), phase, std::span(&bad, 1)) == 0) return true;
  if (tracker.mode() != kv::integrity::Mode::kAbort) return true;
  kv::integrity::isolate(pool, reading, Phase::kBefore);
  return false;
}

// What is known of the pages' content goes with them.
void ConvertingLink::hand_marks_on(Parcel& parcel) {
  kv::integrity::Tracker& from = deps_.from.integrity();
  kv::integrity::Tracker& to = deps_.to.integrity();
  if (!from.is_on()) {
    kv::integrity::stamp_pages(to, parcel.pages, parcel.handoff.state.written_tokens(),
                               parcel.before * deps_.to.layout().page_tokens);
    return;
  }
  for (auto i = static_cast<size_t>(parcel.before); i < static_cast<size_t>(parcel.converted);
       ++i) {
    const kv::Lease& source = parcel.handoff.pages.leases()[i];
    const kv::Lease& target = parcel.pages.leases()[i];
    from.note(source.page(), kv::integrity::Transition::kSent, source.tag());
    to.note(target.page(), kv::integrity::Transition::kFilled, target.tag());
    if (const auto stamp = from.stamp(source.page())) to.set_stamp(target.page(), *stamp);
  }
}

void ConvertingLink::advance() {
  moves_.clear();
  for (Parcel& parcel : parcels_) plan(parcel);
  if (moves_.empty()) return;
  const kv::CacheView from = deps_.from.view();
  const kv::CacheView to = deps_.to.view();
  const auto convert = [&](size_t item, unsigned) { deps_.convert(from, to, moves_[item]); };
  if (deps_.threads != nullptr) {
    deps_.threads->run(moves_.size(), convert);
  } else {
    for (size_t item = 0; item < moves_.size(); ++item) convert(item, 0);
  }
  for (Parcel& parcel : parcels_) {
    if (parcel.before == parcel.converted) continue;
    if (verify(parcel, Phase::kSource)) {
      hand_marks_on(parcel);
    } else {
      fail(parcel);
    }
    // Prefill's pages are free again as soon as they are not needed.
    if (is_done(parcel)) parcel.handoff.pages.clear();
  }
}

std::optional<Handoff> ConvertingLink::receive() {
  if (parcels_.empty() || !is_done(parcels_.front())) return std::nullopt;
  Handoff handoff = std::move(parcels_.front().handoff);
  handoff.pages = std::move(parcels_.front().pages);
  parcels_.erase(parcels_.begin());
  return handoff;
}

std::optional<Handoff> ConvertingLink::withdraw(wire::Slot slot) {
  const auto found = std::find_if(parcels_.begin(), parcels_.end(), [slot](const Parcel& parcel) {
    return parcel.handoff.state.slot == slot;
  });
  if (found == parcels_.end()) return std::nullopt;
  Handoff handoff = std::move(found->handoff);
  parcels_.erase(found);
  return handoff;
}

}  // namespace bulkhead::transfer
