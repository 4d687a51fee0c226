// One client connection: reads requests, hands them over one at a time, sends the answers.
//
// Threads: the I/O thread only. Invariants: at most one read and one write are in progress; the
// read goes on while a handler works, so that a disconnect is noticed, and keeps what it reads (the
// next request of a pipelining client); a closed session leaves its host exactly once.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "http/exchange.h"
#include "http/request_parser.h"

namespace bulkhead::http {

class Session;

// What sessions share; outlives them. I/O thread only.
struct SessionHost {
  const ServerOptions& options;
  const Handler& handler;
  base::Logger& logger;
  std::shared_ptr<Mailbox> mailbox;
  uint64_t body_bytes_receiving = 0;  // of all sessions together
  bool draining = false;
  std::function<void(Session&)> on_closed;
};

class Session final : public ExchangeOwner, public std::enable_shared_from_this<Session> {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Session(SessionHost& host, boost::asio::ip::tcp::socket socket);

  void start();
  // Answers 503 at once, whatever the client asks.
  void reject();
  bool rejected() const { return rejected_; }
  // Closes when idle, else after the response in progress.
  void drain();
  // Closes now; a response in progress is lost.
  void abort();
  // Called a few times a second: timeouts, and disconnects that reading cannot show.
  void tick(Time now);

  void exchange_changed() override;

 private:
  enum class State {
    kReading,    // waiting for a request or in the middle of one
    kHandling,   // a handler has the request, or its response is being sent
    kFailing,    // sending an error of our own, the last thing on this connection
    kLingering,  // our side is shut; reading so that the client gets to see the answer
    kClosed,
  };

  void read_more();
  void on_read(boost::system::error_code ec, size_t bytes);
  void on_read_end(bool reset);
  void advance();
  bool account_body();
  void release_body();
  void dispatch();
  void pump_output();
  void write_some();
  void on_written(boost::system::error_code ec, size_t bytes);
  void response_sent();
  void await_request(std::chrono::seconds timeout);
  void fail(const RequestError& error);
  void on_timeout();
  void linger();
  void close(bool reset);
  void set_deadline(std::chrono::seconds from_now);
  bool peer_has_closed();

  SessionHost& host_;
  boost::asio::ip::tcp::socket socket_;
  std::string remote_;
  RequestParser parser_;
  State state_ = State::kReading;
  bool rejected_ = false;
  bool request_started_ = false;  // a first byte has come: the header deadline is set
  bool body_started_ = false;     // the body deadline is set
  bool read_pending_ = false;
  bool write_pending_ = false;
  bool read_ended_ = false;  // the client sends no more
  std::optional<Time> deadline_;
  uint64_t body_bytes_accounted_ = 0;
  std::shared_ptr<Exchange> exchange_;  // of kHandling
  std::string in_;                      // read, not yet parsed
  std::string out_;                     // being written; must not move while a write is pending
  std::string out_next_;                // an error of ours, after out_
  size_t out_sent_ = 0;
  std::array<char, 16u << 10> read_buffer_;
};

}  // namespace bulkhead::http
