#include "serve/config/effect.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <utility>

namespace bulkhead::serve {
namespace {

using RoleSet = uint8_t;

constexpr RoleSet in(Role role) { return static_cast<RoleSet>(1u << static_cast<unsigned>(role)); }
constexpr RoleSet of(auto... roles) { return static_cast<RoleSet>((in(roles) | ...)); }

constexpr RoleSet kModels = of(Role::kAll, Role::kPrefill, Role::kDecode);
constexpr RoleSet kPrefills = of(Role::kAll, Role::kPrefill);
constexpr RoleSet kDecodes = of(Role::kAll, Role::kDecode);
constexpr RoleSet kFrontDoor = of(Role::kAll, Role::kGateway);
constexpr RoleSet kWorkers = of(Role::kPrefill, Role::kDecode);
constexpr RoleSet kSeveral = of(Role::kGateway, Role::kPrefill, Role::kDecode);
constexpr RoleSet kGateways = of(Role::kGateway);

// What is not here is for every role.
constexpr std::pair<std::string_view, RoleSet> kRoles[] = {
    {"isa", kModels},
    {"threads", kModels},
    {"chat_template", kFrontDoor},
    {"kv_cache_memory", kModels},
    {"weights", kModels},
    {"activations", kModels},
    {"kv_cache_dtype", kModels},
    {"kv_integrity", kModels},
    {"kv_scrub", kModels},
    {"inject_faults", of(Role::kAll)},
    {"max_queued_requests", kFrontDoor},
    {"disable_prefix_cache", kPrefills},
    {"chunked_prefill_size", kPrefills},
    {"prefill.weights", kPrefills},
    {"prefill.activations", kPrefills},
    {"prefill.kv", kPrefills},
    {"prefill.kv_integrity", kPrefills},
    {"prefill.kv_cache_memory", kPrefills},
    {"decode.weights", kDecodes},
    {"decode.kv", kModels},  // prefill makes the pages that decode stores
    {"decode.activations", kDecodes},
    {"decode.kv_cache_memory", kDecodes},
    {"decode.kv_integrity", kDecodes},
    {"listen", kWorkers},
    {"http_listen", kWorkers},
    {"prefill_workers", kGateways},
    {"decode_workers", kGateways},
    {"worker_key_file", kSeveral},
    {"heartbeat", kSeveral},
    {"host", kFrontDoor},
    {"port", kFrontDoor},
    {"served_model_name", kFrontDoor},
    {"priority_order", kFrontDoor},
    {"tool_call_parser", kFrontDoor},
    {"reasoning_parser", kFrontDoor},
    {"reasoning_field", kFrontDoor},
    {"request_timeout", kFrontDoor},
};

constexpr std::array<std::pair<Role, std::string_view>, 4> kNames = {{{Role::kAll, "all"},
                                                                      {Role::kGateway, "gateway"},
                                                                      {Role::kPrefill, "prefill"},
                                                                      {Role::kDecode, "decode"}}};

// What opens an HTTP address, which not every worker has.
constexpr std::string_view kKeys[] = {"api_key", "api_key_file", "admin_key"};

}  // namespace

std::optional<std::string> roles_instead(std::string_view name, const RoleOptions& options) {
  const Role role = options.role;
  const bool is_worker = (kWorkers & in(role)) != 0;
  if (is_worker && options.http_listen.empty() &&
      std::find(std::begin(kKeys), std::end(kKeys), name) != std::end(kKeys)) {
    return "--role all, gateway, or a worker with --http-listen";
  }
  for (const auto& [option, roles] : kRoles) {
    if (option != name) continue;
    if ((roles & in(role)) != 0) return std::nullopt;
    std::string text;
    for (const auto& [other, word] : kNames) {
      if ((roles & in(other)) != 0) text.append(text.empty() ? "--role " : ", ").append(word);
    }
    return text;
  }
  return std::nullopt;
}

std::optional<std::string> without_effect(std::string_view name, const ServeOptions& options) {
  if (const auto instead = roles_instead(name, options.roles)) {
    return "without effect in this role: it is for " + *instead;
  }
  if (options.roles.role != Role::kAll) return std::nullopt;
  const Placement placement = options.model.placement;
  const bool of_pool = name.starts_with("prefill.") || name.starts_with("decode.");
  if (of_pool && placement == Placement::kShared) {
    return "without effect: in the shared placement both pools are one";
  }
  if (name == "kv_cache_memory" && placement == Placement::kSplit) {
    return "without effect: in the split placement each pool has its own";
  }
  return std::nullopt;
}

}  // namespace bulkhead::serve
