#include "http/async_client.h"

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "http/client_message.h"

namespace bulkhead::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// One call on its own connection. Handlers in flight keep it alive; whoever ends it first closes
// the socket and the timer, so that the others find it ended.
class Exchange final : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(asio::io_context& io, std::string peer, AsyncCall call)
      : socket_(io),
        timer_(io),
        peer_(std::move(peer)),
        on_done_(std::move(call.on_done)),
        reader_(peer_, call.method == "HEAD", std::move(call.on_piece)),
        timeout_(call.timeout) {}

  void start(const std::vector<tcp::endpoint>& endpoints, std::string request) {
    request_ = std::move(request);
    timer_.expires_after(timeout_);
    timer_.async_wait([self = shared_from_this()](error_code ec) {
      if (ec) return;
      self->fail(base::ErrorCode::kCancelled,
                 "no complete answer from " + self->peer_ + " in time");
    });
    asio::async_connect(
        socket_, endpoints, [self = shared_from_this()](error_code ec, const tcp::endpoint&) {
          if (self->ended_) return;
          if (ec) {
            return self->fail(base::ErrorCode::kUnavailable,
                              "cannot connect to " + self->peer_ + ": " + ec.message());
          }
          self->connected();
        });
  }
  void refuse(base::Error error) { finish(std::move(error)); }

 private:
  void connected() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    // An error here is not the end: the server may have answered before it stopped listening.
    asio::async_write(socket_, asio::buffer(request_),
                      [self = shared_from_this()](error_code, size_t) { self->request_.clear(); });
    read();
  }

  void read() {
    socket_.async_read_some(asio::buffer(buffer_),
                            [self = shared_from_this()](error_code ec, size_t bytes) {
                              if (!self->ended_) self->take(ec, bytes);
                            });
  }

  void take(error_code ec, size_t bytes) {
    if (ec == asio::error::eof) {
      base::Status status = reader_.end();
      if (!status.ok()) return finish(std::move(status).error());
      return finish(reader_.take());
    }
    if (ec) {
      return fail(base::ErrorCode::kIo, "the connection to " + peer_ + " broke: " + ec.message());
    }
    base::Status status = reader_.push({buffer_.data(), bytes});
    if (!status.ok()) return finish(std::move(status).error());
    if (reader_.done()) return finish(reader_.take());
    read();
  }

  void fail(base::ErrorCode code, std::string message) {
    finish(base::Error{code, std::move(message), {}});
  }

  void finish(base::Result<ClientResponse> result) {
    if (std::exchange(ended_, true)) return;
    error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
    on_done_(std::move(result));
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  const std::string peer_;
  const std::function<void(base::Result<ClientResponse>)> on_done_;
  ResponseReader reader_;
  const std::chrono::milliseconds timeout_;
  std::string request_;
  bool ended_ = false;
  std::array<char, 16u << 10> buffer_;
};

class AsioClient final : public AsyncClient {
 public:
  explicit AsioClient(std::string name) : name_(std::move(name)) {}

  base::Status resolve(const std::string& host, uint16_t port) {
    error_code ec;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(host, std::to_string(port), ec);
    if (ec) {
      return base::Error{
          base::ErrorCode::kUnavailable, "cannot resolve " + host + ": " + ec.message(), {}};
    }
    for (const auto& entry : found) endpoints_.push_back(entry.endpoint());
    return {};
  }

  void send(AsyncCall call) override {
    base::Result<std::string> request =
        request_text(call.method, call.target, call.headers, call.body, name_);
    const auto exchange = std::make_shared<Exchange>(io_, name_, std::move(call));
    if (request.ok()) {
      exchange->start(endpoints_, std::move(request).value());
    } else {
      after({}, [exchange, error = std::move(request).error()] { exchange->refuse(error); });
    }
  }

  void after(std::chrono::nanoseconds delay, std::function<void()> task) override {
    const auto timer = std::make_shared<asio::steady_timer>(io_, delay);
    timer->async_wait([timer, task = std::move(task)](error_code ec) {
      if (!ec) task();
    });
  }

  void run() override {
    io_.restart();
    io_.run();
  }

 private:
  asio::io_context io_{1};
  const std::string name_;
  std::vector<tcp::endpoint> endpoints_;
};

}  // namespace

base::Result<std::unique_ptr<AsyncClient>> AsyncClient::create(const std::string& host,
                                                               uint16_t port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  auto client =
      std::make_unique<AsioClient>((is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port));
  BH_TRY(client->resolve(host, port));
  return std::unique_ptr<AsyncClient>(std::move(client));
}

}  // namespace bulkhead::http
