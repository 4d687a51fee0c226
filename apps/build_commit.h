// The commit that this program was built from.
//
// Threads: any.
#pragma once

#include <string>

namespace bulkhead::apps {

// Short, with "+changes" where tracked files differed from it; "unknown" outside a checkout.
std::string build_commit();

}  // namespace bulkhead::apps
