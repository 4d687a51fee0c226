// GET /health_generate: one token through the whole engine, or the reason why not.
//
// Threads: the I/O thread only (the end of the generation is posted to it). Invariants: at most one
// probe is under way, whoever else asks shares its outcome; every question is answered once, at the
// latest when the probe's time is over. Life: outlives the generator's last event.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "api/api.h"
#include "api/server_facts.h"

namespace bulkhead::api {

class HealthProbe {
 public:
  using Answer = std::function<void(Health)>;

  // Everything given must outlive the probe.
  HealthProbe(const ApiDeps& deps, const ModelCard& model, const ApiOptions& options)
      : deps_(deps), model_(model), options_(options) {}
  HealthProbe(const HealthProbe&) = delete;
  HealthProbe& operator=(const HealthProbe&) = delete;

  void ask(Answer answer);

 private:
  void submit();
  void ended(uint64_t turn, Health health);

  const ApiDeps& deps_;
  const ModelCard& model_;
  const ApiOptions& options_;
  std::vector<Answer> waiting_;
  uint64_t turn_ = 0;  // tells late news of an earlier probe from this one's
};

}  // namespace bulkhead::api
