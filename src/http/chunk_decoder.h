// Takes the framing off a chunked body (RFC 9112, section 7.1), byte by byte if need be.
//
// Threads: a plain object. Invariants: the result does not depend on how the bytes are split; lines
// end with CRLF and nothing else; extensions and trailers are skipped, never stored; framing may
// cost only so much more than it carries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bulkhead::http {

class ChunkDecoder {
 public:
  enum class State { kMore, kDone, kMalformed, kTooLarge };

  explicit ChunkDecoder(uint64_t body_bytes_max) : body_bytes_max_(body_bytes_max) {}

  // Appends decoded bytes to `body`; returns how many of `bytes` belong to this body.
  size_t feed(std::string_view bytes, std::string& body);
  State state() const { return state_; }

 private:
  enum class Place {
    kSizeStart,  // before the first digit of a chunk size
    kSize,
    kExtension,
    kSizeLineEnd,  // after the CR of a size line
    kData,
    kDataCr,
    kDataLf,
    kTrailerStart,  // at the start of a trailer line
    kTrailer,
    kTrailerLineEnd,
    kLastLf,
  };

  // What a byte of framing does; false when it has no business here.
  bool step(char c);
  bool step_size(char c);
  bool skip_to_line_end(char c, Place line_end);
  void end_size_line();

  const uint64_t body_bytes_max_;
  State state_ = State::kMore;
  Place place_ = Place::kSizeStart;
  uint64_t chunk_bytes_left_ = 0;
  uint64_t body_bytes_ = 0;  // of all chunks announced so far
  uint64_t framing_bytes_ = 0;
};

}  // namespace bulkhead::http
