// The integrity of a process's page pools, for the API and the metrics.
//
// Threads: any thread, once every pool is added. Invariant: pools and injectors outlive it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kv/integrity/injector.h"
#include "kv/page_pool.h"
#include "telemetry/metrics.h"
#include "wire/integrity.h"

namespace bulkhead::serve {

class PoolIntegrity final : public wire::IntegrityPort {
 public:
  // `injector`: of that pool, or null. The pool that decode reads is added last.
  void add(std::string name, const kv::PagePool& pool, kv::integrity::Injector* injector);
  // One sample a pool; `pool` is their label where there are two.
  void register_metrics(telemetry::Registry& registry) const;

  wire::IntegrityMode mode() const override;
  std::vector<wire::IntegrityPool> report() const override;
  wire::InjectedFaults injected() const override;
  base::Status inject(std::string_view fault, std::string_view pool) override;

 private:
  struct Member {
    std::string name;
    const kv::PagePool* pool = nullptr;
    kv::integrity::Injector* injector = nullptr;
  };
  std::vector<Member> members_;
};

}  // namespace bulkhead::serve
