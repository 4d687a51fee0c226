// The requests under way, by the names a client knows them by, so that they can be aborted.
//
// Threads: the I/O thread only. Invariants: an entry lives exactly as long as its handle; a caller
// ends requests of its own key alone unless it is an admin, and cannot tell another's request from
// one that does not exist. Life: outlives every handle.
#pragma once

#include <array>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/auth.h"

namespace bulkhead::api {

class LiveRequests {
  struct Entry;
  using Names = std::multimap<std::string, Entry*, std::less<>>;
  struct Entry {
    TenantDigest tenant{};
    std::function<void()> cancel;
    std::vector<Names::iterator> names;
    std::list<Entry>::iterator self;
  };

 public:
  // Takes its request off the list when it goes.
  class Handle {
   public:
    Handle() = default;
    Handle(Handle&& other) noexcept
        : live_(std::exchange(other.live_, nullptr)),
          entry_(std::exchange(other.entry_, nullptr)) {}
    Handle& operator=(Handle&& other) noexcept {
      std::swap(live_, other.live_);
      std::swap(entry_, other.entry_);
      return *this;
    }
    ~Handle() {
      if (live_ != nullptr) live_->remove(entry_);
    }

   private:
    friend class LiveRequests;
    Handle(LiveRequests* live, Entry* entry) : live_(live), entry_(entry) {}

    LiveRequests* live_ = nullptr;
    Entry* entry_ = nullptr;
  };

  LiveRequests() = default;
  LiveRequests(const LiveRequests&) = delete;
  LiveRequests& operator=(const LiveRequests&) = delete;

  // `names`: the request id and the answer's id. Clients choose request ids, so they need not be
  // unique. `cancel` asks for an end; it may be called more than once, and must bear that the
  // request ends meanwhile.
  [[nodiscard]] Handle add(const std::vector<std::string>& names, const TenantDigest& tenant,
                           std::function<void()> cancel);

  // Both say how many requests were asked to end.
  size_t cancel(std::string_view name, const Caller& caller);
  size_t cancel_all();
  size_t size() const { return entries_.size(); }

 private:
  void remove(Entry* entry);

  std::list<Entry> entries_;
  Names by_name_;
};

}  // namespace bulkhead::api
