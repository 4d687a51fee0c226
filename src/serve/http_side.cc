#include "serve/http_side.h"

#include <fmt/format.h>

#include <utility>

#include "device/thread_tuning.h"

namespace bulkhead::serve {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

std::string address_text(const std::string& host, uint16_t port) {
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::string url_text(const std::string& host, uint16_t port) {
  const std::string reached = host == "0.0.0.0" ? "127.0.0.1" : host == "::" ? "::1" : host;
  return "http://" + address_text(reached, port);
}

base::Status check_exposure(const std::string& flag, const std::string& given,
                            const std::string& host, const Keys& keys) {
  if (is_loopback(host) || !keys.api.empty()) return {};
  return base::invalid_argument(
      flag, fmt::format("{} is reachable from other machines and there is no key; set --api-key "
                        "(or BULKHEAD_API_KEY) or --api-key-file, or listen on 127.0.0.1",
                        given));
}

void warn_of_open_file(const Keys& keys, base::Logger& logger) {
  if (!keys.file_open_to_others) return;
  logger.warning("every user of this machine can read the key file; chmod it to 600");
}

void reload_keys(const ServeOptions& options,
                 const std::function<void(std::vector<std::string>)>& replace,
                 base::Logger& logger) {
  if (options.api_key_file.empty()) {
    logger.info("SIGHUP: there is no --api-key-file to read again");
    return;
  }
  base::Result<Keys> keys = collect_keys(options);
  if (!keys.ok()) {
    logger.error("SIGHUP: the keys stay as they were", {{"reason", keys.error().message}});
    return;
  }
  warn_of_open_file(*keys, logger);
  logger.info("SIGHUP: keys read again", {{"keys", uint64_t{keys->api.size()}}});
  replace(std::move(keys->api));
}

base::Result<std::unique_ptr<http::Server>> listen_http(http::ServerOptions options,
                                                        LoadingGate& gate, base::Logger& logger) {
  return http::Server::listen(
      std::move(options),
      [&gate](http::Request request, std::shared_ptr<http::ResponseWriter> writer) {
        gate.handle(std::move(request), std::move(writer));
      },
      logger);
}

void IoThread::stop(std::chrono::milliseconds grace) {
  if (!thread_.joinable()) return;
  server_.stop(grace);
  thread_.join();
}

void IoThread::run() {
  device::name_thread("bulkhead-io");
  // The compute threads may hold every core; a token that is ready should not wait for them.
  device::prefer_latency();
  server_.run();
}

}  // namespace bulkhead::serve
