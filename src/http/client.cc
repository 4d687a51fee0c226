#include "http/client.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "http/client_message.h"

namespace bulkhead::http {
namespace {

using Clock = std::chrono::steady_clock;

base::Error io_error(std::string message) { return {base::ErrorCode::kIo, std::move(message), {}}; }
std::string errno_text(int code) { return std::generic_category().message(code); }

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

  std::string name_;
  Clock::time_point deadline_;
  int fd_ = -1;
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

base::Result<ClientResponse> Connection::exchange(std::string request, bool head_request,
                                                  const PieceSink& sink) {
  ResponseReader reader(name_, head_request, sink);
  std::string_view unsent = request;
  while (!reader.done()) {
    if (!unsent.empty()) {
      BH_ASSIGN(const short ready, wait(POLLIN | POLLOUT));
      if ((ready & (POLLOUT | POLLERR | POLLHUP)) != 0) send_some(unsent);
      if ((ready & POLLIN) == 0) continue;
    }
    BH_ASSIGN(const size_t bytes, receive());
    if (bytes == 0) {
      BH_TRY(reader.end());
      break;
    }
    BH_TRY(reader.push({buffer_.data(), bytes}));
    if (Clock::now() >= deadline_ && !reader.done()) BH_TRY(wait(POLLIN));
  }
  return reader.take();
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
  BH_ASSIGN(std::string request, request_text(method, target, headers, body, name));
  Connection connection(name, Clock::now() + timeout_);
  BH_TRY(connection.open(host_, port_));
  return connection.exchange(std::move(request), method == "HEAD", on_piece);
}

}  // namespace bulkhead::http
