// Counts calls of operator new while it exists: how a test shows that a step allocates nothing.
//
// Threads: counts those of all threads; one trap at a time.
#pragma once

namespace bulkhead::model::testing {

class AllocationTrap {
 public:
  AllocationTrap();
  ~AllocationTrap();
  AllocationTrap(const AllocationTrap&) = delete;
  AllocationTrap& operator=(const AllocationTrap&) = delete;

  int count() const;
};

}  // namespace bulkhead::model::testing
