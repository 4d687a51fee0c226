#include "http/session.h"

#include <poll.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <exception>
#include <utility>

#include "http/message.h"

namespace bulkhead::http {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

// What a client may send ahead of its answers before we stop reading.
constexpr size_t kPipelineBytesMax = 64u << 10;
// How long a client may take to notice that we are done with it. Closing at once, with bytes of its
// request unread, would make the kernel send a reset that can overtake our last answer.
constexpr std::chrono::seconds kLingerTime{2};

RequestLimits limits_of(const ServerOptions& options) {
  RequestLimits limits;
  limits.header_bytes_max = options.header_bytes_max;
  limits.body_bytes_max = options.body_bytes_max;
  return limits;
}

}  // namespace

Session::Session(SessionHost& host, tcp::socket socket)
    : host_(host), socket_(std::move(socket)), parser_(limits_of(host.options)) {
  error_code ec;
  const tcp::endpoint remote = socket_.remote_endpoint(ec);
  if (!ec) remote_ = remote.address().to_string() + ":" + std::to_string(remote.port());
}

void Session::start() {
  await_request(host_.options.header_timeout);
  read_more();
}

void Session::reject() {
  rejected_ = true;
  fail(RequestError{503, "too_many_connections",
                    "The server has as many connections as it may have. Try again later."});
  read_more();
}

void Session::drain() {
  if (state_ == State::kReading) {
    close(false);
  } else if (state_ == State::kHandling) {
    exchange_->close_after();
  }
}

void Session::abort() { close(true); }

void Session::set_deadline(std::chrono::seconds from_now) {
  deadline_ = std::chrono::steady_clock::now() + from_now;
}

void Session::await_request(std::chrono::seconds timeout) {
  state_ = State::kReading;
  request_started_ = false;
  body_started_ = false;
  set_deadline(timeout);
}

// --- reading
// --------------------------------------------------------------------------------------

void Session::read_more() {
  if (read_pending_ || read_ended_ || state_ == State::kClosed) return;
  if (state_ == State::kHandling && in_.size() >= kPipelineBytesMax) return;
  read_pending_ = true;
  socket_.async_read_some(
      boost::asio::buffer(read_buffer_),
      [self = shared_from_this()](error_code ec, size_t bytes) { self->on_read(ec, bytes); });
}

void Session::on_read(error_code ec, size_t bytes) {
  read_pending_ = false;
  if (state_ == State::kClosed) return;
  if (ec) return on_read_end(ec != boost::asio::error::eof);
  if (state_ == State::kReading || state_ == State::kHandling) {
    in_.append(read_buffer_.data(), bytes);
    advance();
  }
  read_more();
}

// A client that shuts its sending side has left: that is how every HTTP client library hangs up.
// Only an answer that is complete already is still worth sending.
void Session::on_read_end(bool reset) {
  read_ended_ = true;
  if (reset || state_ == State::kReading || state_ == State::kLingering) return close(reset);
  if (state_ == State::kHandling && !exchange_->complete()) close(true);
}

void Session::advance() {
  if (state_ != State::kReading || in_.empty()) return;
  in_.erase(0, parser_.feed(in_));
  if (parser_.started() && !request_started_) {
    request_started_ = true;
    set_deadline(host_.options.header_timeout);
  }
  switch (parser_.state()) {
    case RequestParser::State::kHeader:
      return;
    case RequestParser::State::kFailed:
      return fail(parser_.error());
    case RequestParser::State::kDone:
      if (account_body()) dispatch();
      return;
    case RequestParser::State::kBody:
      if (!account_body()) return;
      if (body_started_) return;
      body_started_ = true;
      set_deadline(host_.options.body_timeout);
      if (parser_.waits_for_continue() && !write_pending_) {
        out_ = "HTTP/1.1 100 Continue\r\n\r\n";
        write_some();
      }
      return;
  }
}

bool Session::account_body() {
  const uint64_t now = parser_.body_bytes_received();
  host_.body_bytes_receiving += now - body_bytes_accounted_;
  body_bytes_accounted_ = now;
  if (host_.body_bytes_receiving <= host_.options.body_bytes_total_max) return true;
  fail(RequestError{503, "server_overloaded",
                    "The server is receiving as many request bytes as it can hold. Try again "
                    "later."});
  return false;
}

void Session::release_body() {
  host_.body_bytes_receiving -= body_bytes_accounted_;
  body_bytes_accounted_ = 0;
}

void Session::dispatch() {
  release_body();
  deadline_.reset();
  state_ = State::kHandling;
  ExchangeOptions options;
  options.head_request = parser_.is_head();
  options.http_1_0 = parser_.http_1_0();
  options.keep_alive = parser_.keep_alive() && !host_.draining;
  options.backlog_bytes_max = host_.options.stream_backlog_bytes_max;
  const auto exchange = std::make_shared<Exchange>(host_.mailbox, weak_from_this(), options);
  exchange_ = exchange;
  Request request = parser_.take();
  request.remote_address = remote_;
  parser_.reset();
  try {
    host_.handler(std::move(request), std::make_shared<ExchangeWriter>(exchange));
  } catch (const std::exception& e) {
    host_.logger.error("a request handler failed", {{"reason", std::string(e.what())}});
    exchange->abandon();
  } catch (...) {
    host_.logger.error("a request handler failed");
    exchange->abandon();
  }
}

// --- writing
// --------------------------------------------------------------------------------------

void Session::exchange_changed() {
  if (state_ == State::kHandling) pump_output();
}

void Session::pump_output() {
  if (exchange_->phase() == ExchangePhase::kGone) {
    host_.logger.info("a client that reads too slowly was cut off", {{"remote", remote_}});
    return close(true);
  }
  if (write_pending_) return;
  const ExchangePhase phase = exchange_->take_output(out_);
  if (!out_.empty()) return write_some();
  if (phase == ExchangePhase::kComplete) response_sent();
  if (phase == ExchangePhase::kBroken) {
    if (exchange_->needs_reset_when_broken()) return close(true);
    exchange_.reset();
    linger();
  }
}

void Session::write_some() {
  write_pending_ = true;
  if (state_ != State::kReading) set_deadline(host_.options.write_timeout);
  socket_.async_write_some(
      boost::asio::buffer(out_.data() + out_sent_, out_.size() - out_sent_),
      [self = shared_from_this()](error_code ec, size_t bytes) { self->on_written(ec, bytes); });
}

void Session::on_written(error_code ec, size_t bytes) {
  write_pending_ = false;
  if (state_ == State::kClosed) return;
  if (ec) return close(true);
  if (state_ == State::kHandling) exchange_->output_sent(bytes);
  out_sent_ += bytes;
  if (out_sent_ < out_.size()) return write_some();
  out_.clear();
  out_sent_ = 0;
  if (state_ == State::kHandling) {
    deadline_.reset();
    pump_output();
  } else if (state_ == State::kFailing) {
    out_.swap(out_next_);
    if (!out_.empty()) return write_some();
    linger();
  }
}

void Session::response_sent() {
  if (exchange_->was_abandoned()) {
    host_.logger.error("a request was dropped without an answer; the client got a 500");
  }
  const bool last = exchange_->must_close() || host_.draining;
  exchange_.reset();
  if (last) return linger();
  await_request(host_.options.idle_timeout);
  advance();
  if (state_ == State::kReading && read_ended_) return close(false);
  read_more();
}

void Session::fail(const RequestError& error) {
  release_body();
  state_ = State::kFailing;
  Response response = error_response(error.status, error.code, error.message);
  HeadOptions options;
  options.close = true;
  append_head(out_next_, response, options);
  if (!parser_.is_head()) out_next_ += response.body;
  in_.clear();
  if (write_pending_) return;  // "100 Continue" is on its way
  out_.swap(out_next_);
  write_some();
}

// --- ends
// -----------------------------------------------------------------------------------------

void Session::linger() {
  if (read_ended_) return close(false);
  state_ = State::kLingering;
  in_.clear();
  set_deadline(kLingerTime);
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  read_more();
}

void Session::tick(Time now) {
  if (deadline_ && now >= *deadline_) return on_timeout();
  if (state_ == State::kHandling && !read_pending_ && !read_ended_ && peer_has_closed()) {
    on_read_end(false);
  }
}

// Reading has stopped at the pipeline limit, so the end of the stream is behind unread bytes.
bool Session::peer_has_closed() {
  pollfd entry{socket_.native_handle(), POLLRDHUP, 0};
  return poll(&entry, 1, 0) == 1 && (entry.revents & (POLLRDHUP | POLLERR | POLLHUP)) != 0;
}

void Session::on_timeout() {
  deadline_.reset();
  if (state_ == State::kReading && request_started_) {
    const bool in_body = body_started_;
    fail(RequestError{408, "request_timeout",
                      in_body ? "the request body did not arrive in time"
                              : "the request header did not arrive in time"});
    return;
  }
  if (state_ == State::kHandling) exchange_->write_stalled();
  close(state_ == State::kHandling);
}

void Session::close(bool reset) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  deadline_.reset();
  release_body();
  error_code ignored;
  // A reset drops what the kernel still holds for this client, and tells it that the end is not
  // one.
  if (reset) socket_.set_option(boost::asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
  const auto self = shared_from_this();
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->client_gone();
  host_.on_closed(*this);
}

}  // namespace bulkhead::http
