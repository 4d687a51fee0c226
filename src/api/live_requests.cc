#include "api/live_requests.h"

namespace bulkhead::api {

LiveRequests::Handle LiveRequests::add(const std::vector<std::string>& names,
                                       const TenantDigest& tenant, std::function<void()> cancel) {
  entries_.push_front({tenant, std::move(cancel), {}, {}});
  Entry& entry = entries_.front();
  entry.self = entries_.begin();
  for (const std::string& name : names) entry.names.push_back(by_name_.emplace(name, &entry));
  return Handle(this, &entry);
}

void LiveRequests::remove(Entry* entry) {
  for (const Names::iterator& name : entry->names) by_name_.erase(name);
  entries_.erase(entry->self);
}

size_t LiveRequests::cancel(std::string_view name, const Caller& caller) {
  // Collected first: a call may take entries off the list.
  std::vector<std::function<void()>> calls;
  const auto [begin, end] = by_name_.equal_range(name);
  for (auto it = begin; it != end; ++it) {
    if (caller.is_admin || it->second->tenant == caller.tenant) {
      calls.push_back(it->second->cancel);
    }
  }
  for (const auto& call : calls) call();
  return calls.size();
}

size_t LiveRequests::cancel_all() {
  std::vector<std::function<void()>> calls;
  for (const Entry& entry : entries_) calls.push_back(entry.cancel);
  for (const auto& call : calls) call();
  return calls.size();
}

}  // namespace bulkhead::api
