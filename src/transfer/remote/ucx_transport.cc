#include "transfer/remote/ucx_transport.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <ucp/api/ucp.h>

#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "transfer/remote/codec.h"
#include "transfer/remote/reorder_buffer.h"
#include "transfer/remote/socket_address.h"

namespace bulkhead::transfer::remote {
namespace {

constexpr unsigned kFrameMessage = 1;  // id of our one kind of active message

base::Error ucx_error(std::string_view doing, ucs_status_t status) {
  return {base::ErrorCode::kIo, fmt::format("UCX {}: {}", doing, ucs_status_string(status)), {}};
}

// A frame that UCX still reads or writes, and the request that says when it no longer does. It
// outlives its connection if it has to.
struct Operation {
  Frame frame;
  std::unique_ptr<uint64_t> number;  // of a frame that is sent: its header, which UCX reads too
  void* request = nullptr;           // null: complete
  bool failed = false;

  bool is_complete() {
    if (request == nullptr) return true;
    const ucs_status_t status = ucp_request_check_status(request);
    if (status == UCS_INPROGRESS) return false;
    failed = status != UCS_OK;
    ucp_request_free(std::exchange(request, nullptr));
    return true;
  }
};

class UcxConnection;

class UcxTransport final : public Transport {
 public:
  explicit UcxTransport(const UcxOptions& options) : options_(options) {}
  ~UcxTransport() override;
  base::Status start();

  void progress() override;
  base::Result<std::unique_ptr<Connection>> connect(const std::string& address) override;
  std::unique_ptr<Connection> accept() override;
  std::string address() const override { return address_; }

 private:
  friend class UcxConnection;

  base::Status listen();
  base::Result<ucp_ep_h> make_endpoint(ucp_ep_params_t params);
  std::unique_ptr<UcxConnection> adopt(ucp_ep_h endpoint);
  // The endpoint's connection is gone; what is under way is finished here.
  void retire(ucp_ep_h endpoint, std::deque<Operation> under_way);
  void finish_retired();

  static void on_connection(ucp_conn_request_h request, void* self);
  static void on_error(void* self, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t on_message(void* self, const void* header, size_t header_bytes, void* data,
                                 size_t bytes, const ucp_am_recv_param_t* param);

  const UcxOptions options_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_listener_h listener_ = nullptr;
  std::string address_;
  std::map<ucp_ep_h, UcxConnection*> connections_;
  std::deque<std::unique_ptr<UcxConnection>> accepting_;
  std::deque<Operation> retired_;
  std::vector<void*> closing_;
};

class UcxConnection final : public Connection {
 public:
  UcxConnection(UcxTransport& transport, ucp_ep_h endpoint)
      : transport_(transport),
        endpoint_(endpoint),
        arrivals_(transport.options_.arrived_bytes_max) {}
  ~UcxConnection() override { close(); }

  State state() const override {
    return endpoint_ == nullptr || failed_ ? State::kClosed : State::kOpen;
  }
  std::string reason() const override { return reason_; }
  bool can_post() const override {
    return state() == State::kOpen && sends_.size() < transport_.options_.posted_max;
  }
  void post(Frame& frame) override;
  bool poll(Frame& frame) override;
  bool drained() override;
  void close() override;

  void fail(std::string reason);
  void progress();
  ucs_status_t take(uint64_t number, void* data, size_t bytes, uint64_t attributes);

 private:
  UcxTransport& transport_;
  ucp_ep_h endpoint_;
  bool failed_ = false;
  std::string reason_ = "closed here";
  std::deque<Operation> sends_;
  uint64_t sent_ = 0;
  // What is posted while a connection comes about may be overtaken by what follows.
  ReorderBuffer<Operation> arrivals_;
  bool flushed_ = true;  // nothing was posted since the last flush was begun
  Operation flush_;
  std::vector<Frame> spare_;
};

// --- connection

void UcxConnection::post(Frame& frame) {
  BH_CHECK(can_post(), "room for the frame");
  flushed_ = false;
  Operation& operation = sends_.emplace_back();
  operation.frame.swap(frame);
  operation.number = std::make_unique<uint64_t>(sent_++);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_REPLY;
  void* request =
      ucp_am_send_nbx(endpoint_, kFrameMessage, operation.number.get(), sizeof(uint64_t),
                      operation.frame.data(), operation.frame.size(), &param);
  if (UCS_PTR_IS_ERR(request)) {
    fail(fmt::format("sending: {}", ucs_status_string(UCS_PTR_STATUS(request))));
  } else {
    operation.request = request;
  }
  frame.clear();
  if (!spare_.empty()) {
    frame.swap(spare_.back());
    spare_.pop_back();
  }
}

// In the order in which frames were posted, whatever UCX finishes first.
bool UcxConnection::poll(Frame& frame) {
  Operation* front = arrivals_.front();
  if (front == nullptr || !front->is_complete()) return false;
  if (front->failed) {
    fail("a frame did not arrive whole");
    return false;
  }
  frame.swap(front->frame);
  if (spare_.size() < 4) spare_.push_back(std::move(front->frame));
  arrivals_.pop();
  return true;
}

void UcxConnection::progress() {
  while (!sends_.empty() && sends_.front().is_complete()) {
    if (sends_.front().failed) fail("a frame could not be sent");
    sends_.front().frame.clear();
    if (spare_.size() < 4) spare_.push_back(std::move(sends_.front().frame));
    sends_.pop_front();
  }
}

// UCX may hold what it calls sent, until a flush says that it left.
bool UcxConnection::drained() {
  if (state() != State::kOpen) return true;
  if (!sends_.empty() || !flush_.is_complete()) return false;
  if (flushed_) return true;
  const ucp_request_param_t param{};
  void* request = ucp_ep_flush_nbx(endpoint_, &param);
  flush_.request = UCS_PTR_IS_PTR(request) ? request : nullptr;
  flushed_ = true;
  return flush_.request == nullptr;
}

// Inside ucp_worker_progress(): a frame begins to arrive, or is there.
ucs_status_t UcxConnection::take(uint64_t number, void* data, size_t bytes, uint64_t attributes) {
  if (failed_) return UCS_OK;
  if (bytes > kFrameBytesMax) {
    fail("the peer sends more than it may");
    return UCS_OK;
  }
  const auto [entry, fault] = arrivals_.add(number, bytes);
  if (entry == nullptr) {
    fail(fault == ArrivalFault::kTwice ? "the peer numbers its frames twice"
                                       : "the peer sends more than it may");
    return UCS_OK;
  }
  Operation& arrival = *entry;
  if ((attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
    const auto* from = static_cast<const std::byte*>(data);
    arrival.frame.assign(from, from + bytes);
    return UCS_OK;
  }
  if (!spare_.empty()) {
    arrival.frame.swap(spare_.back());
    spare_.pop_back();
  }
  arrival.frame.resize(bytes);
  const ucp_request_param_t param{};
  void* request =
      ucp_am_recv_data_nbx(transport_.worker_, data, arrival.frame.data(), bytes, &param);
  if (UCS_PTR_IS_ERR(request)) {
    arrival.failed = true;
  } else {
    arrival.request = request;
  }
  return UCS_INPROGRESS;
}

void UcxConnection::fail(std::string reason) {
  if (failed_) return;
  failed_ = true;
  reason_ = std::move(reason);
}

void UcxConnection::close() {
  if (endpoint_ == nullptr) return;
  if (flush_.request != nullptr) sends_.push_back(std::exchange(flush_, {}));
  transport_.connections_.erase(endpoint_);
  arrivals_.clear([this](Operation arrival) { sends_.push_back(std::move(arrival)); });
  transport_.retire(std::exchange(endpoint_, nullptr), std::exchange(sends_, {}));
}

// --- transport

base::Status UcxTransport::start() {
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM;
  ucp_config_t* config = nullptr;
  if (const auto status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) {
    return ucx_error("configuration", status);
  }
  const auto made = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  if (made != UCS_OK) return ucx_error("start", made);
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SINGLE;
  if (const auto status = ucp_worker_create(context_, &worker, &worker_); status != UCS_OK) {
    return ucx_error("worker", status);
  }
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kFrameMessage;
  handler.cb = &UcxTransport::on_message;
  handler.arg = this;
  if (const auto status = ucp_worker_set_am_recv_handler(worker_, &handler); status != UCS_OK) {
    return ucx_error("handler", status);
  }
  return options_.listen.empty() ? base::Status() : listen();
}

base::Status UcxTransport::listen() {
  BH_ASSIGN(const SocketAddress address, resolve(options_.listen));
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr.addr = address.get();
  params.sockaddr.addrlen = address.length;
  params.conn_handler.cb = &UcxTransport::on_connection;
  params.conn_handler.arg = this;
  if (const auto status = ucp_listener_create(worker_, &params, &listener_); status != UCS_OK) {
    return ucx_error("listening on " + options_.listen, status);
  }
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  if (const auto status = ucp_listener_query(listener_, &attributes); status != UCS_OK) {
    return ucx_error("listening on " + options_.listen, status);
  }
  SocketAddress bound;
  bound.storage = attributes.sockaddr;
  bound.length =
      attributes.sockaddr.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  address_ = to_string(bound);
  return {};
}

base::Result<ucp_ep_h> UcxTransport::make_endpoint(ucp_ep_params_t params) {
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &UcxTransport::on_error;
  params.err_handler.arg = this;
  ucp_ep_h endpoint = nullptr;
  if (const auto status = ucp_ep_create(worker_, &params, &endpoint); status != UCS_OK) {
    return ucx_error("connecting", status);
  }
  return endpoint;
}

std::unique_ptr<UcxConnection> UcxTransport::adopt(ucp_ep_h endpoint) {
  auto connection = std::make_unique<UcxConnection>(*this, endpoint);
  connections_.insert_or_assign(endpoint, connection.get());
  return connection;
}

base::Result<std::unique_ptr<Connection>> UcxTransport::connect(const std::string& address) {
  BH_ASSIGN(const SocketAddress to, numeric_address(address));
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr.addr = to.get();
  params.sockaddr.addrlen = to.length;
  BH_ASSIGN(ucp_ep_h endpoint, make_endpoint(params));
  return std::unique_ptr<Connection>(adopt(endpoint));
}

std::unique_ptr<Connection> UcxTransport::accept() {
  if (accepting_.empty()) return nullptr;
  std::unique_ptr<Connection> out = std::move(accepting_.front());
  accepting_.pop_front();
  return out;
}

void UcxTransport::progress() {
  // Bounded, though peers may go on and on.
  for (int32_t i = 0; i < 256 && ucp_worker_progress(worker_) != 0; ++i) {
  }
  for (const auto& [endpoint, connection] : connections_) connection->progress();
  finish_retired();
}

void UcxTransport::on_connection(ucp_conn_request_h request, void* self) {
  auto& transport = *static_cast<UcxTransport*>(self);
  if (transport.accepting_.size() >= transport.options_.accepting_max) {
    ucp_listener_reject(transport.listener_, request);
    return;
  }
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  auto endpoint = transport.make_endpoint(params);
  if (endpoint.ok()) transport.accepting_.push_back(transport.adopt(*endpoint));
}

void UcxTransport::on_error(void* self, ucp_ep_h endpoint, ucs_status_t status) {
  auto& transport = *static_cast<UcxTransport*>(self);
  const auto entry = transport.connections_.find(endpoint);
  if (entry != transport.connections_.end()) {
    entry->second->fail(fmt::format("connection lost: {}", ucs_status_string(status)));
  }
}

ucs_status_t UcxTransport::on_message(void* self, const void* header, size_t header_bytes,
                                      void* data, size_t bytes, const ucp_am_recv_param_t* param) {
  auto& transport = *static_cast<UcxTransport*>(self);
  uint64_t number = 0;
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0 || header_bytes != sizeof number) {
    return UCS_OK;
  }
  std::memcpy(&number, header, sizeof number);
  const auto entry = transport.connections_.find(param->reply_ep);
  if (entry == transport.connections_.end()) return UCS_OK;
  return entry->second->take(number, data, bytes, param->recv_attr);
}

void UcxTransport::retire(ucp_ep_h endpoint, std::deque<Operation> under_way) {
  // Moving a frame leaves its bytes in place, where UCX knows them.
  for (Operation& operation : under_way) {
    if (operation.request != nullptr) retired_.push_back(std::move(operation));
  }
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* request = ucp_ep_close_nbx(endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

void UcxTransport::finish_retired() {
  std::erase_if(retired_, [](Operation& operation) { return operation.is_complete(); });
  std::erase_if(closing_, [](void* request) {
    if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    ucp_request_free(request);
    return true;
  });
}

UcxTransport::~UcxTransport() {
  accepting_.clear();
  BH_CHECK(connections_.empty(), "connections are destroyed before their transport");
  if (listener_ != nullptr) ucp_listener_destroy(listener_);
  // Force-closed endpoints cancel what was under way; a few rounds deliver that.
  for (int32_t i = 0; i < 100'000 && !(retired_.empty() && closing_.empty()); ++i) {
    ucp_worker_progress(worker_);
    finish_retired();
  }
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

}  // namespace

base::Result<std::unique_ptr<Transport>> make_ucx_transport(const UcxOptions& options) {
  auto transport = std::make_unique<UcxTransport>(options);
  BH_TRY(transport->start());
  return std::unique_ptr<Transport>(std::move(transport));
}

std::string ucx_version() { return fmt::format("UCX {}", ucp_get_version_string()); }

}  // namespace bulkhead::transfer::remote
