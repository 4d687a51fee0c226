#include "serve/roles/pairing.h"

#include <fmt/format.h>

#include <vector>

#include "wire/secrets.h"
#include "wire/worker_codec.h"

namespace bulkhead::serve::roles {
namespace {

using wire::WorkerHello;
using wire::WorkerRole;

template <typename T>
std::string differ(std::string_view what, const T& gateway, const T& worker) {
  return fmt::format("the {} of gateway and worker differ: {} and {}", what, gateway, worker);
}

std::optional<std::string> mismatch(const WorkerHello& gateway, const WorkerHello& worker) {
  if (gateway.protocol != worker.protocol) {
    return differ("protocol versions", gateway.protocol, worker.protocol);
  }
  if (gateway.product != worker.product) {
    return differ("versions of Bulkhead", gateway.product, worker.product);
  }
  if (gateway.model_digest != worker.model_digest) {
    return differ("models", wire::short_hex(gateway.model_digest),
                  wire::short_hex(worker.model_digest));
  }
  if (gateway.vocabulary_size != worker.vocabulary_size) {
    return differ("vocabulary sizes", gateway.vocabulary_size, worker.vocabulary_size);
  }
  if (worker.page_tokens <= 0 || worker.pages <= 0 || worker.sequences_max == 0 ||
      worker.context_tokens <= 0) {
    return "the worker says that it has room for nothing";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> pairing_mismatch(const WorkerHello& own, const WorkerHello& peer) {
  const bool own_gateway = own.role == WorkerRole::kGateway;
  if (own_gateway == (peer.role == WorkerRole::kGateway)) {
    return fmt::format("a {} and a {} have nothing to say to each other here", to_string(own.role),
                       to_string(peer.role));
  }
  return own_gateway ? mismatch(own, peer) : mismatch(peer, own);
}

std::array<uint8_t, 32> pairing_proof(std::string_view key, const WorkerHello& speaker,
                                      const WorkerHello& listener) {
  std::vector<std::byte> text;
  for (const WorkerHello* side : {&speaker, &listener}) {
    std::vector<std::byte> frame;
    wire::encode_worker_frame(*side, 0, frame);
    // A hello of fixed fields and counted texts cannot run into the next.
    text.insert(text.end(), frame.begin(), frame.end());
  }
  return wire::hmac_sha256(key, text);
}

}  // namespace bulkhead::serve::roles
