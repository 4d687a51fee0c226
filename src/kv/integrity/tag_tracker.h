// The tracker of the modes observe and abort: labels, places, stamps, digests and last moments of
// pages.
//
// Threads: as Tracker. Invariants: check() looks at every entry without a branch on what it finds;
// one event is told for each reading, the first entry that is wrong, while every wrong entry
// counts; what repeats the same story is counted and not told again.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <vector>

#include "kv/integrity/tracker.h"

namespace bulkhead::kv::integrity {

class TagTracker final : public Tracker {
 public:
  TagTracker(Options options, std::span<const Tag> tags);

  Mode mode() const override { return options_.mode; }
  size_t check(std::span<const Reading> readings, Phase phase, std::span<uint8_t> bad) override;
  void found(Mismatch what) override;
  void note(PageId page, Transition what, Tag tag) override;
  void set_label(PageId page, Label label) override;
  Label label(PageId page) const override { return standings_[static_cast<size_t>(page)].label; }
  void set_place(PageId page, Place place) override;
  Place place(PageId page) const override { return standings_[static_cast<size_t>(page)].place; }
  void set_stamp(PageId page, const Mark& stamp) override;
  std::optional<Mark> stamp(PageId page) const override;
  void want_seal(PageId page) override;
  std::optional<PageId> next_to_seal() override;
  void seal(PageId page, std::span<const std::byte> bytes) override;
  bool scrub(PageId page, std::span<const std::byte> bytes) override;
  bool is_sealed(PageId page) const override { return facts_[static_cast<size_t>(page)].sealed; }
  Mark stamp_key() const override { return options_.stamp_key; }
  Report report() const override;

 private:
  // Whose a page is and for which place, in eight bytes: what every check reads beside the tag.
  struct Standing {
    Label label = 0;
    Place place = kNoPlace;
  };
  // What is known of a page's content and past.
  struct Facts {
    std::array<Moment, kMomentsKept> moments;  // a ring: number % kMomentsKept of the page's own
    uint32_t moments_seen = 0;
    bool stamped = false;
    bool sealed = false;
    bool to_seal = false;
    bool queued = false;  // in to_seal_, to be sealed or not
    bool quarantined = false;
    Mark stamp;
    Mark digest;
  };

  bool is_wrong(const Reading& reading) const;
  void explain(const Reading& reading, Phase phase);
  std::optional<Mismatch> judge(const Reading& reading, size_t entry) const;
  std::vector<Moment> history(PageId page) const;
  void tell(Mismatch what);
  bool is_known(const Mismatch& what) const;
  void log(const Mismatch& what) const;
  Facts& facts(PageId page) { return facts_[static_cast<size_t>(page)]; }
  bool in_pool(PageId page) const { return page >= 0 && static_cast<size_t>(page) < tags_.size(); }

  const Options options_;
  const std::span<const Tag> tags_;
  std::vector<Standing> standings_;  // by page, as are facts_
  std::vector<Facts> facts_;
  std::deque<PageId> to_seal_;  // in order; what changed meanwhile is passed over
  uint64_t moments_ = 0;
  std::atomic<uint64_t> checks_{0};
  std::atomic<uint64_t> pages_checked_{0};
  std::atomic<uint64_t> pages_scrubbed_{0};
  std::array<std::atomic<uint64_t>, kKinds> mismatches_{};

  mutable std::mutex mutex_;  // of what other threads ask for
  std::vector<PageId> quarantined_;
  std::deque<Mismatch> events_;
  uint64_t events_seen_ = 0;
};

}  // namespace bulkhead::kv::integrity
