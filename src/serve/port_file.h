// The bound port, for whoever started the process with port 0.
//
// Threads: any. Invariant: a reader never sees half of it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace bulkhead::serve {

// Nothing happens when `path` is empty.
base::Status write_port_file(const std::string& path, uint16_t port);
// Of "address:port"; 0 where there is none.
uint16_t port_of(const std::string& address);

}  // namespace bulkhead::serve
