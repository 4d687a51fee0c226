// What the readers of fields refuse, in one wording.
//
// Threads: pure functions.
#pragma once

#include <boost/json/value.hpp>
#include <string_view>

#include "api/errors.h"

namespace bulkhead::api {

Failure wrong_type(std::string_view path, std::string_view wanted, const boost::json::value& given);
Failure too_many(std::string_view path, size_t limit, size_t given);

}  // namespace bulkhead::api
