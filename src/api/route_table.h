// The table of endpoints: path, methods, who may call, what answers.
//
// Threads: the table is constant. Invariants: every path of docs/api.md is here and the other way
// round (held by a test); a path has one row.
#pragma once

#include <span>
#include <string_view>

#include "api/response_counts.h"

namespace bulkhead::api {

enum class Action {
  kChat,
  kCompletions,
  kTokenize,
  kDetokenize,
  kApplyTemplate,
  kTokenizerInfo,
  kModels,
  kModel,
  kHealth,
  kLive,
  kStartup,
  kHealthGenerate,
  kMetrics,
  kVersion,
  kServerInfo,
  kModelInfo,
  kLoads,
  kLoad,
  kFlushCache,
  kAbort,
  kAbortOne,
  kIntegrity,
  kInjectFault,
  kNotImplemented,
};

enum class Access {
  kOpen,   // no key, so that whoever starts and stops servers can ask
  kKey,    // an API key, where there are any
  kAdmin,  // the admin key
};

struct RouteSpec {
  std::string_view path;     // ends in "/*" where a name follows
  std::string_view methods;  // as in an Allow header
  Action action = Action::kVersion;
  RouteId id = RouteId::kOther;
  Access access = Access::kKey;
  bool takes_json = false;  // a POST must say that its body is JSON
};

std::span<const RouteSpec> route_table();

struct FoundRoute {
  const RouteSpec* spec = nullptr;  // null: no such path
  std::string_view name;            // what stands where the path has "*"; points into `path`
};
FoundRoute find_route(std::string_view path);
bool takes_method(const RouteSpec& route, std::string_view method);

}  // namespace bulkhead::api
