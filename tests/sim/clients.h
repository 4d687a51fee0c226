// Everybody who asks: closed loops of hostile requests, and what their answers have to be.
//
// Threads: one. Invariants: every accepted request is answered exactly once while the process that
// took it lives; what is told is a beginning of the serial oracle's answer, and all of it unless
// the request was cut or failed; a request fails only with an error of the contract, and only where
// a fault struck.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "sim/event_queue.h"
#include "sim/faults.h"
#include "sim/judge.h"
#include "sim/serial.h"
#include "sim/swarm.h"
#include "wire/generate.h"

namespace bulkhead::sim {

class Clients {
 public:
  Clients(const SwarmConfig& config, EventQueue& events, const FaultLedger& faults, Judge& judge);
  ~Clients();

  // Who takes requests from now on; null: nobody. What the last one had is lost with it.
  void connect(wire::Generator* generator);
  void start();
  // Nothing new is asked from here on.
  void stop() { stopped_ = true; }
  // One more request that nothing may cut, after stop(). `may_be_hit`: faults of pages struck, so
  // that it may fail as others do.
  bool probe(bool may_be_hit);
  // A wrong token is counted and no failure: for faults that nothing promises to notice in time.
  void tolerate_wrong_tokens() { tolerant_ = true; }
  size_t outstanding() const { return asked_.size(); }
  std::string describe_outstanding() const;

 private:
  struct Asked;
  class Sink;

  void ask(uint32_t client);
  void ask_again(uint32_t client, wire::GenerateRequest request);
  bool submit(std::optional<uint32_t> client, std::vector<wire::GenerateRequest> requests);
  bool explains(const base::Error& error, const wire::GenerateRequest& request) const;
  void plan_cut(const std::shared_ptr<Asked>& asked);
  void next(uint32_t client, Nanoseconds after);

  wire::GenerateRequest draw_request();
  void draw_sampling(wire::GenerateRequest& request);
  std::vector<TokenId> draw_prompt();

  void heard_prompt(Asked& asked, const wire::PromptEvent& event);
  void heard_token(Asked& asked, const wire::TokenEvent& event);
  void heard_finish(const std::shared_ptr<Asked>& asked, const wire::FinishEvent& event);
  std::string judge_finish(const Asked& asked, const wire::FinishEvent& event) const;
  std::string judge_error(const base::Error& error) const;

  bool happens(double share) { return share > 0 && rng_.unit() < share; }
  int32_t between(int32_t low, int32_t high);

  const SwarmConfig config_;
  EventQueue& events_;
  const FaultLedger& faults_;
  Judge& judge_;
  base::Rng rng_;
  SerialOracle oracle_;
  wire::Generator* generator_ = nullptr;
  std::map<wire::RequestId, std::shared_ptr<Asked>> asked_;
  bool stopped_ = false;
  bool may_be_hit_ = false;
  bool tolerant_ = false;
};

}  // namespace bulkhead::sim
