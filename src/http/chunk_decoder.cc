#include "http/chunk_decoder.h"

#include <algorithm>

namespace bulkhead::http {
namespace {

// Six bytes around every single byte is the honest worst case; beyond that it is an attack on us.
constexpr uint64_t kFramingBytesFree = 16u << 10;
constexpr uint64_t kFramingBytesPerByte = 8;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

}  // namespace

size_t ChunkDecoder::feed(std::string_view bytes, std::string& body) {
  size_t used = 0;
  while (state_ == State::kMore && used < bytes.size()) {
    if (place_ == Place::kData) {
      const std::string_view piece =
          bytes.substr(used, std::min<uint64_t>(chunk_bytes_left_, bytes.size() - used));
      body += piece;
      used += piece.size();
      chunk_bytes_left_ -= piece.size();
      if (chunk_bytes_left_ == 0) place_ = Place::kDataCr;
      continue;
    }
    ++framing_bytes_;
    const bool sound = step(bytes[used++]) &&
                       framing_bytes_ <= kFramingBytesFree + kFramingBytesPerByte * body_bytes_;
    if (!sound && state_ == State::kMore) state_ = State::kMalformed;
  }
  return used;
}

bool ChunkDecoder::step(char c) {
  switch (place_) {
    case Place::kSizeStart:
      if (hex_digit(c) < 0) return false;
      place_ = Place::kSize;
      return step_size(c);
    case Place::kSize:
      return step_size(c);
    case Place::kExtension:
      return skip_to_line_end(c, Place::kSizeLineEnd);
    case Place::kSizeLineEnd:
      if (c != '\n') return false;
      end_size_line();
      return true;
    case Place::kData:
      return false;  // data is not framing
    case Place::kDataCr:
      place_ = Place::kDataLf;
      return c == '\r';
    case Place::kDataLf:
      place_ = Place::kSizeStart;
      return c == '\n';
    case Place::kTrailerStart:
      if (c == '\r') {
        place_ = Place::kLastLf;
        return true;
      }
      place_ = Place::kTrailer;
      return !is_control(c);
    case Place::kTrailer:
      return skip_to_line_end(c, Place::kTrailerLineEnd);
    case Place::kTrailerLineEnd:
      place_ = Place::kTrailerStart;
      return c == '\n';
    case Place::kLastLf:
      if (c == '\n') state_ = State::kDone;
      return c == '\n';
  }
  return false;
}

bool ChunkDecoder::step_size(char c) {
  const int digit = hex_digit(c);
  if (digit >= 0) {
    if (chunk_bytes_left_ >> 60 != 0) return false;  // sixteen digits hold every size
    chunk_bytes_left_ = chunk_bytes_left_ * 16 + static_cast<uint64_t>(digit);
    return true;
  }
  if (c == '\r') {
    place_ = Place::kSizeLineEnd;
    return true;
  }
  place_ = Place::kExtension;
  return c == ';';
}

bool ChunkDecoder::skip_to_line_end(char c, Place line_end) {
  if (c == '\r') {
    place_ = line_end;
    return true;
  }
  return !is_control(c);
}

void ChunkDecoder::end_size_line() {
  if (chunk_bytes_left_ == 0) {
    place_ = Place::kTrailerStart;
  } else if (chunk_bytes_left_ > body_bytes_max_ - body_bytes_) {
    state_ = State::kTooLarge;
  } else {
    body_bytes_ += chunk_bytes_left_;
    place_ = Place::kData;
  }
}

}  // namespace bulkhead::http
