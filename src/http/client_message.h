// What both clients write and read: one request as text, one response out of bytes.
//
// Threads: plain values, one client at a time. Invariants: a request that two servers could read
// differently is not written; header and body of a response are bounded, a body that goes to a sink
// is not kept.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "http/client.h"

namespace bulkhead::http {

// Takes one piece of a body as it arrives; false when no more is wanted.
using PieceSink = std::function<bool(std::string_view)>;

// With "Connection: close" and, where it is missing, "Host: `host`". Errors: kInvalidArgument for
// blanks or line breaks where they would start something else.
base::Result<std::string> request_text(const std::string& method, const std::string& target,
                                       const std::vector<Header>& headers, const std::string& body,
                                       const std::string& host);

class ResponseReader {
 public:
  // `peer` is the server's name in messages. With an empty sink the body is kept.
  ResponseReader(std::string peer, bool head_request, PieceSink sink);
  ~ResponseReader();
  ResponseReader(const ResponseReader&) = delete;
  ResponseReader& operator=(const ResponseReader&) = delete;

  // Errors: kCorruptData when this is no HTTP response.
  base::Status push(std::string_view bytes);
  // The connection was closed. Errors: kIo when the response is not complete.
  base::Status end();
  // Complete, or the sink wants no more.
  bool done() const;
  // After done(): status, headers and the body that was kept.
  ClientResponse take();

 private:
  class Parser;

  const std::string peer_;
  const bool head_request_;
  const PieceSink sink_;
  std::string pending_;  // bytes that the parser has not used yet
  std::unique_ptr<Parser> parser_;
};

}  // namespace bulkhead::http
