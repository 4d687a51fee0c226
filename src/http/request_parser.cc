#include "http/request_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <limits>
#include <optional>

#include "http/chunk_decoder.h"
#include "http/message.h"
#include "http/target.h"

namespace bulkhead::http {
namespace {

namespace beast_http = boost::beast::http;
using BeastString = boost::beast::string_view;
using boost::system::error_code;

constexpr size_t kMethodBytesMax = 32;

std::string_view view(BeastString text) { return {text.data(), text.size()}; }

bool is_token_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

// A request line that ends with "HTTP/9.9": well formed, but not a version spoken here.
bool names_other_version(std::string_view line) {
  const size_t space = line.rfind(' ');
  if (space == std::string_view::npos) return false;
  const std::string_view word = line.substr(space + 1);
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return word.size() == 8 && word.starts_with("HTTP/") && digit(word[5]) && word[6] == '.' &&
         digit(word[7]) && word.substr(5) != "1.1" && word.substr(5) != "1.0";
}

}  // namespace

class RequestParser::Impl final : public beast_http::basic_parser<true> {
 public:
  explicit Impl(const RequestLimits& limits) : limits_(limits) {
    header_limit(std::numeric_limits<std::uint32_t>::max());  // counted here, over any split
    body_limit(limits.body_bytes_max);
  }

  size_t feed(std::string_view bytes) {
    size_t used = 0;
    if (state_ == State::kHeader) used = feed_header(bytes);
    if (state_ == State::kBody) used += feed_body(bytes.substr(used));
    return used;
  }

  State state_ = State::kHeader;
  bool started_ = false;
  bool expects_continue_ = false;
  bool http_1_0_ = false;
  Request request_;
  RequestError error_;

 private:
  size_t feed_header(std::string_view bytes);
  void parse_header(std::string_view head);
  bool within_header_limits(std::string_view head);
  void check_header();
  void check_host();
  void check_lengths();
  void check_encodings();
  size_t feed_body(std::string_view bytes);

  void fail(int status, std::string_view code, std::string message) {
    if (state_ == State::kFailed) return;
    state_ = State::kFailed;
    error_ = RequestError{status, code, std::move(message)};
  }
  void fail_bad(std::string message) { fail(400, "invalid_request", std::move(message)); }
  void fail_from_beast(error_code ec, std::string_view head);

  void on_request_impl(beast_http::verb, BeastString method, BeastString target, int version,
                       error_code& ec) override;
  void on_response_impl(int, BeastString, int, error_code&) override {}
  void on_field_impl(beast_http::field, BeastString name, BeastString value,
                     error_code& ec) override;
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  // Beast is shown nothing beyond the header.
  std::size_t on_body_impl(BeastString, error_code&) override { return 0; }
  void on_chunk_header_impl(std::uint64_t, BeastString, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, BeastString, error_code&) override { return 0; }
  void on_finish_impl(error_code&) override {}

  const RequestLimits& limits_;
  std::string head_;             // header bytes so far, when they came in more than one piece
  size_t head_searched_ = 0;     // of head_, known not to contain the end mark
  size_t empty_line_bytes_ = 0;  // of one CRLF before the request line, which RFC 9112 lets pass
  bool absolute_form_ = false;
  uint64_t body_bytes_left_ = 0;        // of a body with a declared length
  std::optional<ChunkDecoder> chunks_;  // of a chunked body
};

// --- header
// ---------------------------------------------------------------------------------------

size_t RequestParser::Impl::feed_header(std::string_view bytes) {
  size_t used = 0;
  while (!started_ && used < bytes.size() && empty_line_bytes_ < 2 &&
         bytes[used] == "\r\n"[empty_line_bytes_]) {
    ++empty_line_bytes_;
    ++used;
  }
  if (used == bytes.size()) return used;
  if (!started_) {
    started_ = true;
    if (!is_token_char(bytes[used]) || empty_line_bytes_ == 1) {
      fail_bad("the bytes received are not an HTTP/1.1 request (is the client speaking TLS?)");
      return used;
    }
  }
  const std::string_view rest = bytes.substr(used);
  if (head_.empty()) {
    const size_t end = rest.find("\r\n\r\n");
    if (end != std::string_view::npos) {
      parse_header(rest.substr(0, end + 4));
      return used + end + 4;
    }
  }
  const size_t before = head_.size();
  head_ += rest;
  const size_t end = head_.find("\r\n\r\n", head_searched_);
  if (end == std::string::npos) {
    head_searched_ = head_.size() < 3 ? 0 : head_.size() - 3;
    within_header_limits(head_);
    return bytes.size();
  }
  head_.resize(end + 4);
  parse_header(head_);
  head_.clear();
  return used + (end + 4 - before);
}

bool RequestParser::Impl::within_header_limits(std::string_view head) {
  const size_t line_max = kMethodBytesMax + limits_.target_bytes_max + sizeof("  HTTP/1.1\r\n") - 1;
  const size_t line_end = head.substr(0, line_max).find("\r\n");
  if (line_end == std::string_view::npos) {
    if (head.size() < line_max) return true;
    fail(414, "uri_too_long",
         "the request line is longer than " + std::to_string(line_max) + " bytes");
    return false;
  }
  // The ends of the request line and of the whole header do not count as header lines.
  if (head.size() - line_end > size_t{limits_.header_bytes_max} + 4) {
    fail(431, "header_too_large",
         "the header lines are longer than " + std::to_string(limits_.header_bytes_max) +
             " bytes together");
    return false;
  }
  return true;
}

void RequestParser::Impl::parse_header(std::string_view head) {
  if (!within_header_limits(head)) return;
  error_code ec;
  put(boost::asio::const_buffer(head.data(), head.size()), ec);
  if (state_ == State::kFailed) return;
  if (ec && ec != beast_http::error::need_more) return fail_from_beast(ec, head);
  if (!is_header_done()) return fail_bad("the header is malformed");
  check_header();
  if (state_ == State::kFailed) return;
  state_ = is_done() ? State::kDone : State::kBody;
  if (state_ == State::kDone) return;
  if (chunked()) {
    chunks_.emplace(limits_.body_bytes_max);
  } else {
    body_bytes_left_ = content_length().value_or(0);
    // The declared length is the client's word: reserve no more than a small body's worth.
    request_.body.reserve(std::min<uint64_t>(body_bytes_left_, 64u << 10));
  }
}

void RequestParser::Impl::on_request_impl(beast_http::verb, BeastString method, BeastString target,
                                          int version, error_code& ec) {
  http_1_0_ = version == 10;
  request_.method = std::string(view(method));
  if (view(method).size() > kMethodBytesMax) fail_bad("the method is too long");
  if (view(target).size() > limits_.target_bytes_max) {
    fail(
        414, "uri_too_long",
        "the request target is longer than " + std::to_string(limits_.target_bytes_max) + " bytes");
  }
  auto parsed = http::parse_target(view(target));
  if (!parsed.ok()) {
    fail_bad(parsed.error().message);
  } else {
    request_.path = std::move(parsed->path);
    request_.query = std::move(parsed->query);
    absolute_form_ = !parsed->authority.empty();
  }
  if (state_ == State::kFailed) ec = beast_http::error::bad_target;
}

void RequestParser::Impl::on_field_impl(beast_http::field, BeastString name, BeastString value,
                                        error_code& ec) {
  const char* name_end = name.data() + name.size();
  // A value on the same line begins within a few blanks of its name; a folded one does not, or was
  // joined elsewhere in memory.
  const bool beside =
      value.empty() || (!std::less<>()(value.data(), name_end) &&
                        view({name_end, static_cast<size_t>(value.data() - name_end)}).find('\r') ==
                            std::string_view::npos);
  if (!beside) {
    fail_bad("a header value is folded over several lines");
  } else if (request_.headers.size() >= limits_.header_count_max) {
    fail(431, "header_too_large",
         "there are more than " + std::to_string(limits_.header_count_max) + " header lines");
  } else {
    request_.headers.push_back(Header{std::string(view(name)), std::string(view(value))});
  }
  if (state_ == State::kFailed) ec = beast_http::error::bad_obs_fold;
}

void RequestParser::Impl::check_header() {
  check_host();
  check_lengths();
  check_encodings();
  if (!http_1_0_ && request_.header_count("expect") > 0) {
    expects_continue_ = equals_ignoring_case(request_.header("expect"), "100-continue");
    if (!expects_continue_ || request_.header_count("expect") > 1) {
      fail(417, "expectation_failed", "only 'Expect: 100-continue' is understood");
    }
  }
}

void RequestParser::Impl::check_host() {
  const size_t hosts = request_.header_count("host");
  if (hosts > 1) fail_bad("there is more than one Host header");
  if (hosts == 0 && !http_1_0_) fail_bad("the Host header is missing");
}

void RequestParser::Impl::check_lengths() {
  const size_t lengths = request_.header_count("content-length");
  const size_t codings = request_.header_count("transfer-encoding");
  if (lengths > 1 || request_.header("content-length").find(',') != std::string_view::npos) {
    return fail_bad("there is more than one Content-Length");
  }
  if (lengths > 0 && codings > 0) {
    return fail_bad("Content-Length and Transfer-Encoding exclude each other");
  }
  if (codings == 0) return;
  if (http_1_0_) return fail_bad("HTTP/1.0 has no Transfer-Encoding");
  const std::string_view coding = request_.header("transfer-encoding");
  if (codings > 1 || !equals_ignoring_case(coding, "chunked")) {
    fail(501, "unsupported_transfer_encoding",
         "only the transfer encoding 'chunked' is understood");
  }
}

void RequestParser::Impl::check_encodings() {
  for (const Header& header : request_.headers) {
    if (equals_ignoring_case(header.name, "content-encoding") && !header.value.empty() &&
        !equals_ignoring_case(header.value, "identity")) {
      fail(415, "unsupported_content_encoding", "compressed request bodies are not accepted");
    }
  }
}

// --- body
// -----------------------------------------------------------------------------------------

size_t RequestParser::Impl::feed_body(std::string_view bytes) {
  if (!chunks_) {
    const std::string_view piece = bytes.substr(0, body_bytes_left_);
    request_.body += piece;
    body_bytes_left_ -= piece.size();
    if (body_bytes_left_ == 0) state_ = State::kDone;
    return piece.size();
  }
  const size_t used = chunks_->feed(bytes, request_.body);
  switch (chunks_->state()) {
    case ChunkDecoder::State::kMore:
      break;
    case ChunkDecoder::State::kDone:
      state_ = State::kDone;
      break;
    case ChunkDecoder::State::kMalformed:
      fail_bad("the chunks of the body are malformed");
      break;
    case ChunkDecoder::State::kTooLarge:
      fail_from_beast(beast_http::error::body_limit, {});
      break;
  }
  return used;
}

void RequestParser::Impl::fail_from_beast(error_code ec, std::string_view head) {
  using beast_http::error;
  if (ec == error::body_limit) {
    return fail(
        413, "request_too_large",
        "the request body is larger than " + std::to_string(limits_.body_bytes_max) + " bytes");
  }
  if (ec == error::bad_version && names_other_version(head.substr(0, head.find("\r\n")))) {
    return fail(505, "http_version_not_supported", "only HTTP/1.1 and HTTP/1.0 are spoken here");
  }
  fail_bad("the request is malformed: " + ec.message());
}

// --- RequestParser
// --------------------------------------------------------------------------------

RequestParser::RequestParser(RequestLimits limits)
    : limits_(limits), impl_(std::make_unique<Impl>(limits_)) {}
RequestParser::~RequestParser() = default;

size_t RequestParser::feed(std::string_view bytes) { return impl_->feed(bytes); }
RequestParser::State RequestParser::state() const { return impl_->state_; }
bool RequestParser::started() const { return impl_->started_; }
bool RequestParser::waits_for_continue() const {
  return impl_->state_ == State::kBody && impl_->expects_continue_ && impl_->request_.body.empty();
}
uint64_t RequestParser::body_bytes_received() const { return impl_->request_.body.size(); }
bool RequestParser::is_head() const { return impl_->request_.method == "HEAD"; }
bool RequestParser::http_1_0() const { return impl_->http_1_0_; }
bool RequestParser::keep_alive() const { return impl_->is_header_done() && impl_->keep_alive(); }
const RequestError& RequestParser::error() const { return impl_->error_; }
Request RequestParser::take() { return std::move(impl_->request_); }
void RequestParser::reset() { impl_ = std::make_unique<Impl>(limits_); }

}  // namespace bulkhead::http
