// The text of responses: status lines, heads, error bodies; what both ends of a socket share.
//
// Threads: pure functions. Invariant: nothing in a Response can end its own head early: control
// characters in header names and values leave as spaces.
#pragma once

#include <string>
#include <string_view>

#include "http/server.h"

namespace bulkhead::http {

bool equals_ignoring_case(std::string_view a, std::string_view b);

// "Not Found"; "Unknown" for a code without a name.
std::string_view reason_phrase(int status);

// {"error":{"message","type","param":null,"code"}} with the type that belongs to `status`.
Response error_response(int status, std::string_view code, std::string_view message);

// How the end of a body is marked on the wire.
enum class Framing { kContentLength, kChunked, kUntilClose };

struct HeadOptions {
  Framing framing = Framing::kContentLength;
  bool http_1_0 = false;
  bool close = false;  // the connection ends after this response
};

// Status line and header lines including the empty line that ends them.
void append_head(std::string& out, const Response& response, HeadOptions options);

// One chunk of a chunked body; `piece` must not be empty (an empty chunk ends the body).
void append_chunk(std::string& out, std::string_view piece);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// True for statuses that never carry a body (1xx, 204, 304).
bool status_has_no_body(int status);

}  // namespace bulkhead::http
