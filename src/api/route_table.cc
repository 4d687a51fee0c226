#include "api/route_table.h"

namespace bulkhead::api {
namespace {

constexpr std::string_view kGet = "GET";
constexpr std::string_view kPost = "POST";
constexpr std::string_view kEither = "GET, POST";

constexpr RouteSpec kRoutes[] = {
    {"/v1/chat/completions", kPost, Action::kChat, RouteId::kChat, Access::kKey, true},
    {"/v1/completions", kPost, Action::kCompletions, RouteId::kCompletions, Access::kKey, true},
    {"/tokenize", kPost, Action::kTokenize, RouteId::kText, Access::kKey, true},
    {"/v1/tokenize", kPost, Action::kTokenize, RouteId::kText, Access::kKey, true},
    {"/detokenize", kPost, Action::kDetokenize, RouteId::kText, Access::kKey, true},
    {"/v1/detokenize", kPost, Action::kDetokenize, RouteId::kText, Access::kKey, true},
    {"/apply-template", kPost, Action::kApplyTemplate, RouteId::kText, Access::kKey, true},
    {"/tokenizer_info", kGet, Action::kTokenizerInfo, RouteId::kText},
    {"/v1/models", kGet, Action::kModels, RouteId::kModels},
    {"/v1/models/*", kGet, Action::kModel, RouteId::kModels},
    {"/health", kGet, Action::kHealth, RouteId::kHealth, Access::kOpen},
    {"/v1/health", kGet, Action::kHealth, RouteId::kHealth, Access::kOpen},
    {"/ping", kEither, Action::kHealth, RouteId::kHealth, Access::kOpen},
    {"/livez", kGet, Action::kLive, RouteId::kHealth, Access::kOpen},
    {"/readyz", kGet, Action::kHealth, RouteId::kHealth, Access::kOpen},
    {"/startupz", kGet, Action::kStartup, RouteId::kHealth, Access::kOpen},
    {"/health_generate", kGet, Action::kHealthGenerate, RouteId::kHealth},
    {"/metrics", kGet, Action::kMetrics, RouteId::kMetrics},
    {"/version", kGet, Action::kVersion, RouteId::kFacts},
    {"/server_info", kGet, Action::kServerInfo, RouteId::kFacts},
    {"/get_server_info", kGet, Action::kServerInfo, RouteId::kFacts},
    {"/model_info", kGet, Action::kModelInfo, RouteId::kFacts},
    {"/get_model_info", kGet, Action::kModelInfo, RouteId::kFacts},
    {"/v1/loads", kGet, Action::kLoads, RouteId::kFacts},
    {"/load", kGet, Action::kLoad, RouteId::kFacts},
    {"/flush_cache", kEither, Action::kFlushCache, RouteId::kControl, Access::kAdmin},
    {"/abort_request", kPost, Action::kAbort, RouteId::kControl, Access::kKey, true},
    {"/v1/integrity", kGet, Action::kIntegrity, RouteId::kControl, Access::kAdmin},
    {"/v1/integrity/faults", kPost, Action::kInjectFault, RouteId::kControl, Access::kAdmin, true},
    {"/v1/requests/*", "DELETE", Action::kAbortOne, RouteId::kControl},
    {"/v1/embeddings", kPost, Action::kNotImplemented, RouteId::kOther},
    {"/v1/responses", kPost, Action::kNotImplemented, RouteId::kOther},
    {"/v1/messages", kPost, Action::kNotImplemented, RouteId::kOther},
};

}  // namespace

std::span<const RouteSpec> route_table() { return kRoutes; }

FoundRoute find_route(std::string_view path) {
  for (const RouteSpec& route : kRoutes) {
    if (route.path == path) return {&route, {}};
    if (!route.path.ends_with("/*")) continue;
    const std::string_view stem = route.path.substr(0, route.path.size() - 1);
    if (path.size() > stem.size() && path.starts_with(stem)) {
      return {&route, path.substr(stem.size())};
    }
  }
  return {};
}

bool takes_method(const RouteSpec& route, std::string_view method) {
  std::string_view rest = route.methods;
  while (!rest.empty()) {
    const size_t end = rest.find(", ");
    if (rest.substr(0, end) == method) return true;
    if (end == std::string_view::npos) return false;
    rest.remove_prefix(end + 2);
  }
  return false;
}

}  // namespace bulkhead::api
