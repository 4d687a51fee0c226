// The drill's requests: prompts that begin alike and prompts that do not, of two tenants where
// there are two keys, sent one by one or all at once.
//
// Threads: one, which drives every stream. Invariant: every request has exactly one answer, in the
// order of the requests.
#pragma once

#include <string>
#include <vector>

#include "apps/drill/answer.h"
#include "apps/drill/target.h"

namespace bulkhead::apps {

struct Ask {
  std::string body;
  std::string key;
};

// Every prompt fills three pages and begins a fourth; of each tenant's, half begin with the same
// two. Answers are long enough that pages are handed out while they are decoded.
std::vector<Ask> make_asks(const Target& target, const ModelFacts& model, uint64_t page_tokens);
// A request that shares no page with anybody and is over soon; another one for each number.
Ask make_short_ask(const Target& target, const ModelFacts& model, uint64_t number);

struct FaultOrder {
  std::string fault;
  std::string pool;
};

class Crowd {
 public:
  explicit Crowd(const Target& target) : target_(target) {}

  base::Result<std::vector<Answer>> one_by_one(const std::vector<Ask>& asks) const;
  // All at once. With an order, it is given when each of them has begun to answer or has ended.
  // Errors: no connection; an order that was refused.
  base::Result<std::vector<Answer>> together(const std::vector<Ask>& asks,
                                             const FaultOrder* order) const;

 private:
  const Target& target_;
};

}  // namespace bulkhead::apps
