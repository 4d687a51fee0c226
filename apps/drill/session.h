// A server under the drill together with what its requests answer when each is alone.
//
// Threads: one thread. Invariant: a session exists only for a server that allows faults to be
// injected and that nobody else uses.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/drill/crowd.h"
#include "apps/drill/judge.h"
#include "apps/drill/target.h"

namespace bulkhead::apps {

class Session {
 public:
  // Asks what the server is, and takes the answers. `name` is the server's in errors. Errors:
  // kUnsupported for a server that must not be damaged; whatever the server says.
  static base::Result<std::unique_ptr<Session>> begin(Target target, const std::string& name);

  const Administrator& admin() const { return admin_; }
  const ModelFacts& model() const { return model_; }
  const std::string& mode() const { return mode_; }
  // In the order of GET /v1/integrity: where prompts are computed first, where answers are last.
  const std::vector<std::string>& pools() const { return pools_; }

  // All requests at once; adds up what became of them, and the first thing that was broken.
  base::Result<Tally> wave(const FaultOrder* order, std::string& trouble) const;
  // Something that makes steps and shares no page.
  base::Status short_request();
  // Waits until nobody has a request or a page: how many pages are at rest then; nothing: the time
  // was up.
  base::Result<std::optional<uint64_t>> settle() const;

 private:
  explicit Session(Target target) : target_(std::move(target)), admin_(target_), crowd_(target_) {}
  base::Status check_server(const std::string& name);
  base::Status take_answers();

  const Target target_;
  const Administrator admin_;
  const Crowd crowd_;
  ModelFacts model_;
  std::string mode_;
  std::vector<std::string> pools_;
  std::vector<Ask> asks_;
  std::vector<Answer> alone_;
  uint64_t short_requests_ = 0;
};

}  // namespace bulkhead::apps
