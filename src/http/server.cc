#include "http/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <optional>
#include <unordered_map>
#include <utility>

#include "http/session.h"

namespace bulkhead::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr milliseconds kTickInterval{250};
constexpr milliseconds kAcceptRetry{100};
constexpr uint32_t kRejectionsMax = 64;  // beyond, a surplus connection is closed without an answer
// Small enough that a slow reader is felt after a few hundred events, not after megabytes.
constexpr int kSendBufferBytes = 64 << 10;
constexpr int kListenBacklog = 1024;

base::Error listen_error(const ServerOptions& options, const error_code& ec) {
  const std::string where = options.host + ":" + std::to_string(options.port);
  if (ec == asio::error::address_in_use) {
    return {base::ErrorCode::kUnavailable,
            where + " is in use by another process; stop it or choose another port with " +
                options.port_flag,
            "port"};
  }
  if (ec == asio::error::access_denied) {
    return {base::ErrorCode::kIo,
            "no permission to listen on " + where +
                " (ports below 1024 need privileges); choose another port with " +
                options.port_flag,
            "port"};
  }
  if (ec == boost::system::errc::address_not_available) {
    return {base::ErrorCode::kInvalidArgument,
            options.host + " is not an address of this machine; choose another with " +
                options.host_flag,
            "host"};
  }
  return {base::ErrorCode::kIo, "cannot listen on " + where + ": " + ec.message(), "host"};
}

// A peer that vanished without a word (a pulled cable, a lost address) is noticed within two
// minutes, so that nobody computes an answer for it. Failure costs only that.
void probe_when_silent(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto set = [&](int option, int value) {
    setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof(value));
  };
  set(TCP_KEEPIDLE, 60);   // seconds
  set(TCP_KEEPINTVL, 15);  // seconds
  set(TCP_KEEPCNT, 4);
}

class ServerImpl final : public Server {
 public:
  ServerImpl(ServerOptions options, Handler handler, base::Logger& logger)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        logger_(logger),
        acceptor_(io_),
        mailbox_(std::make_shared<Mailbox>(
            [this] { asio::post(io_, [this] { mailbox_->drain(); }); }, logger)),
        host_{options_,
              handler_,
              logger_,
              mailbox_,
              0,
              false,
              [this](Session& session) { forget(session); }} {}

  ~ServerImpl() override {
    mailbox_->close();
    abort_sessions();
  }
  ServerImpl(const ServerImpl&) = delete;
  ServerImpl& operator=(const ServerImpl&) = delete;

  base::Status open();

  uint16_t port() const override { return port_; }
  void run() override;
  void stop(milliseconds grace) override {
    mailbox_->post([this, grace] { begin_stop(grace); });
  }
  void post(std::function<void()> task) override { mailbox_->post(std::move(task)); }
  void post_after(milliseconds delay, std::function<void()> task) override;
  uint32_t open_connections() const override { return open_connections_.load(); }

 private:
  base::Result<tcp::endpoint> resolve();
  void accept();
  void accepted(tcp::socket socket);
  void accept_failed(const error_code& ec);
  void tick();
  void forget(Session& session);
  void begin_stop(milliseconds grace);
  void abort_sessions();
  std::vector<std::shared_ptr<Session>> sessions() const;

  const ServerOptions options_;
  const Handler handler_;
  base::Logger& logger_;

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  tcp::acceptor acceptor_;
  asio::steady_timer tick_timer_{io_};
  asio::steady_timer accept_timer_{io_};
  asio::steady_timer grace_timer_{io_};
  std::optional<std::chrono::steady_clock::time_point> grace_end_;
  uint16_t port_ = 0;
  bool accept_failing_ = false;

  const std::shared_ptr<Mailbox> mailbox_;
  SessionHost host_;
  std::unordered_map<const Session*, std::shared_ptr<Session>> sessions_;
  uint32_t rejections_ = 0;
  std::atomic<uint32_t> open_connections_{0};
};

base::Result<tcp::endpoint> ServerImpl::resolve() {
  std::string host = options_.host;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  error_code ec;
  const asio::ip::address address = asio::ip::make_address(host, ec);
  if (!ec) return tcp::endpoint(address, options_.port);
  tcp::resolver resolver(io_);
  const auto found = resolver.resolve(host, std::to_string(options_.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, ec);
  if (host.empty() || ec || found.empty()) {
    return base::invalid_argument(
        "host", "'" + options_.host + "' is neither an address nor a known host name");
  }
  for (const auto& entry : found) {
    if (entry.endpoint().address().is_v4()) return entry.endpoint();
  }
  return found.begin()->endpoint();
}

base::Status ServerImpl::open() {
  BH_ASSIGN(const tcp::endpoint endpoint, resolve());
  error_code ec;
  const auto step = [&ec](const auto& action) {
    if (!ec) action();
  };
  step([&] { acceptor_.open(endpoint.protocol(), ec); });
  step([&] { acceptor_.set_option(tcp::acceptor::reuse_address(true), ec); });
  step([&] { acceptor_.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ec); });
  step([&] {
    // "::" means every address of the machine, IPv4 ones too.
    if (endpoint.address().is_v6()) acceptor_.set_option(asio::ip::v6_only(false), ec);
  });
  step([&] { acceptor_.bind(endpoint, ec); });
  step([&] { acceptor_.listen(kListenBacklog, ec); });
  step([&] { port_ = acceptor_.local_endpoint(ec).port(); });
  if (ec) return listen_error(options_, ec);
  return {};
}

void ServerImpl::run() {
  mailbox_->set_io_thread();
  accept();
  tick();
  for (bool running = true; running;) {
    try {
      io_.run();
      running = false;
    } catch (const std::exception& e) {
      logger_.error("the HTTP thread caught an error", {{"reason", std::string(e.what())}});
    }
  }
  mailbox_->finish();
}

void ServerImpl::post_after(milliseconds delay, std::function<void()> task) {
  mailbox_->post([this, delay, task = std::move(task)] {
    const auto timer = std::make_shared<asio::steady_timer>(io_, delay);
    timer->async_wait([this, timer, task](const error_code& ec) {
      if (!ec) mailbox_->run_contained(task, "a timed task on the HTTP thread failed");
    });
  });
}

// --- connections
// ----------------------------------------------------------------------------------

void ServerImpl::accept() {
  if (!acceptor_.is_open()) return;
  acceptor_.async_accept([this](const error_code& ec, tcp::socket socket) {
    if (host_.draining) return;
    if (ec) return accept_failed(ec);
    accept_failing_ = false;
    accepted(std::move(socket));
    accept();
  });
}

void ServerImpl::accepted(tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  probe_when_silent(socket);
  const bool surplus = open_connections_.load() >= options_.connections_max;
  if (surplus && rejections_ >= kRejectionsMax) return;
  const auto session = std::make_shared<Session>(host_, std::move(socket));
  sessions_.emplace(session.get(), session);
  if (surplus) {
    ++rejections_;
    session->reject();
  } else {
    ++open_connections_;
    session->start();
  }
}

// Out of file descriptors or memory: wait, because trying again at once would only spin. A client
// that left while it waited in the queue lands here too, and costs nobody anything.
void ServerImpl::accept_failed(const error_code& ec) {
  if (ec == asio::error::connection_aborted) return accept();
  if (!accept_failing_) {
    logger_.warning("new connections cannot be accepted", {{"reason", ec.message()}});
  }
  accept_failing_ = true;
  accept_timer_.expires_after(kAcceptRetry);
  accept_timer_.async_wait([this](const error_code& timer_ec) {
    if (!timer_ec) accept();
  });
}

void ServerImpl::forget(Session& session) {
  if (session.rejected()) {
    --rejections_;
  } else {
    --open_connections_;
  }
  sessions_.erase(&session);
  if (host_.draining && sessions_.empty()) io_.stop();
}

std::vector<std::shared_ptr<Session>> ServerImpl::sessions() const {
  std::vector<std::shared_ptr<Session>> all;
  all.reserve(sessions_.size());
  for (const auto& [key, session] : sessions_) all.push_back(session);
  return all;
}

void ServerImpl::tick() {
  tick_timer_.expires_after(kTickInterval);
  tick_timer_.async_wait([this](const error_code& ec) {
    if (!ec) tick();
  });
  const auto now = std::chrono::steady_clock::now();
  for (const auto& session : sessions()) session->tick(now);
}

// --- stopping
// -------------------------------------------------------------------------------------

void ServerImpl::begin_stop(milliseconds grace) {
  const auto end = std::chrono::steady_clock::now() + grace;
  if (!host_.draining) {
    host_.draining = true;
    error_code ignored;
    acceptor_.close(ignored);
    for (const auto& session : sessions()) session->drain();
  }
  if (sessions_.empty()) return io_.stop();
  if (grace_end_ && *grace_end_ <= end) return;
  grace_end_ = end;
  grace_timer_.expires_at(end);
  grace_timer_.async_wait([this](const error_code& ec) {
    if (!ec) abort_sessions();
  });
}

void ServerImpl::abort_sessions() {
  for (const auto& session : sessions()) session->abort();
}

}  // namespace

base::Result<std::unique_ptr<Server>> Server::listen(ServerOptions options, Handler handler,
                                                     base::Logger& logger) {
  auto server = std::make_unique<ServerImpl>(std::move(options), std::move(handler), logger);
  BH_TRY(server->open());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace bulkhead::http
