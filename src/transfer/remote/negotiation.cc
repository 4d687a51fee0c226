#include "transfer/remote/negotiation.h"

#include <fmt/format.h>

#include "wire/bytes.h"
#include "wire/secrets.h"

namespace bulkhead::transfer::remote {
namespace {

template <typename T>
std::optional<std::string> differ(std::string_view what, const T& prefill, const T& decode) {
  if (prefill == decode) return std::nullopt;
  return fmt::format("{}: prefill has {}, decode has {}", what, prefill, decode);
}

}  // namespace

std::optional<std::string> pair_mismatch(const Hello& prefill, const Hello& decode) {
  if (auto bad = differ("protocol version", prefill.protocol, decode.protocol)) return bad;
  if (auto bad = differ("version of Bulkhead", prefill.product, decode.product)) return bad;
  if (prefill.model_digest != decode.model_digest) {
    return differ("model", wire::short_hex(prefill.model_digest),
                  wire::short_hex(decode.model_digest));
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
  return wire::hmac_sha256(key, text);
}

}  // namespace bulkhead::transfer::remote
