#include "transfer/remote/negotiation.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/check.h"
#include "wire/bytes.h"

namespace bulkhead::transfer::remote {
namespace {

template <typename T>
std::optional<std::string> differ(std::string_view what, const T& prefill, const T& decode) {
  if (prefill == decode) return std::nullopt;
  return fmt::format("{}: prefill has {}, decode has {}", what, prefill, decode);
}

std::string hex(const std::array<uint8_t, 32>& digest) {
  std::string out;
  // Sixteen digits tell two models apart in a log.
  for (size_t i = 0; i < 8; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

}  // namespace

std::optional<std::string> pair_mismatch(const Hello& prefill, const Hello& decode) {
  if (auto bad = differ("protocol version", prefill.protocol, decode.protocol)) return bad;
  if (auto bad = differ("version of Bulkhead", prefill.product, decode.product)) return bad;
  if (prefill.model_digest != decode.model_digest) {
    return differ("model", hex(prefill.model_digest), hex(decode.model_digest));
  }
  if (auto bad = differ("page size in tokens", prefill.page_tokens, decode.page_tokens)) return bad;
  if (auto bad = differ("page layout", prefill.wire_layout, decode.wire_layout)) return bad;
  if (auto bad = differ("bytes of a page", prefill.page_bytes, decode.page_bytes)) return bad;
  if (auto bad = differ("scale rule", prefill.scale_rule, decode.scale_rule)) return bad;
  if (auto bad = differ("bytes of a chunk", prefill.chunk_bytes, decode.chunk_bytes)) return bad;
  if (decode.pool_layout != decode.wire_layout) {
    return fmt::format("decode takes pages as {} and keeps them as {}", decode.wire_layout,
                       decode.pool_layout);
  }
  if (prefill.chunk_bytes == 0 || prefill.chunk_bytes > kChunkBytesMax) {
    return fmt::format("chunks of {} bytes are not between 1 and {}", prefill.chunk_bytes,
                       kChunkBytesMax);
  }
  return std::nullopt;
}

std::optional<std::string> peer_mismatch(const Hello& own, const Hello& peer) {
  if (own.role == peer.role) {
    return own.role == Role::kPrefill ? "both sides are prefill" : "both sides are decode";
  }
  return own.role == Role::kPrefill ? pair_mismatch(own, peer) : pair_mismatch(peer, own);
}

std::array<uint8_t, 32> key_proof(std::string_view key, const Hello& speaker,
                                  const Hello& listener) {
  std::vector<std::byte> text;
  wire::ByteWriter out(text);
  out.text("bulkhead handoff session");
  out.put(speaker.role);
  for (const Hello* side : {&speaker, &listener}) {
    out.put(side->session_nonce.high);
    out.put(side->session_nonce.low);
    out.put(side->boot_nonce);
  }
  std::array<uint8_t, 32> proof{};
  unsigned int size = 0;
  const auto* const made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), proof.data(), &size);
  BH_CHECK(made != nullptr && size == proof.size(), "HMAC-SHA-256 gives 32 bytes");
  return proof;
}

}  // namespace bulkhead::transfer::remote
