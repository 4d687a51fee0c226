// What a prefill worker and a decode worker say to each other.
//
// Threads: plain values. Invariants: a peer names pages by grant and index, never by address; every
// count has a bound that is checked before anything is allocated; Chunk::payload is borrowed from
// the frame it came in.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kv/integrity/tracker.h"
#include "kv/page_ref.h"
#include "transfer/remote/fault.h"

namespace bulkhead::transfer::remote {

// Raised with every change of meaning; peers of unlike versions refuse each other.
constexpr uint16_t kProtocolVersion = 2;

constexpr size_t kFrameBytesMax = 16u << 20;
constexpr size_t kChunkBytesMax = 1u << 20;
constexpr size_t kTextMax = 512;
constexpr size_t kPagesMax = 1u << 17;  // of one transfer
constexpr size_t kLayersMax = 4096;
constexpr size_t kHeartbeatGrantsMax = 4096;
constexpr size_t kStateBytesMax = 12u << 20;

// 128 bits drawn at random: a name nobody can guess and no restart repeats.
struct Id128 {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const Id128&) const = default;
};
Id128 random_id();
std::string to_string(const Id128& id);

// One attempt to move one sequence, named by whoever pairs the two workers.
using TransferId = Id128;
// The right to fill the pages of one transfer, named by decode.
using GrantId = Id128;

// XXH3-128, see digest.h.
struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const Digest&) const = default;
};

enum class Role : uint8_t { kPrefill = 1, kDecode = 2 };

// The first frame of either side. The two must fit: negotiation.h.
struct Hello {
  uint32_t protocol = kProtocolVersion;
  Role role = Role::kPrefill;
  std::string product;  // version of Bulkhead
  std::array<uint8_t, 32> model_digest{};
  std::string pool_layout;  // of the pages this side holds
  std::string wire_layout;  // of the pages it sends or takes
  uint32_t page_tokens = 0;
  uint64_t page_bytes = 0;  // of a page in wire_layout
  std::string scale_rule;   // how a quantised page chooses its scales
  bool stamps = false;      // the pages it sends have stamps (kv/integrity/stamp.h)
  uint32_t chunk_bytes = 0;
  uint64_t boot_nonce = 0;  // of this start of the process
  Id128 session_nonce;      // of this connection
};

// The peer fits, and here is the proof that this side knows the key of the deployment.
struct Ready {
  std::array<uint8_t, 32> proof{};
};

struct Close {
  FaultReport why;
};

// From prefill: the grants it holds; decode renews their leases and revokes those it does not know.
struct Heartbeat {
  std::vector<GrantId> grants;
};

// Says nothing but what its header says: what has arrived.
struct Ack {};

struct GrantPage {
  kv::PageRef ref;
  int32_t token_begin = 0;
  int32_t token_count = 0;
  bool operator==(const GrantPage&) const = default;
};

struct Grant {
  GrantId grant;
  TransferId transfer;
  int32_t tokens = 0;
  uint64_t page_bytes = 0;  // each page is filled from 0 to here
  uint64_t lease_ms = 0;
  std::vector<GrantPage> pages;
};

struct Chunk {
  GrantId grant;
  uint32_t page_index = 0;  // in Grant::pages
  kv::Tag tag = 0;
  uint64_t offset = 0;
  std::span<const std::byte> payload;
};

struct CommitPage {
  GrantPage page;
  bool has_digest = false;
  Digest digest;
  bool has_stamp = false;
  kv::integrity::Mark stamp = {};
};

struct Commit {
  GrantId grant;
  TransferId transfer;
  int32_t tokens = 0;
  std::string layout;
  uint64_t page_bytes = 0;
  std::vector<uint64_t> layer_bytes;  // in the order in which they lie in a page
  std::vector<CommitPage> pages;
  int32_t first_token = 0;
  std::vector<std::byte> state;  // wire/sequence_codec.h
};

struct Accept {
  GrantId grant;
};

// Pages of which bytes are missing at commit.
struct Resend {
  GrantId grant;
  std::vector<uint32_t> page_indexes;
};

// From prefill: the transfer is given up and nothing of it is written any more.
struct Abort {
  TransferId transfer;
  GrantId grant;  // zero where there is none
  FaultReport why;
};

// From decode: whatever is written under this grant from now on is refused. Also the answer to a
// commit that cannot be accepted.
struct Revoke {
  GrantId grant;
  FaultReport why;
};

// From prefill: no write under this grant is under way, nor will any be.
struct RevokeAck {
  GrantId grant;
};

using Message = std::variant<Hello, Ready, Close, Heartbeat, Ack, Grant, Chunk, Commit, Accept,
                             Resend, Abort, Revoke, RevokeAck>;

// On the wire; 1 + the index in Message.
enum class MessageType : uint16_t {
  kHello = 1,
  kReady,
  kClose,
  kHeartbeat,
  kAck,
  kGrant,
  kChunk,
  kCommit,
  kAccept,
  kResend,
  kAbort,
  kRevoke,
  kRevokeAck,
};
constexpr MessageType kLastMessageType = MessageType::kRevokeAck;

inline MessageType type_of(const Message& message) {
  return static_cast<MessageType>(message.index() + 1);
}
std::string_view to_string(MessageType type);

}  // namespace bulkhead::transfer::remote
