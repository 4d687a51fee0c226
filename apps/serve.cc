#include <iostream>

#include "commands.h"
#include "serve/server.h"

namespace bulkhead::apps {

int run_serve(const serve::ServeOptions& options) {
  const base::Status status = serve::run_server(options, std::cout, std::cerr);
  if (status.ok()) return 0;
  std::cerr << "error: " << status.error().message << '\n';
  return status.error().code == base::ErrorCode::kInvalidArgument ? 2 : 1;
}

}  // namespace bulkhead::apps
