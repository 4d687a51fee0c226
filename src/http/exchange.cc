#include "http/exchange.h"

#include <utility>

#include "base/check.h"

namespace bulkhead::http {

bool Exchange::answerable_locked() const {
  if (abandoned_ || phase_ == ExchangePhase::kGone) return false;
  BH_CHECK(phase_ == ExchangePhase::kUnanswered, "a request was answered twice");
  return true;
}

void Exchange::answer_locked(const Response& response) {
  HeadOptions head;
  head.http_1_0 = options_.http_1_0;
  head.close = close_after_ || !options_.keep_alive;
  close_after_ = head.close;
  append_head(pending_, response, head);
  if (!options_.head_request && !status_has_no_body(response.status)) pending_ += response.body;
  phase_ = ExchangePhase::kComplete;
}

void Exchange::send(Response response) {
  std::function<void()> released;  // may own things whose destructors call back
  {
    const std::lock_guard lock(mutex_);
    if (!answerable_locked()) return;
    answer_locked(response);
    released = std::exchange(abort_callback_, nullptr);
  }
  notify();
}

void Exchange::start_stream(Response head) {
  {
    const std::lock_guard lock(mutex_);
    if (!answerable_locked()) return;
    HeadOptions options;
    options.framing = options_.http_1_0 ? Framing::kUntilClose : Framing::kChunked;
    options.http_1_0 = options_.http_1_0;
    options.close = close_after_ || !options_.keep_alive || options_.http_1_0;
    close_after_ = options.close;
    append_head(pending_, head, options);
    phase_ = ExchangePhase::kStreaming;
  }
  notify();
}

bool Exchange::write(std::string_view piece) {
  bool accepted = true;
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_ || phase_ == ExchangePhase::kGone) return false;
    BH_CHECK(phase_ == ExchangePhase::kStreaming, "write() outside a stream");
    if (piece.empty() || options_.head_request) return true;
    // Compared before the piece is added, so that one large piece does not cut off a client that
    // keeps up.
    if (pending_.size() + in_flight_bytes_ >= options_.backlog_bytes_max) {
      cut_off_locked();
      too_slow_ = true;
      accepted = false;
    } else if (options_.http_1_0) {
      pending_ += piece;
    } else {
      append_chunk(pending_, piece);
    }
  }
  notify();
  return accepted;
}

void Exchange::finish() {
  std::function<void()> released;
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_ || phase_ == ExchangePhase::kGone) return;
    BH_CHECK(phase_ == ExchangePhase::kStreaming, "finish() outside a stream");
    if (!options_.http_1_0 && !options_.head_request) pending_ += kLastChunk;
    phase_ = ExchangePhase::kComplete;
    released = std::exchange(abort_callback_, nullptr);
  }
  notify();
}

void Exchange::on_abort(std::function<void()> callback) {
  bool call = false;
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == ExchangePhase::kGone) {
      call = true;
    } else if (phase_ != ExchangePhase::kComplete && !abandoned_) {
      abort_callback_ = std::move(callback);
    }
  }
  if (!call) return;
  if (mailbox_->on_io_thread() || !mailbox_->post(callback)) callback();
}

void Exchange::abandon() {
  std::function<void()> released;
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == ExchangePhase::kUnanswered) {
      answer_locked(error_response(500, "internal_error", "The server failed on this request."));
    } else if (phase_ == ExchangePhase::kStreaming) {
      phase_ = ExchangePhase::kBroken;
    } else {
      return;
    }
    abandoned_ = true;
    released = std::exchange(abort_callback_, nullptr);
  }
  notify();
}

void Exchange::cut_off_locked() {
  phase_ = ExchangePhase::kGone;
  pending_.clear();
  pending_.shrink_to_fit();
}

void Exchange::notify() {
  {
    const std::lock_guard lock(mutex_);
    if (notified_) return;
    notified_ = true;
  }
  mailbox_->post([self = shared_from_this()] { self->deliver(); });
}

void Exchange::deliver() {
  {
    const std::lock_guard lock(mutex_);
    notified_ = false;
  }
  if (const auto owner = owner_.lock()) owner->exchange_changed();
}

ExchangePhase Exchange::take_output(std::string& out) {
  const std::lock_guard lock(mutex_);
  in_flight_bytes_ += pending_.size();
  if (out.empty()) {
    out.swap(pending_);
  } else {
    out += pending_;
    pending_.clear();
  }
  return phase_;
}

void Exchange::output_sent(size_t bytes) {
  const std::lock_guard lock(mutex_);
  in_flight_bytes_ -= bytes < in_flight_bytes_ ? bytes : in_flight_bytes_;
}

void Exchange::client_gone() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == ExchangePhase::kUnanswered || phase_ == ExchangePhase::kStreaming) {
      cut_off_locked();
    }
    callback = std::exchange(abort_callback_, nullptr);
  }
  if (callback) mailbox_->run_contained(callback, "an abort callback failed");
}

bool Exchange::too_slow() const {
  const std::lock_guard lock(mutex_);
  return too_slow_;
}

void Exchange::write_stalled() {
  const std::lock_guard lock(mutex_);
  if (phase_ == ExchangePhase::kStreaming) too_slow_ = true;
}

void Exchange::close_after() {
  const std::lock_guard lock(mutex_);
  close_after_ = true;
}

bool Exchange::must_close() const {
  const std::lock_guard lock(mutex_);
  return close_after_ || !options_.keep_alive;
}

ExchangePhase Exchange::phase() const {
  const std::lock_guard lock(mutex_);
  return phase_;
}

bool Exchange::was_abandoned() const {
  const std::lock_guard lock(mutex_);
  return abandoned_;
}

}  // namespace bulkhead::http
