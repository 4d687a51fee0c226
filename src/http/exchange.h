// One request's answer on its way from the threads that write it to the connection that sends it.
//
// Threads: writer calls from any thread, connection calls on the I/O thread; one mutex guards the
// state. Invariants: the phase only moves forward; the abort callback runs at most once, on the I/O
// thread, and never after a complete response; a stream whose unsent bytes have reached the backlog
// limit is cut off by the next write.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "http/mailbox.h"
#include "http/message.h"
#include "http/server.h"

namespace bulkhead::http {

enum class ExchangePhase {
  kUnanswered,
  kStreaming,
  kComplete,  // the whole response has been handed over
  kBroken,  // the writer gave up in mid-stream: send what there is, then close without an end mark
  kGone,    // the client left or was cut off; everything written is dropped
};

// The connection, as an exchange sees it.
class ExchangeOwner {
 public:
  virtual ~ExchangeOwner() = default;
  // On the I/O thread: there is output to take or the phase has changed.
  virtual void exchange_changed() = 0;
};

struct ExchangeOptions {
  bool head_request = false;
  bool http_1_0 = false;
  bool keep_alive = true;
  uint64_t backlog_bytes_max = 0;
};

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<Mailbox> mailbox, std::weak_ptr<ExchangeOwner> owner,
           ExchangeOptions options)
      : mailbox_(std::move(mailbox)), owner_(std::move(owner)), options_(options) {}

  // The writer's side, any thread.
  void send(Response response);
  void start_stream(Response head);
  bool write(std::string_view piece);
  void finish();
  void on_abort(std::function<void()> callback);
  bool too_slow() const;
  // The last reference to the writer is gone, or the handler threw: a 500, or a broken stream.
  void abandon();

  // The connection's side, I/O thread.
  // Appends what is to be sent next to `out`; returns the phase at that moment.
  ExchangePhase take_output(std::string& out);
  void output_sent(size_t bytes);
  // The client is gone: drops output and runs the abort callback if the response was not complete.
  void client_gone();
  // A write has made no progress for too long: what ends it is the client's slowness.
  void write_stalled();
  // This response is to be the last on its connection.
  void close_after();
  bool must_close() const;
  ExchangePhase phase() const;
  bool complete() const { return phase() == ExchangePhase::kComplete; }
  bool was_abandoned() const;
  // A broken body that the client could not tell from a whole one (no length, no chunks).
  bool needs_reset_when_broken() const { return options_.http_1_0; }

 private:
  void answer_locked(const Response& response);
  bool answerable_locked() const;
  void cut_off_locked();
  // Call without the lock.
  void notify();
  void deliver();

  const std::shared_ptr<Mailbox> mailbox_;
  const std::weak_ptr<ExchangeOwner> owner_;
  const ExchangeOptions options_;

  mutable std::mutex mutex_;
  ExchangePhase phase_ = ExchangePhase::kUnanswered;
  std::string pending_;           // framed bytes the connection has not taken
  uint64_t in_flight_bytes_ = 0;  // taken, not yet accepted by the kernel
  bool close_after_ = false;
  bool abandoned_ = false;  // calls that follow are ignored
  bool too_slow_ = false;
  std::function<void()> abort_callback_;
  bool notified_ = false;  // a delivery is on its way
};

// The handle a handler gets; forwards to the exchange and abandons it when dropped.
class ExchangeWriter final : public ResponseWriter {
 public:
  explicit ExchangeWriter(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~ExchangeWriter() override { exchange_->abandon(); }
  ExchangeWriter(const ExchangeWriter&) = delete;
  ExchangeWriter& operator=(const ExchangeWriter&) = delete;

  void send(Response response) override { exchange_->send(std::move(response)); }
  void start_stream(Response head) override { exchange_->start_stream(std::move(head)); }
  bool write(std::string piece) override { return exchange_->write(piece); }
  void finish() override { exchange_->finish(); }
  void on_abort(std::function<void()> callback) override {
    exchange_->on_abort(std::move(callback));
  }
  bool too_slow() const override { return exchange_->too_slow(); }

 private:
  const std::shared_ptr<Exchange> exchange_;
};

}  // namespace bulkhead::http
