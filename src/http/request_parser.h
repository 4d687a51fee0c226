// Bytes to one validated Request, without sockets: the parse-and-limits step of the server.
//
// Threads: a plain object. Invariants: the result does not depend on how the bytes are split;
// nothing beyond the limits is stored; whatever two servers could read differently (both
// Content-Length and Transfer-Encoding, repeated lengths, folded lines, unknown codings) is an
// error, so that a proxy in front of us and we always agree where a request ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "http/server.h"

namespace bulkhead::http {

struct RequestLimits {
  uint32_t header_bytes_max = 32u << 10;  // all header lines together
  uint64_t body_bytes_max = 32ull << 20;
  uint32_t target_bytes_max = 8u << 10;
  uint32_t header_count_max = 100;
};

// What to answer to a request that cannot be served; the connection is closed after it.
struct RequestError {
  int status = 400;
  std::string_view code;
  std::string message;
};

class RequestParser {
 public:
  enum class State { kHeader, kBody, kDone, kFailed };

  explicit RequestParser(RequestLimits limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Takes bytes up to the end of this request and returns how many; the caller presents the rest
  // again, followed by what arrives later. kDone and kFailed take nothing.
  size_t feed(std::string_view bytes);

  State state() const;
  // Some byte of this request (beyond empty lines) has been presented.
  bool started() const;
  // The client waits for "100 Continue" before it sends its body.
  bool waits_for_continue() const;
  uint64_t body_bytes_received() const;

  // From kBody on.
  bool is_head() const;
  bool http_1_0() const;
  bool keep_alive() const;

  const RequestError& error() const;  // kFailed
  Request take();                     // kDone; then call reset()
  void reset();

 private:
  class Impl;
  RequestLimits limits_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bulkhead::http
