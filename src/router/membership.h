// Who belongs to a deployment: the workers that a gateway may give requests to.
//
// Threads: step thread only. Invariants: an address appears once in each role; the order is that of
// the deployment, and a member's label says its role and place in it, never its address.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "wire/worker_messages.h"

namespace bulkhead::router {

struct Member {
  wire::WorkerRole role = wire::WorkerRole::kPrefill;
  std::string address;  // as the transport takes it
  std::string label;    // prefill-0
};

// The port for a registry.
class Membership {
 public:
  virtual ~Membership() = default;
  virtual std::vector<Member> members() const = 0;
};

// What the deployment file or the command line lists.
class FixedMembership final : public Membership {
 public:
  FixedMembership(const std::vector<std::string>& prefill, const std::vector<std::string>& decode) {
    members_.reserve(prefill.size() + decode.size());
    add(wire::WorkerRole::kPrefill, prefill);
    add(wire::WorkerRole::kDecode, decode);
  }
  std::vector<Member> members() const override { return members_; }

 private:
  void add(wire::WorkerRole role, const std::vector<std::string>& addresses) {
    size_t number = 0;
    for (const std::string& address : addresses) {
      members_.push_back(
          {role, address, std::string(to_string(role)) + "-" + std::to_string(number++)});
    }
  }

  std::vector<Member> members_;
};

}  // namespace bulkhead::router
