#include "http/client_message.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <utility>

#include "http/message.h"

namespace bulkhead::http {
namespace {

namespace beast_http = boost::beast::http;
using BeastString = boost::beast::string_view;
using boost::system::error_code;

constexpr uint32_t kHeaderBytesMax = 64u << 10;
constexpr size_t kHeaderCountMax = 256;
constexpr uint64_t kBodyBytesMax = 1ull << 30;  // of a body that is kept whole
constexpr size_t kChunkLineBytesMax = 16u << 10;

}  // namespace

base::Result<std::string> request_text(const std::string& method, const std::string& target,
                                       const std::vector<Header>& headers, const std::string& body,
                                       const std::string& host) {
  for (const std::string_view text : {std::string_view(method), std::string_view(target)}) {
    if (text.empty() || text.find_first_of(" \r\n") != std::string_view::npos) {
      return base::invalid_argument("target", "a method or target with blanks cannot be sent");
    }
  }
  std::string text = method + " " + target + " HTTP/1.1\r\n";
  bool has_host = false;
  for (const Header& header : headers) {
    if ((header.name + header.value).find_first_of("\r\n") != std::string::npos) {
      return base::invalid_argument("headers", "a header with a line break cannot be sent");
    }
    has_host = has_host || equals_ignoring_case(header.name, "host");
    text += header.name + ": " + header.value + "\r\n";
  }
  if (!has_host) text += "Host: " + host + "\r\n";
  text += "Connection: close\r\n";
  if (!body.empty() || method == "POST" || method == "PUT") {
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  }
  text += "\r\n";
  text += body;
  return text;
}

class ResponseReader::Parser final : public beast_http::basic_parser<false> {
 public:
  Parser(bool head_request, const PieceSink& sink) : sink_(sink) {
    header_limit(kHeaderBytesMax);
    if (sink) {
      body_limit(boost::none);
    } else {
      body_limit(kBodyBytesMax);
    }
    eager(true);
    skip(head_request);
  }

  ClientResponse response_;
  bool stopped_ = false;  // the sink wants no more

 private:
  void on_request_impl(beast_http::verb, BeastString, BeastString, int, error_code&) override {}
  void on_response_impl(int status, BeastString, int, error_code&) override {
    response_.status = status;
  }
  void on_field_impl(beast_http::field, BeastString name, BeastString value,
                     error_code& ec) override {
    if (is_header_done()) return;  // a trailer
    header_bytes_ += name.size() + value.size();
    if (header_bytes_ > kHeaderBytesMax || response_.headers.size() >= kHeaderCountMax) {
      ec = beast_http::error::header_limit;
      return;
    }
    response_.headers.push_back(
        Header{std::string(name.data(), name.size()), std::string(value.data(), value.size())});
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(BeastString body, error_code&) override { return take(body); }
  void on_chunk_header_impl(std::uint64_t, BeastString, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, BeastString body, error_code&) override {
    return take(body);
  }
  void on_finish_impl(error_code&) override {}

  size_t take(BeastString body) {
    if (!sink_) {
      response_.body.append(body.data(), body.size());
    } else if (!stopped_ && !sink_({body.data(), body.size()})) {
      stopped_ = true;
    }
    return body.size();
  }

  const PieceSink& sink_;
  size_t header_bytes_ = 0;
};

ResponseReader::ResponseReader(std::string peer, bool head_request, PieceSink sink)
    : peer_(std::move(peer)), head_request_(head_request), sink_(std::move(sink)) {}

ResponseReader::~ResponseReader() = default;

bool ResponseReader::done() const { return parser_ && (parser_->is_done() || parser_->stopped_); }

base::Status ResponseReader::push(std::string_view bytes) {
  pending_.append(bytes);
  size_t used = 0;
  error_code ec;
  while (used < pending_.size() && !done()) {
    if (!parser_) parser_ = std::make_unique<Parser>(head_request_, sink_);
    used +=
        parser_->put(boost::asio::const_buffer(pending_.data() + used, pending_.size() - used), ec);
    if (ec) break;
    if (parser_->is_done() && parser_->response_.status / 100 == 1) parser_.reset();  // interim
  }
  pending_.erase(0, used);
  const bool more = !ec || ec == beast_http::error::need_more;
  if (!more || (!done() && pending_.size() > kHeaderBytesMax + kChunkLineBytesMax)) {
    return base::corrupt("the answer of " + peer_ + " is not valid HTTP: " + ec.message());
  }
  return {};
}

base::Status ResponseReader::end() {
  error_code ec = beast_http::error::partial_message;
  if (parser_ && parser_->got_some()) parser_->put_eof(ec);
  if (!ec) return {};
  return base::Error{
      base::ErrorCode::kIo, peer_ + " closed the connection before its answer was complete", {}};
}

ClientResponse ResponseReader::take() { return std::move(parser_->response_); }

}  // namespace bulkhead::http
