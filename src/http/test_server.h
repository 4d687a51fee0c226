// For tests: a server on a free loopback port with its own thread, and a raw socket to speak to it.
//
// Threads: as http/server.h; a RawClient belongs to one thread. Every wait has a generous limit, so
// that a failing test ends.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/log.h"
#include "http/server.h"

namespace bulkhead::http::testing_support {

inline constexpr std::chrono::milliseconds kWaitMax{60'000};

// Polls `condition` until it holds; false when it never does.
inline bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kWaitMax;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

class TestServer {
 public:
  explicit TestServer(Handler handler, ServerOptions options = {}) {
    options.port = 0;
    auto listening = Server::listen(options, std::move(handler), logger_);
    if (!listening.ok()) throw std::runtime_error(listening.error().message);
    server_ = std::move(listening).value();
    thread_ = std::thread([this] { server_->run(); });
  }
  ~TestServer() { stop(std::chrono::milliseconds(0)); }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  // Returns when run() has returned.
  void stop(std::chrono::milliseconds grace) {
    server_->stop(grace);
    if (thread_.joinable()) thread_.join();
  }
  Server& server() { return *server_; }
  uint16_t port() const { return server_->port(); }
  bool becomes_idle() {
    return eventually([this] { return server_->open_connections() == 0; });
  }

 private:
  std::ostringstream log_;
  base::Logger logger_{log_, base::LogFormat::kText, base::LogLevel::kDebug};
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

// A response as it came over the wire.
struct RawResponse {
  bool complete = false;  // the end mark of its framing was seen
  int status = 0;
  std::string head;  // status line and header lines
  std::string body;  // decoded

  std::string header(std::string_view name) const {
    const std::string key = "\r\n" + std::string(name) + ": ";
    const size_t at = head.find(key);
    if (at == std::string::npos) return {};
    const size_t begin = at + key.size();
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

class RawClient {
 public:
  // `receive_buffer_bytes`: 0 leaves the kernel's default.
  explicit RawClient(uint16_t port, int receive_buffer_bytes = 0) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer_bytes > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
    }
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error("cannot connect to the test server");
    }
  }
  ~RawClient() { close(); }
  RawClient(RawClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), in_(std::move(other.in_)) {}
  RawClient& operator=(RawClient&&) = delete;

  // False when the server has closed its side.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  void shut_sending_side() { shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  // Closes with a reset instead of an orderly end.
  void reset() {
    const linger now{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close();
  }

  // One read; false at the end of the stream, on an error, or when nothing comes.
  bool read_some(size_t bytes_max = 64u << 10) {
    pollfd entry{fd_, POLLIN, 0};
    if (poll(&entry, 1, static_cast<int>(kWaitMax.count())) != 1) return false;
    std::string piece(bytes_max, '\0');
    const ssize_t got = recv(fd_, piece.data(), piece.size(), 0);
    if (got <= 0) return false;
    in_.append(piece, 0, static_cast<size_t>(got));
    return true;
  }
  bool read_until(std::string_view mark) {
    while (in_.find(mark) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }
  // True when the server ends the connection; what it sends before is in buffered().
  bool reads_end() {
    while (read_some()) {
    }
    pollfd entry{fd_, POLLIN, 0};
    return poll(&entry, 1, 0) == 1;
  }
  const std::string& buffered() const { return in_; }

  // The next response; `complete` is false when the connection ended first.
  RawResponse read_response(bool head_request = false) {
    RawResponse response;
    if (!read_until("\r\n\r\n")) return response;
    const size_t head_end = in_.find("\r\n\r\n") + 2;
    response.head = in_.substr(0, head_end);
    in_.erase(0, head_end + 2);
    response.status = std::stoi(response.head.substr(9, 3));
    if (head_request || response.status == 204 || response.status / 100 == 1) {
      response.complete = true;
    } else if (response.header("Transfer-Encoding") == "chunked") {
      response.complete = read_chunks(response.body);
    } else if (const std::string length = response.header("Content-Length"); !length.empty()) {
      response.complete = read_exactly(std::stoul(length), response.body);
    } else {
      response.complete = reads_end();
      response.body = std::exchange(in_, {});
    }
    return response;
  }
  RawResponse request(std::string_view bytes) {
    send(bytes);
    return read_response();
  }

 private:
  bool read_exactly(size_t bytes, std::string& out) {
    while (in_.size() < bytes) {
      if (!read_some()) {
        out += std::exchange(in_, {});
        return false;
      }
    }
    out += in_.substr(0, bytes);
    in_.erase(0, bytes);
    return true;
  }
  bool read_chunks(std::string& out) {
    for (;;) {
      if (!read_until("\r\n")) return false;
      const size_t size = std::stoul(in_.substr(0, in_.find("\r\n")), nullptr, 16);
      in_.erase(0, in_.find("\r\n") + 2);
      std::string end_mark;
      if (size > 0 && !read_exactly(size, out)) return false;
      if (!read_exactly(2, end_mark)) return false;
      if (size == 0) return true;
    }
  }

  int fd_ = -1;
  std::string in_;
};

inline std::string get(std::string_view target, std::string_view more_headers = "") {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: test\r\n" + std::string(more_headers) +
         "\r\n";
}
inline std::string post(std::string_view target, std::string_view body,
                        std::string_view more_headers = "") {
  return "POST " + std::string(target) +
         " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(more_headers) + "\r\n" + std::string(body);
}

}  // namespace bulkhead::http::testing_support
