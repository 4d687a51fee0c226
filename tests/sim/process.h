// A process of the simulated deployment: production code around a stand-in model.
//
// Threads: one. Invariants: everything of a process goes when it is destroyed, as in a crash, and
// its pages with it; audit() may be asked between any two steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/sequence.h"
#include "kv/integrity/injector.h"
#include "kv/page_pool.h"
#include "sim/event_queue.h"
#include "sim/judge.h"
#include "sim/net.h"
#include "sim/oracle_decoder.h"
#include "sim/swarm.h"
#include "wire/generate.h"

namespace bulkhead::sim {

enum class Role : uint8_t { kEngine, kGateway, kPrefill, kDecode };

class Process {
 public:
  virtual ~Process() = default;
  virtual void step() = 0;
  // What is wrong with its pages and their holders now; empty: nothing.
  virtual std::string audit() = 0;
  // It holds nothing for anybody, and everybody it needs is there.
  virtual bool is_quiet() const = 0;
  // What is wrong once nothing is held; the cache is forgotten for it.
  virtual std::string audit_quiet() = 0;
  // Who takes requests here; null: not this process, or not yet.
  virtual wire::Generator* generator() { return nullptr; }

  // Has a page, or what is known of it, damaged in the next step that offers a victim.
  virtual bool can_be_damaged() const { return false; }
  virtual void damage(FaultKind /*kind*/, uint64_t /*bits*/) {}

  // Adds what it did and noticed since it was started.
  virtual void count(RunStats& stats) const = 0;
};

// What a process is made of besides the configuration.
struct Birth {
  Role role = Role::kEngine;
  uint32_t number = 0;  // among those of its role
  ProcessId id = 0;     // of this start
  uint64_t nonce = 0;   // of this start, and the seed of all it draws
};

std::unique_ptr<Process> make_engine(const SwarmConfig& config, const Birth& birth,
                                     const base::Clock& clock);
std::unique_ptr<Process> make_gateway(const SwarmConfig& config, const Birth& birth, SimNet& net,
                                      const base::Clock& clock);
std::unique_ptr<Process> make_prefill(const SwarmConfig& config, const Birth& birth, SimNet& net,
                                      const base::Clock& clock);
std::unique_ptr<Process> make_decode(const SwarmConfig& config, const Birth& birth, SimNet& net,
                                     const base::Clock& clock);

// Whose each life of each page is: the tenant of whoever held it first, and nobody else's.
class LabelBook {
 public:
  explicit LabelBook(int32_t pages) : lives_(static_cast<size_t>(pages)) {}
  // Empty, or what is wrong.
  std::string look(const engine::Sequence& sequence);

 private:
  struct Life {
    kv::Tag tag = 0;
    uint8_t tenant = 0;
  };
  std::vector<Life> lives_;  // by page
};

// The seam of one pool.
class Damage {
 public:
  explicit Damage(uint64_t seed) : injector_(seed) {}
  kv::integrity::Injector& injector() { return injector_; }
  void order(FaultKind kind);
  // Something in the pool's books was damaged since its start: until it is noticed they are wrong.
  bool struck() const { return done() > 0; }
  uint64_t done() const { return ordered_ - injector_.waiting(); }

 private:
  kv::integrity::Injector injector_;
  uint64_t ordered_ = 0;
};

// Adds what a pool's books and its tracker say, and what its model did.
void count_pool(const kv::PagePool& pool, RunStats& stats);
void count_decoder(const OracleDecoder& decoder, RunStats& stats);

}  // namespace bulkhead::sim
