#include "transfer/remote/session.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/halt.h"
#include "transfer/remote/negotiation.h"

namespace bulkhead::transfer::remote {
namespace {

// Enough to tell two sessions apart in a header.
uint64_t fold(const Id128& nonce) { return nonce.high ^ nonce.low; }

}  // namespace

Session::Session(SessionOptions options, std::unique_ptr<Connection> connection,
                 const base::Clock& clock)
    : options_(std::move(options)), connection_(std::move(connection)), clock_(clock) {
  BH_CHECK(options_.window_frames > 0 && options_.window_frames * 2 <= seen_.size(),
           "a window that the peer can remember");
  options_.identity.session_nonce = options_.draw_id();
  last_heard_ = last_heartbeat_ = clock_.now();
}

// --- sending

void Session::send(const Message& message) {
  base::halt_at("send", to_string(type_of(message)));
  ++sequence_;
  highest_told_ = highest_;
  const FrameHeader header = {.type = type_of(message),
                              .to = heard_hello_ ? fold(peer_.session_nonce) : 0,
                              .sequence = sequence_,
                              .arrived = highest_};
  encode_frame(header, message, outgoing_);
  ++counters_.frames_sent;
  counters_.bytes_sent += outgoing_.size();
  if (waiting_.empty() && connection_->can_post()) {
    connection_->post(outgoing_);
  } else {
    waiting_.push_back(std::exchange(outgoing_, {}));
  }
}

void Session::post(const Message& message) {
  if (is_closed()) return;
  if (waiting_.size() >= options_.waiting_frames_max) {
    end(Fault::kPeerLost, "the peer takes no messages", true);
    return;
  }
  send(message);
}

bool Session::can_post_chunk() const {
  return is_open() && waiting_.empty() && connection_->can_post() &&
         sequence_ - peer_arrived_ < options_.window_frames;
}

void Session::flush() {
  while (!waiting_.empty() && connection_->can_post()) {
    connection_->post(waiting_.front());
    waiting_.pop_front();
  }
}

bool Session::heartbeat_due() {
  const auto now = clock_.now();
  if (!is_open() || now - last_heartbeat_ < options_.heartbeat) return false;
  last_heartbeat_ = now;
  return true;
}

// --- time

void Session::tick() {
  if (connection_ == nullptr) return;
  if (is_closed()) {
    finish_closing();
    return;
  }
  if (stage_ == Stage::kConnecting && connection_->state() == Connection::State::kOpen) greet();
  flush();
  keep_time();
}

void Session::greet() {
  stage_ = Stage::kGreeting;
  last_heard_ = clock_.now();
  send(options_.identity);
}

void Session::keep_time() {
  if (connection_->state() == Connection::State::kClosed) {
    // What arrived before it broke still counts; poll() comes to the end of it.
    return;
  }
  if (highest_ - highest_told_ >= std::max<uint32_t>(options_.window_frames / 4, 1)) post(Ack{});
}

void Session::finish_closing() {
  flush();
  const bool broken = connection_->state() == Connection::State::kClosed;
  const bool said = waiting_.empty() && connection_->drained();
  if (broken || said || clock_.now() - closed_at_ > options_.linger) {
    connection_->close();
    connection_.reset();
  }
}

// --- receiving

std::optional<Message> Session::poll() {
  while (!is_closed()) {
    if (!connection_->poll(incoming_)) {
      // Only now: what arrived while this side was busy has been read.
      if (connection_->state() == Connection::State::kClosed) {
        end(Fault::kPeerLost, connection_->reason(), false);
      } else if (clock_.now() - last_heard_ > options_.silence_max) {
        end(Fault::kPeerLost,
            fmt::format("nothing was heard for {:.1f} s", base::to_seconds(options_.silence_max)),
            true);
      }
      return std::nullopt;
    }
    ++counters_.frames_received;
    counters_.bytes_received += incoming_.size();
    auto decoded = decode_frame(incoming_);
    if (!decoded.ok()) {
      ++counters_.malformed;
      const bool version = decoded.error().code == base::ErrorCode::kUnsupported;
      end(version ? Fault::kPairRefused : Fault::kProtocol, decoded.error().message, true);
      return std::nullopt;
    }
    if (auto message = take(std::move(decoded).value())) {
      base::halt_at("receive", to_string(type_of(*message)));
      return message;
    }
  }
  return std::nullopt;
}

bool Session::belongs_here(const FrameHeader& header) const {
  // A peer that does not know us yet has nothing to say but hello, or that it leaves.
  if (header.type == MessageType::kHello) return header.to == 0;
  if (header.type == MessageType::kClose && header.to == 0) return true;
  return header.to == fold(options_.identity.session_nonce);
}

// The last 1024 frames are known one by one; what is older counts as seen.
bool Session::is_new(uint64_t sequence) {
  if (sequence == 0 || sequence + seen_.size() <= highest_) return false;
  if (sequence > highest_) {
    const uint64_t steps = std::min<uint64_t>(sequence - highest_, seen_.size());
    for (uint64_t i = 0; i < steps; ++i) seen_.reset((sequence - i) % seen_.size());
    highest_ = sequence;
  } else if (seen_.test(sequence % seen_.size())) {
    return false;
  }
  seen_.set(sequence % seen_.size());
  return true;
}

std::optional<Message> Session::take(DecodedFrame decoded) {
  if (!belongs_here(decoded.header)) {
    ++counters_.misdirected;
    return std::nullopt;
  }
  if (!is_new(decoded.header.sequence)) {
    ++counters_.replayed;
    return std::nullopt;
  }
  last_heard_ = clock_.now();
  if (decoded.header.arrived <= sequence_) {
    peer_arrived_ = std::max(peer_arrived_, decoded.header.arrived);
  }
  Message& message = decoded.message;
  if (const auto* close = std::get_if<Close>(&message)) {
    end(close->why.fault, "the peer says: " + close->why.text, false);
  } else if (const auto* hello = std::get_if<Hello>(&message)) {
    hear_hello(*hello);
  } else if (const auto* ready = std::get_if<Ready>(&message)) {
    hear_ready(*ready);
  } else if (stage_ != Stage::kOpen) {
    end(Fault::kProtocol,
        fmt::format("before the greeting nobody may say: {}", to_string(type_of(message))), true);
  } else if (!std::holds_alternative<Ack>(message)) {
    return std::move(message);
  }
  return std::nullopt;
}

void Session::hear_hello(const Hello& hello) {
  if (heard_hello_) {
    end(Fault::kProtocol, "a second hello", true);
    return;
  }
  heard_hello_ = true;
  peer_ = hello;
  if (stage_ == Stage::kConnecting) greet();
  if (auto mismatch = peer_mismatch(options_.identity, hello)) {
    end(Fault::kPairRefused, *std::move(mismatch), true);
    return;
  }
  send(Ready{key_proof(options_.peer_key, options_.identity, peer_)});
}

void Session::hear_ready(const Ready& ready) {
  if (!heard_hello_ || heard_ready_) {
    end(Fault::kProtocol, "a ready out of turn", true);
    return;
  }
  const auto expected = key_proof(options_.peer_key, peer_, options_.identity);
  if (CRYPTO_memcmp(expected.data(), ready.proof.data(), expected.size()) != 0) {
    end(Fault::kPairRefused, "the two sides do not have the same peer key", true);
    return;
  }
  heard_ready_ = true;
  stage_ = Stage::kOpen;
  last_heartbeat_ = clock_.now();
}

// --- the end

void Session::close(Fault fault, std::string text) { end(fault, std::move(text), true); }

void Session::end(Fault fault, std::string text, bool tell_peer) {
  if (is_closed()) return;
  if (tell_peer && connection_->state() == Connection::State::kOpen) {
    // Who leaves in good order has said what it had to; the rest is of no use to a peer at fault.
    if (fault != Fault::kShutdown) waiting_.clear();
    send(Close{{fault, text}});
  }
  stage_ = Stage::kClosed;
  why_ = {fault, std::move(text)};
  closed_at_ = clock_.now();
}

}  // namespace bulkhead::transfer::remote
