#include "transfer/converting_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace bulkhead::transfer {

base::Result<ConvertPage> page_conversion(const kv::PageLayout& from, const kv::PageLayout& to) {
  if (from != to) {
    return base::unsupported(
        fmt::format("pages of {} are not converted to {}", from.id(), to.id()));
  }
  // Slots behind the written ones are copied along: nobody reads them, and a page in one piece is
  // faster than its parts.
  return ConvertPage([bytes = from.page_bytes()](const std::byte* source, std::byte* target,
                                                 int32_t) { std::memcpy(target, source, bytes); });
}

ConvertingLink::ConvertingLink(const ConvertingLinkOptions& options, ConvertingLinkDeps deps)
    : options_(options), deps_(std::move(deps)) {
  BH_CHECK(options.pages_per_step > 0, "a step makes progress");
  BH_CHECK(deps_.from.layout().page_tokens == deps_.to.layout().page_tokens,
           "both pools cut sequences at the same positions");
  promises_.reserve(options.capacity);
  parcels_.reserve(options.capacity);
  jobs_.reserve(static_cast<size_t>(options.pages_per_step));
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
  parcel.pages = kv::PageTable(deps_.to, handoff.state.tokens_max(), std::move(promise->pages));
  parcel.handoff = std::move(handoff);
  promises_.erase(promise);
  parcels_.push_back(std::move(parcel));
}

int32_t ConvertingLink::pages_of(const Parcel& parcel) const {
  return deps_.to.pages_for(parcel.handoff.state.written);
}

// Adds the parcel's next pages to the jobs, as many as there is room for.
void ConvertingLink::plan(Parcel& parcel) {
  const auto limit = static_cast<size_t>(options_.pages_per_step);
  const int32_t page_tokens = deps_.to.layout().page_tokens;
  const kv::CacheView from = deps_.from.view();
  const kv::CacheView to = deps_.to.view();
  const int32_t pages = pages_of(parcel);
  for (; parcel.converted < pages && jobs_.size() < limit; ++parcel.converted) {
    const auto index = static_cast<size_t>(parcel.converted);
    const int32_t begin = parcel.converted * page_tokens;
    const int32_t tokens = std::min(page_tokens, parcel.handoff.state.written - begin);
    BH_CHECK(parcel.pages.cover(begin + tokens), "promised at admission");
    const auto source = static_cast<size_t>(parcel.handoff.pages.pages()[index]);
    const auto target = static_cast<size_t>(parcel.pages.pages()[index]);
    jobs_.push_back({from.arena + source * from.layout.page_bytes(),
                     to.arena + target * to.layout.page_bytes(), tokens});
  }
}

void ConvertingLink::advance() {
  jobs_.clear();
  for (Parcel& parcel : parcels_) plan(parcel);
  if (jobs_.empty()) return;
  const auto convert = [this](size_t item, unsigned) {
    const Job& job = jobs_[item];
    deps_.convert(job.from, job.to, job.tokens);
  };
  if (deps_.threads != nullptr) {
    deps_.threads->run(jobs_.size(), convert);
  } else {
    for (size_t item = 0; item < jobs_.size(); ++item) convert(item, 0);
  }
  // Prefill's pages are free again as soon as they are not needed.
  for (Parcel& parcel : parcels_) {
    if (parcel.converted == pages_of(parcel)) parcel.handoff.pages.clear();
  }
}

std::optional<Handoff> ConvertingLink::receive() {
  if (parcels_.empty() || parcels_.front().converted < pages_of(parcels_.front())) {
    return std::nullopt;
  }
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
