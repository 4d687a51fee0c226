#include "transfer/remote/codec.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <utility>

#include "wire/bytes.h"

namespace bulkhead::transfer::remote {
namespace {

using wire::ByteReader;
using wire::ByteWriter;

constexpr uint32_t kMagic = 0x314b4842;  // "BHK1"
constexpr size_t kChecksumOffset = 40;
constexpr size_t kBodyLengthOffset = 32;

// --- parts

void put(ByteWriter& out, const Id128& id) {
  out.put(id.high);
  out.put(id.low);
}

Id128 get_id(ByteReader& in) {
  Id128 id;
  id.high = in.get<uint64_t>();
  id.low = in.get<uint64_t>();
  return id;
}

void put(ByteWriter& out, const FaultReport& why) {
  out.put(why.fault);
  out.text(std::string_view(why.text).substr(0, kTextMax));
}

// Whatever ends has a reason.
FaultReport get_fault(ByteReader& in) {
  FaultReport why;
  why.fault = in.get_enum(Fault::kPeerLost, kLastFault);
  why.text = in.text(kTextMax);
  return why;
}

constexpr size_t kGrantPageBytes = 20;

void put(ByteWriter& out, const GrantPage& page) {
  out.put(page.ref.page);
  out.put(page.ref.tag);
  out.put(page.token_begin);
  out.put(page.token_count);
}

GrantPage get_grant_page(ByteReader& in) {
  GrantPage page;
  page.ref.page = in.get<kv::PageId>();
  page.ref.tag = in.get<kv::Tag>();
  page.token_begin = in.get<int32_t>();
  page.token_count = in.get<int32_t>();
  return page;
}

// --- bodies

void put(ByteWriter& out, const Hello& hello) {
  out.put(hello.protocol);
  out.put(hello.role);
  out.text(hello.product);
  out.bytes(hello.model_digest);
  out.text(hello.pool_layout);
  out.text(hello.wire_layout);
  out.put(hello.page_tokens);
  out.put(hello.page_bytes);
  out.text(hello.scale_rule);
  out.put(static_cast<uint8_t>(hello.stamps));
  out.put(hello.chunk_bytes);
  out.put(hello.boot_nonce);
  put(out, hello.session_nonce);
}

void get(ByteReader& in, Hello& hello) {
  hello.protocol = in.get<uint32_t>();
  hello.role = in.get_enum(Role::kPrefill, Role::kDecode);
  hello.product = in.text(kTextMax);
  hello.model_digest = in.array<32>();
  hello.pool_layout = in.text(kTextMax);
  hello.wire_layout = in.text(kTextMax);
  hello.page_tokens = in.get<uint32_t>();
  hello.page_bytes = in.get<uint64_t>();
  hello.scale_rule = in.text(kTextMax);
  hello.stamps = in.get_bool();
  hello.chunk_bytes = in.get<uint32_t>();
  hello.boot_nonce = in.get<uint64_t>();
  hello.session_nonce = get_id(in);
}

void put(ByteWriter& out, const Ready& ready) { out.bytes(ready.proof); }
void get(ByteReader& in, Ready& ready) { ready.proof = in.array<32>(); }

void put(ByteWriter& out, const Close& close) { put(out, close.why); }
void get(ByteReader& in, Close& close) { close.why = get_fault(in); }

void put(ByteWriter& out, const Heartbeat& heartbeat) {
  out.count(heartbeat.grants.size());
  for (const GrantId& grant : heartbeat.grants) put(out, grant);
}
void get(ByteReader& in, Heartbeat& heartbeat) {
  heartbeat.grants.resize(in.count(kHeartbeatGrantsMax, sizeof(GrantId)));
  for (GrantId& grant : heartbeat.grants) grant = get_id(in);
}

void put(ByteWriter&, const Ack&) {}
void get(ByteReader&, Ack&) {}

void put(ByteWriter& out, const Grant& grant) {
  put(out, grant.grant);
  put(out, grant.transfer);
  out.put(grant.tokens);
  out.put(grant.page_bytes);
  out.put(grant.lease_ms);
  out.count(grant.pages.size());
  for (const GrantPage& page : grant.pages) put(out, page);
}
void get(ByteReader& in, Grant& grant) {
  grant.grant = get_id(in);
  grant.transfer = get_id(in);
  grant.tokens = in.get<int32_t>();
  grant.page_bytes = in.get<uint64_t>();
  grant.lease_ms = in.get<uint64_t>();
  grant.pages.resize(in.count(kPagesMax, kGrantPageBytes));
  for (GrantPage& page : grant.pages) page = get_grant_page(in);
}

void put(ByteWriter& out, const Chunk& chunk) {
  put(out, chunk.grant);
  out.put(chunk.page_index);
  out.put(chunk.tag);
  out.put(chunk.offset);
  out.count(chunk.payload.size());
  out.bytes(chunk.payload);
}
void get(ByteReader& in, Chunk& chunk) {
  chunk.grant = get_id(in);
  chunk.page_index = in.get<uint32_t>();
  chunk.tag = in.get<kv::Tag>();
  chunk.offset = in.get<uint64_t>();
  chunk.payload = in.bytes(in.count(kChunkBytesMax, 1));
}

void put(ByteWriter& out, const Commit& commit) {
  put(out, commit.grant);
  put(out, commit.transfer);
  out.put(commit.tokens);
  out.text(commit.layout);
  out.put(commit.page_bytes);
  out.count(commit.layer_bytes.size());
  for (const uint64_t bytes : commit.layer_bytes) out.put(bytes);
  out.count(commit.pages.size());
  for (const CommitPage& page : commit.pages) {
    put(out, page.page);
    out.put(static_cast<uint8_t>(page.has_digest));
    out.put(page.digest.high);
    out.put(page.digest.low);
    out.put(static_cast<uint8_t>(page.has_stamp));
    out.put(page.stamp.high);
    out.put(page.stamp.low);
  }
  out.put(commit.first_token);
  out.count(commit.state.size());
  out.bytes(commit.state);
}
void get(ByteReader& in, Commit& commit) {
  commit.grant = get_id(in);
  commit.transfer = get_id(in);
  commit.tokens = in.get<int32_t>();
  commit.layout = in.text(kTextMax);
  commit.page_bytes = in.get<uint64_t>();
  commit.layer_bytes.resize(in.count(kLayersMax, sizeof(uint64_t)));
  for (uint64_t& bytes : commit.layer_bytes) bytes = in.get<uint64_t>();
  commit.pages.resize(in.count(kPagesMax, kGrantPageBytes + 34));
  for (CommitPage& page : commit.pages) {
    page.page = get_grant_page(in);
    page.has_digest = in.get_bool();
    page.digest.high = in.get<uint64_t>();
    page.digest.low = in.get<uint64_t>();
    page.has_stamp = in.get_bool();
    page.stamp.high = in.get<uint64_t>();
    page.stamp.low = in.get<uint64_t>();
  }
  commit.first_token = in.get<int32_t>();
  const auto state = in.bytes(in.count(kStateBytesMax, 1));
  commit.state.assign(state.begin(), state.end());
}

void put(ByteWriter& out, const Accept& accept) { put(out, accept.grant); }
void get(ByteReader& in, Accept& accept) { accept.grant = get_id(in); }

void put(ByteWriter& out, const Resend& resend) {
  put(out, resend.grant);
  out.count(resend.page_indexes.size());
  for (const uint32_t index : resend.page_indexes) out.put(index);
}
void get(ByteReader& in, Resend& resend) {
  resend.grant = get_id(in);
  resend.page_indexes.resize(in.count(kPagesMax, sizeof(uint32_t)));
  for (uint32_t& index : resend.page_indexes) index = in.get<uint32_t>();
}

void put(ByteWriter& out, const Abort& abort) {
  put(out, abort.transfer);
  put(out, abort.grant);
  put(out, abort.why);
}
void get(ByteReader& in, Abort& abort) {
  abort.transfer = get_id(in);
  abort.grant = get_id(in);
  abort.why = get_fault(in);
}

void put(ByteWriter& out, const Revoke& revoke) {
  put(out, revoke.grant);
  put(out, revoke.why);
}
void get(ByteReader& in, Revoke& revoke) {
  revoke.grant = get_id(in);
  revoke.why = get_fault(in);
}

void put(ByteWriter& out, const RevokeAck& ack) { put(out, ack.grant); }
void get(ByteReader& in, RevokeAck& ack) { ack.grant = get_id(in); }

// --- frames

template <size_t... i>
bool read_body(size_t index, ByteReader& in, Message& out, std::index_sequence<i...>) {
  return ((i == index && (get(in, out.emplace<i>()), true)) || ...);
}

uint64_t checksum(std::span<const std::byte> frame) {
  const uint64_t seed = XXH3_64bits(frame.data(), kChecksumOffset);
  const auto body = frame.subspan(kFrameHeaderBytes);
  return XXH3_64bits_withSeed(body.data(), body.size(), seed);
}

template <typename T>
void write_at(std::vector<std::byte>& frame, size_t offset, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    frame[offset + i] = static_cast<std::byte>((value >> (8 * i)) & 0xff);
  }
}

}  // namespace

void encode_frame(const FrameHeader& header, const Message& message, std::vector<std::byte>& out) {
  out.clear();
  ByteWriter writer(out);
  writer.put(kMagic);
  writer.put(kProtocolVersion);
  writer.put(type_of(message));
  writer.put(header.to);
  writer.put(header.sequence);
  writer.put(header.arrived);
  writer.put(uint64_t{0});  // the body's length, then zero
  writer.put(uint64_t{0});  // the checksum
  std::visit([&writer](const auto& body) { put(writer, body); }, message);
  write_at(out, kBodyLengthOffset, static_cast<uint32_t>(out.size() - kFrameHeaderBytes));
  write_at(out, kChecksumOffset, checksum(out));
}

base::Result<DecodedFrame> decode_frame(std::span<const std::byte> frame) {
  if (frame.size() < kFrameHeaderBytes) return base::corrupt("a frame shorter than its header");
  if (frame.size() > kFrameBytesMax) return base::corrupt("a frame longer than frames may be");
  ByteReader in(frame);
  if (in.get<uint32_t>() != kMagic) return base::corrupt("a frame of something else");
  const auto version = in.get<uint16_t>();
  if (version != kProtocolVersion) {
    return base::unsupported(fmt::format("a frame of protocol version {}; this is version {}",
                                         version, kProtocolVersion));
  }
  const auto type = in.get<uint16_t>();
  DecodedFrame out;
  out.header.to = in.get<uint64_t>();
  out.header.sequence = in.get<uint64_t>();
  out.header.arrived = in.get<uint64_t>();
  const auto body_bytes = in.get<uint32_t>();
  const auto zero = in.get<uint32_t>();
  const auto stated = in.get<uint64_t>();
  if (body_bytes != in.remaining() || zero != 0) {
    return base::corrupt("a frame that is not as long as it says");
  }
  if (stated != checksum(frame)) return base::corrupt("a frame whose checksum is wrong");
  if (type < 1 || type > static_cast<uint16_t>(kLastMessageType)) {
    return base::corrupt(fmt::format("a frame of unknown type {}", type));
  }
  out.header.type = static_cast<MessageType>(type);
  constexpr auto kTypes = std::make_index_sequence<std::variant_size_v<Message>>();
  const bool known = read_body(size_t{type} - 1, in, out.message, kTypes);
  if (!known || !in.finished()) {
    return base::corrupt(fmt::format("a malformed {}", to_string(out.header.type)));
  }
  return out;
}

std::string_view describe_frame(std::span<const std::byte> frame) {
  if (frame.size() < kFrameHeaderBytes) return "a cut frame";
  ByteReader in(frame.subspan(6));
  const auto type = in.get<uint16_t>();
  if (type < 1 || type > static_cast<uint16_t>(kLastMessageType)) return "an unknown frame";
  return to_string(static_cast<MessageType>(type));
}

}  // namespace bulkhead::transfer::remote
