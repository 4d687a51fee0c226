#include "serve/roles/worker/worker_http.h"

#include <utility>

#include "transfer/remote/socket_address.h"

namespace bulkhead::serve::roles {
namespace {

constexpr const char* kFlag = "--http-listen";

base::Result<transfer::remote::HostAndPort> place_of(const ServeOptions& options) {
  auto parsed = transfer::remote::parse_address(options.roles.http_listen);
  if (parsed.ok()) return parsed;
  return base::invalid_argument(kFlag, std::string(kFlag) + ": " + parsed.error().message);
}

base::Result<Keys> keys_for(const ServeOptions& options, const std::string& host) {
  BH_ASSIGN(Keys keys, collect_keys(options));
  const std::string given = std::string(kFlag) + " " + options.roles.http_listen;
  BH_TRY(check_exposure(kFlag, given, host, keys));
  return keys;
}

}  // namespace

base::Status WorkerHttp::check(const ServeOptions& options) {
  if (options.roles.http_listen.empty()) return {};
  BH_ASSIGN(const transfer::remote::HostAndPort place, place_of(options));
  BH_TRY(keys_for(options, place.host));
  return {};
}

WorkerHttp::WorkerHttp(const ServeOptions& options, Keys keys, const base::Clock& clock,
                       base::Logger& logger)
    : options_(options), keys_(std::move(keys)), clock_(clock), logger_(logger), gate_(clock) {}

base::Result<std::unique_ptr<WorkerHttp>> WorkerHttp::listen(const ServeOptions& options,
                                                             const base::Clock& clock,
                                                             base::Logger& logger) {
  if (options.roles.http_listen.empty()) return std::unique_ptr<WorkerHttp>();
  BH_ASSIGN(transfer::remote::HostAndPort place, place_of(options));
  BH_ASSIGN(Keys keys, keys_for(options, place.host));
  warn_of_open_file(keys, logger);
  std::unique_ptr<WorkerHttp> out(new WorkerHttp(options, std::move(keys), clock, logger));
  out->host_ = place.host;
  http::ServerOptions where;
  where.host = std::move(place.host);
  where.port = place.port;
  where.host_flag = where.port_flag = kFlag;
  BH_ASSIGN(out->server_, listen_http(std::move(where), out->gate_, logger));
  out->io_ = std::make_unique<IoThread>(*out->server_);
  return out;
}

void WorkerHttp::open(telemetry::Registry& registry, std::function<wire::GeneratorStatus()> status,
                      wire::IntegrityPort& integrity, uint64_t weight_bytes) {
  api::WorkerApiOptions options;
  options.keys = {keys_.api, keys_.admin, is_loopback(host_)};
  options.version = BULKHEAD_VERSION;
  options.weight_bytes = weight_bytes;
  api_ = std::make_unique<api::WorkerApi>(
      api::WorkerApiDeps{
          .registry = registry,
          .logger = logger_,
          .clock = clock_,
          .status = std::move(status),
          .integrity = integrity,
          .post = [this](std::function<void()> task) { server_->post(std::move(task)); }},
      std::move(options));
  gate_.open(api_->handler());
}

void WorkerHttp::reload_keys() {
  serve::reload_keys(
      options_, [this](std::vector<std::string> keys) { api_->replace_keys(std::move(keys)); },
      logger_);
}

}  // namespace bulkhead::serve::roles
