// What `bulkhead drill` was asked to do.
//
// Threads: plain values.
#pragma once

#include <string>
#include <vector>

namespace bulkhead::apps {

struct DrillOptions {
  // Either of these two:
  std::string model_path;  // serves it itself, and ends that server
  std::string url;         // a running server that may be damaged

  // Of a server of its own:
  std::string placement = "shared";
  std::string integrity = "abort";
  unsigned threads = 0;  // 0: the server's default

  // Of a running one:
  std::string admin_key_file;
  std::string api_key;  // empty: requests carry the admin key

  std::vector<std::string> faults;  // empty: every class
  int rounds = 3;
  std::string json_path;  // empty: no file
};

}  // namespace bulkhead::apps
