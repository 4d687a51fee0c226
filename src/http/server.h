// HTTP/1.1 in and out: sockets, parsing, limits, timeouts, server-sent events. Knows no models.
//
// Threads: one I/O thread runs the server; a handler is called on it and must not block. A
// ResponseWriter may be used from any thread: calls are posted to the I/O thread in order.
// Invariants: every accepted request gets exactly one response; a stream that fails after its
// headers ends with what the writer sends last and a closed connection, never silently; what a slow
// reader has not taken is bounded, beyond that the connection is closed; requests over a limit get
// 4xx before their body is read.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/result.h"

namespace bulkhead::http {

struct Header {
  std::string name;
  std::string value;
};

struct Request {
  std::string method;           // "GET", "POST", ...
  std::string path;             // without query, percent-decoded; always starts with '/'
  std::string query;            // raw, without '?'
  std::vector<Header> headers;  // in the order of arrival
  std::string body;
  std::string remote_address;  // for logs only

  // First header of that name, ASCII case-insensitive; empty when absent.
  std::string_view header(std::string_view name) const;
  // How many headers of that name there are (duplicates of Authorization are an error upstream).
  size_t header_count(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<Header> headers;  // extra ones
  std::string body;
};

// The one answer to one request. Exactly one of: send(); or start_stream(), write()*, finish().
// Dropping the last reference without answering sends a 500.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  virtual void send(Response response) = 0;
  // Chunked body with these headers; used for server-sent events ("text/event-stream").
  virtual void start_stream(Response head) = 0;
  // One piece of the body, flushed at once. False when the client is gone or its backlog is full.
  virtual bool write(std::string piece) = 0;
  virtual void finish() = 0;

  // Called once, on the I/O thread, when the client disconnects or is cut off before finish();
  // called at once if that has happened already. Not called after a complete response. Hold the
  // writer weakly in it: a writer owned by its own callback is never dropped.
  virtual void on_abort(std::function<void()> callback) = 0;
  // True once the client was cut off because it did not read what it was sent.
  virtual bool too_slow() const { return false; }
};

using Handler = std::function<void(Request request, std::shared_ptr<ResponseWriter> writer)>;

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 30000;             // 0: any free port, see Server::port()
  std::string host_flag = "--host";  // what chooses the two, for errors
  std::string port_flag = "--port";
  uint64_t body_bytes_max = 32ull << 20;
  uint64_t body_bytes_total_max = 1ull << 30;    // bodies being received, all connections together
  uint32_t header_bytes_max = 32u << 10;         // all header lines together
  uint32_t connections_max = 1024;               // beyond: 503 and close
  uint64_t stream_backlog_bytes_max = 1u << 20;  // unsent bytes of one stream before it is cut off
  std::chrono::seconds header_timeout{30};       // from accept or first byte to end of headers
  std::chrono::seconds body_timeout{120};
  std::chrono::seconds write_timeout{60};  // a write that makes no progress for so long
  std::chrono::seconds idle_timeout{120};  // keep-alive without a request
};

class Server {
 public:
  virtual ~Server() = default;

  // Binds and listens; errors say which address and why (e.g. port in use, and by which flag to
  // choose another). The handler must outlive the server.
  static base::Result<std::unique_ptr<Server>> listen(ServerOptions options, Handler handler,
                                                      base::Logger& logger);

  virtual uint16_t port() const = 0;
  // Runs until stop(); call on the thread that is to be the I/O thread.
  virtual void run() = 0;
  // Any thread or a signal-safe wrapper: stop accepting, let responses in progress finish for at
  // most `grace`, then close everything and let run() return.
  virtual void stop(std::chrono::milliseconds grace) = 0;
  // Runs `task` on the I/O thread.
  virtual void post(std::function<void()> task) = 0;
  // Runs `task` on the I/O thread after `delay`; a pending timer does not keep run() alive.
  virtual void post_after(std::chrono::milliseconds delay, std::function<void()> task) = 0;
  virtual uint32_t open_connections() const = 0;
};

}  // namespace bulkhead::http
