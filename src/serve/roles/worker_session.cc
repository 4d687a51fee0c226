#include "serve/roles/worker_session.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <utility>

#include "base/halt.h"
#include "serve/roles/pairing.h"

namespace bulkhead::serve::roles {

using transfer::remote::Connection;
using wire::WorkerMessage;

namespace {

// Beats that a peer may miss.
constexpr int kMissedMax = 2;

}  // namespace

WorkerSession::WorkerSession(WorkerSessionOptions options, std::unique_ptr<Connection> connection,
                             const base::Clock& clock)
    : options_(std::move(options)), connection_(std::move(connection)), clock_(clock) {
  options_.identity.session_nonce = options_.draw_nonce();
  last_heard_ = last_beat_ = clock_.now();
}

// --- sending

void WorkerSession::send(const WorkerMessage& message) {
  base::halt_at("tell", name_of(message));
  encode_worker_frame(message, ++sent_, outgoing_);
  if (waiting_.empty() && connection_->can_post()) {
    connection_->post(outgoing_);
  } else {
    waiting_.push_back(std::exchange(outgoing_, {}));
  }
}

void WorkerSession::post(const WorkerMessage& message) {
  if (!is_open()) return;
  if (waiting_.size() >= options_.waiting_max) {
    end("the peer takes no messages", true);
    return;
  }
  send(message);
}

void WorkerSession::flush() {
  while (!waiting_.empty() && connection_->can_post()) {
    connection_->post(waiting_.front());
    waiting_.pop_front();
  }
}

bool WorkerSession::beat_due() {
  const auto now = clock_.now();
  if (!is_open() || now - last_beat_ < options_.beat) return false;
  last_beat_ = now;
  return true;
}

// --- time

void WorkerSession::tick() {
  if (is_closed()) {
    if (connection_ == nullptr) return;
    flush();
    const bool broken = connection_->state() == Connection::State::kClosed;
    const bool said = waiting_.empty() && connection_->drained();
    if (broken || said || clock_.now() - closed_at_ > options_.linger) {
      connection_->close();
      connection_.reset();
    }
    return;
  }
  if (stage_ == Stage::kConnecting && connection_->state() == Connection::State::kOpen) {
    stage_ = Stage::kGreeting;
    last_heard_ = clock_.now();
    send(options_.identity);
  }
  flush();
}

// --- receiving

std::optional<WorkerMessage> WorkerSession::poll() {
  while (!is_closed()) {
    if (!connection_->poll(incoming_)) {
      // What arrived before the end counts; so does what arrived while this process slept.
      if (connection_->state() == Connection::State::kClosed) {
        end(connection_->reason(), false);
      } else if (clock_.now() - last_heard_ > kMissedMax * options_.beat) {
        end(fmt::format("nothing was heard for {} beats of {:.1f} s", kMissedMax,
                        base::to_seconds(options_.beat)),
            true);
      }
      return std::nullopt;
    }
    auto decoded = decode_worker_frame(incoming_, options_.bounds);
    if (!decoded.ok()) {
      refuse(decoded.error().message);
      return std::nullopt;
    }
    if (decoded->number != ++heard_) {
      refuse("a frame is missing, doubled or out of order");
      return std::nullopt;
    }
    last_heard_ = clock_.now();
    const bool was_open = is_open();
    if (auto message = take(std::move(decoded->message))) {
      base::halt_at("hear", name_of(*message));
      return message;
    }
    // The owner looks at the peer first.
    if (!was_open && is_open()) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<WorkerMessage> WorkerSession::take(WorkerMessage message) {
  if (auto* hello = std::get_if<wire::WorkerHello>(&message)) {
    hear_hello(std::move(*hello));
  } else if (const auto* ready = std::get_if<wire::WorkerReady>(&message)) {
    hear_ready(*ready);
  } else if (const auto* close = std::get_if<wire::WorkerClose>(&message)) {
    refused_ = !is_open();
    left_ = true;
    end("the peer says: " + close->why, false);
  } else if (!is_open()) {
    refuse(fmt::format("a {} before the greeting", name_of(message)));
  } else {
    return message;
  }
  return std::nullopt;
}

void WorkerSession::hear_hello(wire::WorkerHello hello) {
  if (std::exchange(heard_hello_, true)) {
    refuse("a second hello");
    return;
  }
  peer_ = std::move(hello);
  if (stage_ == Stage::kConnecting) {
    stage_ = Stage::kGreeting;
    send(options_.identity);
  }
  if (auto mismatch = pairing_mismatch(options_.identity, peer_)) {
    refuse(*std::move(mismatch));
    return;
  }
  send(wire::WorkerReady{pairing_proof(options_.key, options_.identity, peer_)});
}

void WorkerSession::hear_ready(const wire::WorkerReady& ready) {
  if (!heard_hello_ || is_open()) {
    refuse("a ready out of turn");
    return;
  }
  const auto expected = pairing_proof(options_.key, peer_, options_.identity);
  if (CRYPTO_memcmp(expected.data(), ready.proof.data(), expected.size()) != 0) {
    refuse("the two sides do not have the same key");
    return;
  }
  stage_ = Stage::kOpen;
  last_beat_ = clock_.now() - options_.beat;  // the first one is due at once
}

// --- the end

void WorkerSession::refuse(std::string why) {
  refused_ = !is_open();
  end(std::move(why), true);
}

void WorkerSession::close(std::string why) { end(std::move(why), true); }

void WorkerSession::end(std::string why, bool tell_peer) {
  if (is_closed()) return;
  if (tell_peer && connection_->state() == Connection::State::kOpen) {
    send(wire::WorkerClose{why});
  } else {
    waiting_.clear();
  }
  stage_ = Stage::kClosed;
  closed_at_ = clock_.now();
  why_ = std::move(why);
}

}  // namespace bulkhead::serve::roles
