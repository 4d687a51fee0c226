#include "serve/roles/deployment.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "model/loader.h"
#include "serve/key_file.h"
#include "serve/roles/model_digest.h"
#include "transfer/remote/socket_address.h"
#include "wire/secrets.h"

namespace bulkhead::serve::roles {
namespace {

// How quantised pages choose their scales (src/kernels/README.md).
constexpr const char* kScaleRule = "e8m0 per token, layer and component";
constexpr uint32_t kChunkBytes = 256u << 10;
constexpr const char* kPrefillFlag = "--prefill-workers";
constexpr const char* kDecodeFlag = "--decode-workers";
constexpr const char* kListenFlag = "--listen";
constexpr const char* kKeyFlag = "--worker-key-file";
constexpr size_t kKeyBytesMin = 16;

std::string word(Role role) {
  switch (role) {
    case Role::kAll:
      return "all";
    case Role::kGateway:
      return "gateway";
    case Role::kPrefill:
      return "prefill";
    case Role::kDecode:
      return "decode";
  }
  return "unknown";
}

void replace(std::string& text, std::string_view what, const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

base::Status wrong_address(const char* flag, const std::string& why) {
  return base::invalid_argument(flag, fmt::format("{}: {}", flag, why));
}

// A worker has one place in a deployment.
base::Status check_addresses(const std::vector<std::string>& addresses, const char* flag,
                             std::set<std::pair<std::string, uint16_t>>& known) {
  for (const std::string& text : addresses) {
    auto parsed = transfer::remote::parse_address(text);
    if (!parsed.ok()) return wrong_address(flag, parsed.error().message);
    if (parsed->port == 0) return wrong_address(flag, text + " names no port");
    if (!known.emplace(parsed->host, parsed->port).second) {
      return wrong_address(flag, text + " is named twice; a worker has one place");
    }
  }
  return {};
}

base::Status check_members(const RoleOptions& roles) {
  const bool lists = !roles.prefill_workers.empty() || !roles.decode_workers.empty();
  if (roles.role == Role::kAll) {
    if (!lists) return {};
    return base::invalid_argument(
        kPrefillFlag, "--prefill-workers and --decode-workers are for --role gateway alone");
  }
  // The file that names them is the workers' too.
  if (roles.role != Role::kGateway) return {};
  if (roles.prefill_workers.empty() || roles.decode_workers.empty()) {
    return base::invalid_argument(kPrefillFlag,
                                  "--role gateway needs --prefill-workers and --decode-workers");
  }
  std::set<std::pair<std::string, uint16_t>> known;
  BH_TRY(check_addresses(roles.prefill_workers, kPrefillFlag, known));
  return check_addresses(roles.decode_workers, kDecodeFlag, known);
}

base::Status check_listen(const RoleOptions& roles) {
  if (roles.role != Role::kPrefill && roles.role != Role::kDecode) return {};
  auto parsed = transfer::remote::parse_address(roles.listen);
  if (!parsed.ok()) return wrong_address(kListenFlag, parsed.error().message);
  const auto numbers = transfer::remote::numeric_address(roles.listen);
  if (roles.role == Role::kDecode && numbers.ok() && transfer::remote::is_wildcard(*numbers)) {
    return wrong_address(
        kListenFlag,
        fmt::format("{} is nobody's address, and prefill workers send their pages to the one that "
                    "a decode worker listens on; give the address that they reach it at",
                    roles.listen));
  }
  return {};
}

}  // namespace

base::Status check_roles(const ServeOptions& options) {
  BH_TRY(check_members(options.roles));
  BH_TRY(check_listen(options.roles));
  if (options.roles.role == Role::kAll) return {};
  if (options.model.inject_faults) {
    return base::invalid_argument("--inject-faults", "--inject-faults is for --role all alone");
  }
  if (options.model.placement != Placement::kShared) {
    return base::invalid_argument(
        "--placement", fmt::format("--role {} is a placement of its own; leave out --placement",
                                   word(options.roles.role)));
  }
  if (options.roles.key_file.empty()) {
    return base::invalid_argument(
        "--worker-key-file",
        fmt::format("--role {} needs --worker-key-file: the secret that gateway and workers share",
                    word(options.roles.role)));
  }
  return {};
}

base::Result<RoleOptions> resolve_members(const RoleOptions& roles) {
  RoleOptions out = roles;
  std::set<std::string> known;
  for (const auto& [flag, addresses] :
       {std::pair{kPrefillFlag, &out.prefill_workers}, {kDecodeFlag, &out.decode_workers}}) {
    for (std::string& text : *addresses) {
      const auto address = transfer::remote::resolve(text);
      if (!address.ok()) return wrong_address(flag, address.error().message).error();
      const std::string numbers = to_string(*address);
      if (!known.insert(numbers).second) {
        return wrong_address(flag, fmt::format("{} is {}, which is named twice", text, numbers))
            .error();
      }
      text = numbers;
    }
  }
  return out;
}

base::Result<std::string> read_worker_key(const std::string& path) {
  const auto refused = [&path](const std::string& why) {
    return base::invalid_argument(kKeyFlag, fmt::format("{}: {} {}", kKeyFlag, path, why));
  };
  BH_ASSIGN(KeyFile file, read_key_file(path, kKeyFlag));
  if (file.open_to_others || file.open_to_group) {
    return refused("may be read by others than its owner; chmod 600 it");
  }
  if (file.keys.size() != 1) {
    return refused(fmt::format("has {} keys instead of one", file.keys.size()));
  }
  if (file.keys.front().size() < kKeyBytesMin) {
    return refused(fmt::format("has a key of {} bytes, at least {} are needed",
                               file.keys.front().size(), kKeyBytesMin));
  }
  return std::move(file.keys.front());
}

base::Result<Identity> make_identity(const ServeOptions& options,
                                     const model::Checkpoint& checkpoint) {
  Identity out;
  BH_ASSIGN(out.key, read_worker_key(options.roles.key_file));
  out.product = BULKHEAD_VERSION;
  BH_ASSIGN(out.model_digest, model_digest(checkpoint));
  out.vocabulary_size = checkpoint.config().vocabulary;
  out.boot_nonce = wire::draw_word() | 1;
  return out;
}

ModelOptions pool_options(const ServeOptions& options) {
  ModelOptions out = options.model;
  const PoolOptions& pool = options.roles.role == Role::kPrefill ? out.prefill : out.decode;
  if (pool.weights) out.weights = pool.weights;
  if (pool.activations) out.activations = *pool.activations;
  if (pool.cache_format) out.cache_format = *pool.cache_format;
  if (pool.kv_cache_bytes != 0) out.kv_cache_bytes = pool.kv_cache_bytes;
  if (pool.integrity) out.integrity = *pool.integrity;
  out.placement = Placement::kShared;
  out.prefill = out.decode = {};
  return out;
}

// In the words of the options that the operator has.
base::Result<Plan> worker_plan(const ServeOptions& options, const model::Checkpoint& checkpoint,
                               const device::CpuFacts& cpu) {
  const bool is_prefill = options.roles.role == Role::kPrefill;
  const PoolOptions& pool = is_prefill ? options.model.prefill : options.model.decode;
  const std::string prefix = is_prefill ? "--prefill." : "--decode.";
  const auto rename = [&](std::string& text) {
    if (pool.kv_cache_bytes != 0) replace(text, "--kv-cache-memory", prefix + "kv-cache-memory");
    if (pool.weights) replace(text, "--weights", prefix + "weights");
  };
  auto plan = make_plan(pool_options(options), checkpoint, cpu);
  if (!plan.ok()) {
    base::Error error = std::move(plan).error();
    rename(error.message);
    rename(error.field);
    return error;
  }
  rename(plan->cache_reason);
  rename(plan->weights_text);
  return plan;
}

kv::PageLayout decode_layout(const ServeOptions& options, const model::ModelConfig& config) {
  return model::cache_layout(
      config, options.model.page_tokens,
      options.model.decode.cache_format.value_or(options.model.cache_format));
}

WorkerSessionOptions control_session(const ServeOptions& options, const Identity& identity,
                                     int32_t context_tokens) {
  WorkerSessionOptions out;
  out.identity.product = identity.product;
  out.identity.model_digest = identity.model_digest;
  out.identity.vocabulary_size = identity.vocabulary_size;
  out.identity.boot_nonce = identity.boot_nonce;
  out.identity.label = word(options.roles.role);
  out.key = identity.key;
  out.bounds = {identity.vocabulary_size, context_tokens};
  out.beat = options.roles.heartbeat;
  return out;
}

WorkerSessionOptions worker_session(const ServeOptions& options, const Identity& identity,
                                    const Plan& plan) {
  WorkerSessionOptions out = control_session(options, identity, plan.context_tokens);
  wire::WorkerHello& hello = out.identity;
  hello.role =
      options.roles.role == Role::kPrefill ? wire::WorkerRole::kPrefill : wire::WorkerRole::kDecode;
  hello.weights = plan.products();
  hello.kv = kv::to_string(plan.layout.format);
  hello.layout = plan.layout.id();
  hello.page_tokens = plan.layout.page_tokens;
  hello.context_tokens = plan.context_tokens;
  hello.pages = plan.pages;
  hello.sequences_max = plan.running_max;
  return out;
}

transfer::remote::SessionOptions handoff_session(const ServeOptions& options,
                                                 const Identity& identity,
                                                 const kv::PageLayout& own,
                                                 const kv::PageLayout& decode) {
  transfer::remote::SessionOptions out;
  transfer::remote::Hello& hello = out.identity;
  hello.role = options.roles.role == Role::kPrefill ? transfer::remote::Role::kPrefill
                                                    : transfer::remote::Role::kDecode;
  hello.product = identity.product;
  hello.model_digest = identity.model_digest;
  hello.pool_layout = own.id();
  hello.wire_layout = decode.id();
  hello.page_tokens = static_cast<uint32_t>(decode.page_tokens);
  hello.page_bytes = decode.page_bytes();
  hello.scale_rule = kScaleRule;
  hello.chunk_bytes = kChunkBytes;
  hello.boot_nonce = identity.boot_nonce;
  out.peer_key = identity.key;
  out.heartbeat = base::Nanoseconds(options.roles.heartbeat) / 2;
  out.silence_max = 2 * base::Nanoseconds(options.roles.heartbeat);
  return out;
}

}  // namespace bulkhead::serve::roles
