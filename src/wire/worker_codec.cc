#include "wire/worker_codec.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "wire/bytes.h"

namespace bulkhead::wire {
namespace {

constexpr uint32_t kMagic = 0x57574842;  // "BHWW"
constexpr size_t kChecksumBytes = sizeof(uint64_t);
constexpr int32_t kLogprobsMax = 20;  // docs/api.md
constexpr int32_t kCountMax = std::numeric_limits<int32_t>::max();

// --- out

void put(const AttemptId& id, ByteWriter& out) {
  out.put(id.high);
  out.put(id.low);
}

void put_text(std::string_view text, ByteWriter& out) { out.text(text.substr(0, kWorkerTextMax)); }

void put(const WorkerHello& hello, ByteWriter& out) {
  out.put(hello.protocol);
  out.put(hello.role);
  put_text(hello.product, out);
  out.bytes(hello.model_digest);
  for (const std::string* text : {&hello.label, &hello.weights, &hello.kv, &hello.layout}) {
    put_text(*text, out);
  }
  out.put(hello.page_tokens);
  out.put(hello.vocabulary_size);
  out.put(hello.context_tokens);
  out.put(hello.pages);
  out.put(hello.sequences_max);
  put_text(hello.transfer_address, out);
  put_text(hello.http_address, out);
  out.put(hello.boot_nonce);
  out.bytes(hello.session_nonce);
}

void put(const WorkerReady& ready, ByteWriter& out) { out.bytes(ready.proof); }
void put(const WorkerClose& close, ByteWriter& out) { put_text(close.why, out); }

void put(const WorkerBeat& beat, ByteWriter& out) {
  out.put(beat.pages_total);
  out.put(beat.pages_free);
  out.put(beat.pages_cached);
  out.put(beat.sequences);
  out.put(static_cast<uint8_t>(beat.draining));
  out.put(beat.writes_refused);
}

void put(const Expect& expect, ByteWriter& out) {
  put(expect.attempt, out);
  out.put(expect.prefill_boot);
  out.put(expect.prompt_tokens);
  out.put(expect.tokens_max);
}

void put(const Submit& submit, ByteWriter& out) {
  put(submit.attempt, out);
  put_text(submit.decode_address, out);
  out.put(submit.decode_boot);
  encode_sequence(submit.state, out);
}

void put(const FlushCache&, ByteWriter&) {}

void put(const Admitted& admitted, ByteWriter& out) {
  put(admitted.attempt, out);
  out.put(admitted.cached_tokens);
}

void put_token(const TokenEvent& event, ByteWriter& out) {
  out.put(event.token);
  out.put(event.logprob);
  out.count(event.top_logprobs.size());
  for (const TokenLogprob& one : event.top_logprobs) {
    out.put(one.id);
    out.put(one.logprob);
  }
}

void put(const PromptScored& scored, ByteWriter& out) {
  put(scored.attempt, out);
  out.put(scored.event.position);
  out.count(scored.event.tokens.size());
  for (const TokenEvent& token : scored.event.tokens) put_token(token, out);
}

void put(const TokenMade& made, ByteWriter& out) {
  put(made.attempt, out);
  put_token(made.event, out);
}

void put(const Ended& ended, ByteWriter& out) {
  put(ended.attempt, out);
  out.put(static_cast<uint8_t>(ended.ending.reason));
  out.put(ended.ending.stop_id);
  out.put(static_cast<uint8_t>(ended.ending.error.has_value()));
  if (!ended.ending.error) return;
  out.put(static_cast<uint8_t>(ended.ending.error->code));
  put_text(ended.ending.error->message, out);
  put_text(ended.ending.error->field, out);
}

template <typename T>
concept AttemptAlone = std::is_same_v<T, Cancel> || std::is_same_v<T, Offered> ||
                       std::is_same_v<T, Accepted> || std::is_same_v<T, Released>;

template <AttemptAlone T>
void put(const T& message, ByteWriter& out) {
  put(message.attempt, out);
}

// --- in

struct Reader {
  ByteReader& in;
  const SequenceBounds& bounds;

  AttemptId attempt() {
    const auto high = in.get<uint64_t>();
    return {high, in.get<uint64_t>()};
  }
  std::string text() { return in.text(kWorkerTextMax); }
  int32_t between(int32_t least, int32_t most) {
    const auto value = in.get<int32_t>();
    if (value < least || value > most) in.fail();
    return in.ok() ? value : least;
  }
  TokenId token() { return between(0, bounds.vocabulary_size - 1); }

  float logprob() {
    const float value = in.get_float();
    if (std::isnan(value)) in.fail();
    return value;
  }

  TokenEvent token_event() {
    TokenEvent event;
    event.token = token();
    event.logprob = logprob();
    const size_t others = in.count(kLogprobsMax, 8);
    event.top_logprobs.reserve(others);
    for (size_t i = 0; i < others; ++i) {
      const TokenId id = token();
      event.top_logprobs.push_back({id, logprob()});
    }
    return event;
  }

  void read(WorkerHello& out) {
    out.protocol = in.get<uint32_t>();
    out.role = in.get_enum(WorkerRole::kGateway, WorkerRole::kDecode);
    out.product = text();
    out.model_digest = in.array<32>();
    for (std::string* text_of : {&out.label, &out.weights, &out.kv, &out.layout}) {
      *text_of = text();
    }
    for (int32_t* number :
         {&out.page_tokens, &out.vocabulary_size, &out.context_tokens, &out.pages}) {
      *number = between(0, kCountMax);
    }
    out.sequences_max = in.get<uint32_t>();
    out.transfer_address = text();
    out.http_address = text();
    out.boot_nonce = in.get<uint64_t>();
    out.session_nonce = in.array<16>();
  }
  void read(WorkerReady& out) { out.proof = in.array<32>(); }
  void read(WorkerClose& out) { out.why = text(); }
  void read(WorkerBeat& out) {
    for (int32_t* number : {&out.pages_total, &out.pages_free, &out.pages_cached}) {
      *number = between(0, kCountMax);
    }
    out.sequences = in.get<uint32_t>();
    out.draining = in.get_bool();
    out.writes_refused = in.get<uint64_t>();
  }
  void read(Expect& out) {
    out.attempt = attempt();
    out.prefill_boot = in.get<uint64_t>();
    out.prompt_tokens = between(1, bounds.context_tokens);
    out.tokens_max = between(out.prompt_tokens, bounds.context_tokens);
  }
  // A prompt of which nothing has been computed.
  static bool is_fresh(const SequenceState& state) {
    return state.tokens.size() == static_cast<size_t>(state.prompt_tokens) && state.written == 0;
  }
  void read(Submit& out) {
    out.attempt = attempt();
    out.decode_address = text();
    out.decode_boot = in.get<uint64_t>();
    auto state = decode_sequence(in, bounds);
    if (!state.ok() || state->constrained || !is_fresh(state->state)) {
      in.fail();
      return;
    }
    out.state = std::move(state->state);
    // Prefill ends what has one token at most; anything longer needs somebody who goes on.
    if (out.state.max_tokens > 1 && out.decode_address.empty()) in.fail();
  }
  void read(FlushCache&) {}
  void read(Admitted& out) {
    out.attempt = attempt();
    out.cached_tokens = between(0, bounds.context_tokens);
  }
  void read(PromptScored& out) {
    out.attempt = attempt();
    out.event.position = between(1, bounds.context_tokens);
    const size_t tokens = in.count(static_cast<size_t>(bounds.context_tokens), 12);
    out.event.tokens.reserve(tokens);
    for (size_t i = 0; i < tokens; ++i) out.event.tokens.push_back(token_event());
  }
  void read(TokenMade& out) {
    out.attempt = attempt();
    out.event = token_event();
  }
  void read(Ended& out) {
    out.attempt = attempt();
    out.ending.reason = in.get_enum(FinishReason::kStop, FinishReason::kError);
    out.ending.stop_id = between(-1, bounds.vocabulary_size - 1);
    if (!in.get_bool()) return;
    base::Error error;
    error.code = in.get_enum(base::ErrorCode::kInvalidArgument, base::ErrorCode::kInternal);
    error.message = text();
    error.field = text();
    out.ending.error = std::move(error);
  }
  template <AttemptAlone T>
  void read(T& out) {
    out.attempt = attempt();
  }
};

template <size_t index = 0>
WorkerMessage read_message(size_t type, Reader& reader) {
  if constexpr (index < std::variant_size_v<WorkerMessage>) {
    if (type != index) return read_message<index + 1>(type, reader);
    std::variant_alternative_t<index, WorkerMessage> message;
    reader.read(message);
    return message;
  } else {
    reader.in.fail();
    return FlushCache{};
  }
}

}  // namespace

void encode_worker_frame(const WorkerMessage& message, uint64_t number,
                         std::vector<std::byte>& out) {
  out.clear();
  ByteWriter writer(out);
  writer.put(kMagic);
  writer.put(kWorkerProtocol);
  writer.put(static_cast<uint16_t>(message.index()));
  writer.put(number);
  std::visit([&writer](const auto& one) { put(one, writer); }, message);
  seal_worker_frame(out);
  BH_CHECK(out.size() <= kWorkerFrameMax, "a validated request fits a frame");
}

void seal_worker_frame(std::vector<std::byte>& frame) {
  ByteWriter(frame).put(uint64_t{XXH3_64bits(frame.data(), frame.size())});
}

base::Result<WorkerFrame> decode_worker_frame(std::span<const std::byte> frame,
                                              const SequenceBounds& bounds) {
  if (frame.size() > kWorkerFrameMax) return base::corrupt("a frame is longer than any message");
  if (frame.size() < kChecksumBytes) return base::corrupt("a frame is shorter than its checksum");
  const auto sealed = frame.first(frame.size() - kChecksumBytes);
  ByteReader in(sealed);
  if (in.get<uint32_t>() != kMagic) return base::corrupt("a frame is none of this protocol");
  if (const auto version = in.get<uint16_t>(); version != kWorkerProtocol) {
    return base::unsupported(
        fmt::format("the peer speaks version {} of the worker protocol, this "
                    "process version {}",
                    version, kWorkerProtocol));
  }
  const auto stated = ByteReader(frame.last(kChecksumBytes)).get<uint64_t>();
  if (stated != XXH3_64bits(sealed.data(), sealed.size())) {
    return base::corrupt("a frame's checksum is wrong");
  }
  const auto type = static_cast<size_t>(in.get<uint16_t>());
  WorkerFrame out;
  out.number = in.get<uint64_t>();
  Reader reader{in, bounds};
  out.message = read_message(type, reader);
  if (!in.finished()) {
    return base::corrupt(fmt::format("a message of type {} is malformed or breaks a bound", type));
  }
  return out;
}

std::string_view to_string(WorkerRole role) {
  switch (role) {
    case WorkerRole::kGateway:
      return "gateway";
    case WorkerRole::kPrefill:
      return "prefill";
    case WorkerRole::kDecode:
      return "decode";
  }
  return "unknown";
}

std::string_view name_of(const WorkerMessage& message) {
  constexpr std::string_view kNames[] = {"hello",  "ready",   "close",    "beat",     "expect",
                                         "submit", "cancel",  "flush",    "admitted", "scores",
                                         "token",  "offered", "accepted", "ended",    "released"};
  static_assert(std::size(kNames) == std::variant_size_v<WorkerMessage>);
  return kNames[message.index()];
}

}  // namespace bulkhead::wire
