#include "http/client.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "http/message.h"

namespace bulkhead::http {
namespace {

namespace beast_http = boost::beast::http;
using BeastString = boost::beast::string_view;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using PieceSink = std::function<bool(std::string_view)>;

constexpr uint32_t kHeaderBytesMax = 64u << 10;
constexpr size_t kHeaderCountMax = 256;
constexpr uint64_t kBodyBytesMax = 1ull << 30;  // of a body that is kept whole
constexpr size_t kChunkLineBytesMax = 16u << 10;

base::Error io_error(std::string message) { return {base::ErrorCode::kIo, std::move(message), {}}; }
std::string errno_text(int code) { return std::generic_category().message(code); }

class ResponseReader final : public beast_http::basic_parser<false> {
 public:
  ResponseReader(bool head_request, const PieceSink& sink) : sink_(sink) {
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

// One connection for one exchange; every wait ends at the deadline.
class Connection {
 public:
  Connection(std::string name, Clock::time_point deadline)
      : name_(std::move(name)), deadline_(deadline) {}
  ~Connection() {
    if (fd_ >= 0) ::close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  base::Status open(const std::string& host, uint16_t port);
  base::Result<ClientResponse> exchange(std::string request, bool head_request,
                                        const PieceSink& sink);

 private:
  base::Status connect_to(const addrinfo& address);
  // Waits for any of `events` and returns those that came.
  base::Result<short> wait(short events);
  void send_some(std::string_view& unsent);
  base::Result<size_t> receive();
  base::Status parse(bool head_request, const PieceSink& sink);
  bool done() const { return reader_ && (reader_->is_done() || reader_->stopped_); }

  std::string name_;
  Clock::time_point deadline_;
  int fd_ = -1;
  std::string in_;
  std::unique_ptr<ResponseReader> reader_;
  std::array<char, 64u << 10> buffer_;
};

base::Status Connection::open(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) return io_error("cannot resolve " + host + ": " + gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  base::Status status = io_error("cannot resolve " + host);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    status = connect_to(*address);
    if (status.ok()) return status;
  }
  return status;
}

base::Status Connection::connect_to(const addrinfo& address) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
               address.ai_protocol);
  if (fd_ < 0) return io_error("cannot open a socket: " + errno_text(errno));
  if (connect(fd_, address.ai_addr, address.ai_addrlen) == 0) return {};
  if (errno != EINPROGRESS) {
    return io_error("cannot connect to " + name_ + ": " + errno_text(errno));
  }
  BH_TRY(wait(POLLOUT));
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return io_error("cannot connect to " + name_ + ": " + errno_text(error));
  return {};
}

base::Result<short> Connection::wait(short events) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    if (left <= 0) return io_error("no complete answer from " + name_ + " in time");
    pollfd entry{fd_, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (ready > 0) return entry.revents;
    if (ready < 0 && errno != EINTR) return io_error("poll: " + errno_text(errno));
  }
}

// An error here is not the end: the server may have answered before it stopped listening.
void Connection::send_some(std::string_view& unsent) {
  const ssize_t sent = ::send(fd_, unsent.data(), unsent.size(), MSG_NOSIGNAL);
  if (sent >= 0) {
    unsent.remove_prefix(static_cast<size_t>(sent));
  } else if (errno != EAGAIN && errno != EINTR) {
    unsent = {};
  }
}

base::Result<size_t> Connection::receive() {
  for (;;) {
    const ssize_t bytes = recv(fd_, buffer_.data(), buffer_.size(), 0);
    if (bytes >= 0) return static_cast<size_t>(bytes);
    if (errno == EAGAIN) {
      BH_TRY(wait(POLLIN));
    } else if (errno != EINTR) {
      return io_error("the connection to " + name_ + " broke: " + errno_text(errno));
    }
  }
}

base::Status Connection::parse(bool head_request, const PieceSink& sink) {
  size_t used = 0;
  error_code ec;
  while (used < in_.size() && !done()) {
    if (!reader_) reader_ = std::make_unique<ResponseReader>(head_request, sink);
    used += reader_->put(boost::asio::const_buffer(in_.data() + used, in_.size() - used), ec);
    if (ec) break;
    if (reader_->is_done() && reader_->response_.status / 100 == 1) reader_.reset();  // interim
  }
  in_.erase(0, used);
  const bool more = !ec || ec == beast_http::error::need_more;
  if (!more || (!done() && in_.size() > kHeaderBytesMax + kChunkLineBytesMax)) {
    return base::corrupt("the answer of " + name_ + " is not valid HTTP: " + ec.message());
  }
  return {};
}

base::Result<ClientResponse> Connection::exchange(std::string request, bool head_request,
                                                  const PieceSink& sink) {
  std::string_view unsent = request;
  while (!done()) {
    if (!unsent.empty()) {
      BH_ASSIGN(const short ready, wait(POLLIN | POLLOUT));
      if ((ready & (POLLOUT | POLLERR | POLLHUP)) != 0) send_some(unsent);
      if ((ready & POLLIN) == 0) continue;
    }
    BH_ASSIGN(const size_t bytes, receive());
    if (bytes == 0) {
      error_code ec = beast_http::error::partial_message;
      if (reader_ && reader_->got_some()) reader_->put_eof(ec);
      if (ec) return io_error(name_ + " closed the connection before its answer was complete");
      break;
    }
    in_.append(buffer_.data(), bytes);
    BH_TRY(parse(head_request, sink));
    if (Clock::now() >= deadline_ && !done()) BH_TRY(wait(POLLIN));
  }
  return std::move(reader_->response_);
}

std::string request_text(const std::string& method, const std::string& target,
                         const std::vector<Header>& headers, const std::string& body,
                         const std::string& host) {
  std::string text = method + " " + target + " HTTP/1.1\r\n";
  bool has_host = false;
  for (const Header& header : headers) {
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

}  // namespace

Client::Client(std::string host, uint16_t port, std::chrono::milliseconds timeout)
    : host_(std::move(host)), port_(port), timeout_(timeout) {
  if (host_.size() > 2 && host_.front() == '[' && host_.back() == ']') {
    host_ = host_.substr(1, host_.size() - 2);
  }
}

base::Result<ClientResponse> Client::send(const std::string& method, const std::string& target,
                                          const std::vector<Header>& headers,
                                          const std::string& body, const PieceSink& on_piece) {
  const bool is_v6 = host_.find(':') != std::string::npos;
  const std::string name = (is_v6 ? "[" + host_ + "]" : host_) + ":" + std::to_string(port_);
  std::string request = request_text(method, target, headers, body, name);
  for (const std::string_view text : {std::string_view(method), std::string_view(target)}) {
    if (text.empty() || text.find_first_of(" \r\n") != std::string_view::npos) {
      return base::invalid_argument("target", "a method or target with blanks cannot be sent");
    }
  }
  for (const Header& header : headers) {
    if ((header.name + header.value).find_first_of("\r\n") != std::string::npos) {
      return base::invalid_argument("headers", "a header with a line break cannot be sent");
    }
  }
  Connection connection(name, Clock::now() + timeout_);
  BH_TRY(connection.open(host_, port_));
  return connection.exchange(std::move(request), method == "HEAD", on_piece);
}

}  // namespace bulkhead::http
