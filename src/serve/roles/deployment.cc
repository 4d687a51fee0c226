#include "serve/roles/deployment.h"

#include <fmt/format.h>

#include <random>

#include "model/loader.h"
#include "serve/key_file.h"
#include "serve/roles/model_digest.h"

namespace bulkhead::serve::roles {
namespace {

// How quantised pages choose their scales (src/kernels/README.md).
constexpr const char* kScaleRule = "e8m0 per token, layer and component";
constexpr uint32_t kChunkBytes = 256u << 10;

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

base::Status check_members(const RoleOptions& roles) {
  const bool lists = !roles.prefill_workers.empty() || !roles.decode_workers.empty();
  if (roles.role != Role::kGateway) {
    if (!lists) return {};
    return base::invalid_argument(
        "--prefill-workers", "--prefill-workers and --decode-workers are for --role gateway alone");
  }
  if (roles.prefill_workers.empty() || roles.decode_workers.empty()) {
    return base::invalid_argument("--prefill-workers",
                                  "--role gateway needs --prefill-workers and --decode-workers");
  }
  return {};
}

}  // namespace

base::Status check_roles(const ServeOptions& options) {
  BH_TRY(check_members(options.roles));
  if (options.roles.role == Role::kAll) return {};
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

base::Result<Identity> make_identity(const ServeOptions& options,
                                     const model::Checkpoint& checkpoint) {
  Identity out;
  auto file = read_key_file(options.roles.key_file);
  if (!file.ok()) return std::move(file).error().within("--worker-key-file");
  if (file->keys.size() != 1) {
    return base::invalid_argument("--worker-key-file",
                                  fmt::format("--worker-key-file: {} has {} keys instead of one",
                                              options.roles.key_file, file->keys.size()));
  }
  out.key = std::move(file->keys.front());
  out.product = BULKHEAD_VERSION;
  BH_ASSIGN(out.model_digest, model_digest(checkpoint));
  out.vocabulary_size = checkpoint.config().vocabulary;
  std::random_device device;
  out.boot_nonce = (uint64_t{device()} << 32) | device() | 1;
  return out;
}

ModelOptions pool_options(const ServeOptions& options) {
  ModelOptions out = options.model;
  const PoolOptions& pool = options.roles.role == Role::kPrefill ? out.prefill : out.decode;
  if (pool.weights) out.weights = pool.weights;
  if (pool.activations) out.activations = *pool.activations;
  if (pool.cache_format) out.cache_format = *pool.cache_format;
  if (pool.kv_cache_bytes != 0) out.kv_cache_bytes = pool.kv_cache_bytes;
  out.placement = Placement::kShared;
  out.prefill = out.decode = {};
  return out;
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
