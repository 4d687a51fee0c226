#include "kv/integrity/tag_tracker.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace bulkhead::kv::integrity {
namespace {

Mark digest_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

void count(std::atomic<uint64_t>& counter, uint64_t n) {
  counter.fetch_add(n, std::memory_order_relaxed);
}

std::string history_text(const std::vector<Moment>& history) {
  std::string text;
  for (const Moment& moment : history) {
    text += fmt::format("{}{} {:#x} ({})", text.empty() ? "" : ", ", to_string(moment.what),
                        moment.tag, moment.number);
  }
  return text;
}

// Mode off: nothing is kept, so there is nothing to ask.
class NoTracker final : public Tracker {
 public:
  Mode mode() const override { return Mode::kOff; }
  size_t check(std::span<const Reading>, Phase, std::span<uint8_t>) override { return 0; }
  void found(Mismatch) override {}
  void note(PageId, Transition, Tag) override {}
  void set_label(PageId, Label) override {}
  Label label(PageId) const override { return 0; }
  void set_place(PageId, Place) override {}
  Place place(PageId) const override { return kNoPlace; }
  void set_stamp(PageId, const Mark&) override {}
  std::optional<Mark> stamp(PageId) const override { return std::nullopt; }
  void want_seal(PageId) override {}
  std::optional<PageId> next_to_seal() override { return std::nullopt; }
  void seal(PageId, std::span<const std::byte>) override {}
  bool scrub(PageId, std::span<const std::byte>) override { return true; }
  bool is_sealed(PageId) const override { return false; }
  Mark stamp_key() const override { return {}; }
  Report report() const override { return {}; }
};

}  // namespace

std::unique_ptr<Tracker> make_tracker(Options options, std::span<const Tag> tags) {
  if (options.mode == Mode::kOff) return std::make_unique<NoTracker>();
  return std::make_unique<TagTracker>(std::move(options), tags);
}

TagTracker::TagTracker(Options options, std::span<const Tag> tags)
    : options_(std::move(options)), tags_(tags), standings_(tags.size()), facts_(tags.size()) {
  quarantined_.reserve(tags.size());
}

// --- the batch check

bool TagTracker::is_wrong(const Reading& reading) const {
  if (reading.pages.size() != reading.expected.size()) return true;
  const auto total = static_cast<uint32_t>(tags_.size());
  auto expected_place = static_cast<uint32_t>(reading.first);
  uint64_t wrong = 0;
  for (size_t i = 0; i < reading.pages.size(); ++i) {
    const Lease& expected = reading.expected[i];
    const auto page = static_cast<uint32_t>(reading.pages[i]);  // negative ones are out of range
    const uint32_t safe = page < total ? page : 0;
    wrong |= static_cast<uint64_t>(page >= total);
    wrong |= page ^ static_cast<uint32_t>(expected.page());
    wrong |= tags_[safe] ^ expected.tag();
    wrong |= standings_[safe].label ^ expected.label();
    wrong |= static_cast<uint32_t>(standings_[safe].place) ^ expected_place++;
    wrong |= static_cast<uint64_t>(expected.label() != reading.label) &
             static_cast<uint64_t>(expected.label() != 0);
  }
  return wrong != 0;
}

size_t TagTracker::check(std::span<const Reading> readings, Phase phase, std::span<uint8_t> bad) {
  BH_CHECK(bad.size() >= readings.size(), "a verdict for each reading");
  size_t wrong = 0;
  uint64_t pages = 0;
  for (size_t i = 0; i < readings.size(); ++i) {
    bad[i] = is_wrong(readings[i]) ? 1 : 0;
    wrong += bad[i];
    pages += readings[i].pages.size();
  }
  count(checks_, 1);
  count(pages_checked_, pages);
  if (wrong > 0) {
    for (size_t i = 0; i < readings.size(); ++i) {
      if (bad[i] != 0) explain(readings[i], phase);
    }
  }
  return wrong;
}

// --- what is wrong

std::optional<Mismatch> TagTracker::judge(const Reading& reading, size_t entry) const {
  Mismatch what;
  what.reader = reading.reader;
  what.entry = reading.first + static_cast<int64_t>(entry);
  what.expected_label = reading.label;
  if (entry < reading.expected.size()) {
    const Lease& expected = reading.expected[entry];
    what.expected_page = expected.page();
    what.expected_tag = expected.tag();
    what.expected_label = expected.label();
  }
  if (entry < reading.pages.size()) what.page = reading.pages[entry];
  what.kind = Kind::kOutOfRange;
  if (!in_pool(what.page) || what.expected_page < 0) return what;
  const auto page = static_cast<size_t>(what.page);
  what.found_tag = tags_[page];
  what.found_label = standings_[page].label;
  what.kind = facts_[page].quarantined ? Kind::kQuarantined : Kind::kTag;
  if (what.page != what.expected_page || what.found_tag != what.expected_tag) return what;
  what.kind = Kind::kLabel;
  if (what.found_label != what.expected_label) return what;
  if (what.expected_label != 0 && what.expected_label != reading.label) {
    what.expected_label = reading.label;
    return what;
  }
  what.kind = Kind::kMisplaced;
  if (standings_[page].place != what.entry) return what;
  return std::nullopt;
}

void TagTracker::explain(const Reading& reading, Phase phase) {
  bool told = false;
  const size_t entries = std::max(reading.pages.size(), reading.expected.size());
  for (size_t i = 0; i < entries; ++i) {
    auto what = judge(reading, i);
    if (!what) continue;
    what->phase = phase;
    if (std::exchange(told, true)) {
      count(mismatches_[static_cast<size_t>(what->kind)], 1);
    } else {
      found(*std::move(what));
    }
  }
}

void TagTracker::found(Mismatch what) {
  count(mismatches_[static_cast<size_t>(what.kind)], 1);
  const PageId page = in_pool(what.expected_page) ? what.expected_page : what.page;
  if (in_pool(page)) what.history = history(page);
  if (in_pool(what.page)) what.found_place = place(what.page);
  tell(std::move(what));
}

bool TagTracker::is_known(const Mismatch& what) const {
  return std::any_of(events_.begin(), events_.end(), [&what](const Mismatch& old) {
    return old.kind == what.kind && old.reader == what.reader && old.entry == what.entry &&
           old.page == what.page && old.found_tag == what.found_tag &&
           old.expected_page == what.expected_page && old.expected_tag == what.expected_tag;
  });
}

void TagTracker::tell(Mismatch what) {
  {
    const std::lock_guard lock(mutex_);
    if (is_known(what)) return;
    what.number = ++events_seen_;
    events_.push_back(what);
    if (events_.size() > kEventsKept) events_.pop_front();
  }
  log(what);
}

void TagTracker::log(const Mismatch& what) const {
  if (options_.logger == nullptr) return;
  const auto hex = [](uint64_t value) { return fmt::format("{:#x}", value); };
  options_.logger->error("page integrity", {{"pool", options_.pool},
                                            {"mode", std::string(to_string(options_.mode))},
                                            {"kind", std::string(to_string(what.kind))},
                                            {"phase", std::string(to_string(what.phase))},
                                            {"reader", what.reader},
                                            {"entry", what.entry},
                                            {"page", int64_t{what.page}},
                                            {"found_tag", hex(what.found_tag)},
                                            {"found_label", hex(what.found_label)},
                                            {"found_place", int64_t{what.found_place}},
                                            {"expected_page", int64_t{what.expected_page}},
                                            {"expected_tag", hex(what.expected_tag)},
                                            {"expected_label", hex(what.expected_label)},
                                            {"history", history_text(what.history)}});
}

// --- what is known of a page

void TagTracker::note(PageId page, Transition what, Tag tag) {
  Facts& one = facts(page);
  one.moments[one.moments_seen++ % kMomentsKept] = {++moments_, what, tag};
  if (what == Transition::kFreed || what == Transition::kQuarantined) {
    one.stamped = one.sealed = one.to_seal = false;
  }
  if (what == Transition::kForgotten) one.sealed = one.to_seal = false;
  if (what != Transition::kQuarantined) return;
  one.quarantined = true;
  const std::lock_guard lock(mutex_);
  quarantined_.push_back(page);
}

std::vector<Moment> TagTracker::history(PageId page) const {
  const Facts& one = facts_[static_cast<size_t>(page)];
  std::vector<Moment> out;
  out.reserve(kMomentsKept);
  for (uint32_t i = 0; i < kMomentsKept; ++i) {
    const Moment& moment = one.moments[(one.moments_seen + i) % kMomentsKept];
    if (moment.number > 0) out.push_back(moment);
  }
  return out;
}

void TagTracker::set_label(PageId page, Label label) {
  standings_[static_cast<size_t>(page)].label = label;
}

void TagTracker::set_place(PageId page, Place place) {
  standings_[static_cast<size_t>(page)].place = place;
}

void TagTracker::set_stamp(PageId page, const Mark& stamp) {
  facts(page).stamp = stamp;
  facts(page).stamped = true;
}

std::optional<Mark> TagTracker::stamp(PageId page) const {
  const Facts& one = facts_[static_cast<size_t>(page)];
  return one.stamped ? std::optional(one.stamp) : std::nullopt;
}

void TagTracker::want_seal(PageId page) {
  facts(page).to_seal = true;
  if (!std::exchange(facts(page).queued, true)) to_seal_.push_back(page);
}

std::optional<PageId> TagTracker::next_to_seal() {
  while (!to_seal_.empty()) {
    const PageId page = to_seal_.front();
    to_seal_.pop_front();
    facts(page).queued = false;
    if (std::exchange(facts(page).to_seal, false)) return page;
  }
  return std::nullopt;
}

void TagTracker::seal(PageId page, std::span<const std::byte> bytes) {
  facts(page).digest = digest_of(bytes);
  facts(page).sealed = true;
}

bool TagTracker::scrub(PageId page, std::span<const std::byte> bytes) {
  const Facts& one = facts_[static_cast<size_t>(page)];
  if (!one.sealed) return true;
  count(pages_scrubbed_, 1);
  return digest_of(bytes) == one.digest;
}

Report TagTracker::report() const {
  Report out;
  out.mode = options_.mode;
  out.checks = checks_.load(std::memory_order_relaxed);
  out.pages_checked = pages_checked_.load(std::memory_order_relaxed);
  out.pages_scrubbed = pages_scrubbed_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < kKinds; ++i) {
    out.mismatches[i] = mismatches_[i].load(std::memory_order_relaxed);
  }
  const std::lock_guard lock(mutex_);
  out.quarantined = quarantined_;
  out.events.assign(events_.begin(), events_.end());
  return out;
}

}  // namespace bulkhead::kv::integrity
