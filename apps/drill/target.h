// The server under the drill, as its administrator sees it.
//
// Threads: one thread; calls block until the server answers. Invariant: what is not a 200 is an
// error that says what the server said.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/drill/integrity_report.h"
#include "base/result.h"
#include "http/client.h"

namespace bulkhead::apps {

struct Target {
  std::string host;
  uint16_t port = 0;
  std::string admin_key;
  std::vector<std::string> api_keys;  // requests carry them in turn; none: the admin key

  std::vector<http::Header> headers(const std::string& key) const;
  const std::string& key_of_request(size_t index) const;
};

// Of /metrics, over all pools.
struct ServerGauges {
  uint64_t requests = 0;  // running or waiting
  uint64_t used = 0;      // pages that requests hold
  uint64_t at_rest = 0;   // free, cached and quarantined
  uint64_t page_tokens = 0;
};
// Errors: kCorruptData where one of them is missing.
base::Result<ServerGauges> parse_gauges(std::string_view metrics);

// What may be asked of the model.
struct ModelFacts {
  std::string name;
  int64_t vocabulary = 0;
};
base::Result<ModelFacts> parse_models(std::string_view body);

class Administrator {
 public:
  explicit Administrator(const Target& target) : target_(target) {}

  base::Result<IntegrityReport> integrity() const;
  base::Result<ServerGauges> gauges() const;
  base::Result<ModelFacts> model() const;
  base::Status order(std::string_view fault, std::string_view pool) const;
  base::Status flush_cache() const;

 private:
  base::Result<std::string> ask(const std::string& method, const std::string& path,
                                const std::string& body) const;

  const Target& target_;
};

// The body that orders a fault.
std::string order_body(std::string_view fault, std::string_view pool);

}  // namespace bulkhead::apps
