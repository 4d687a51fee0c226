#include "apps/drill/throwaway_server.h"

#include <fmt/format.h>

#include <random>
#include <utility>
#include <vector>

namespace bulkhead::apps {
namespace {

std::string random_key() {
  std::random_device device;
  return fmt::format("drill-{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

// Small enough to be quick, large enough for eight requests of a great model.
std::vector<std::string> words_of(const ThrowawayOptions& options) {
  std::vector<std::string> words = {"--model",          options.model_path,
                                    "--page-size",      "16",
                                    "--context-length", "256",
                                    "--placement",      options.placement,
                                    "--kv-integrity",   options.integrity,
                                    "--inject-faults"};
  const auto add = [&words](const std::string& name, const std::string& value) {
    words.push_back(name);
    words.push_back(value);
  };
  if (options.placement == "split") {
    add("--prefill.kv-cache-memory", "128M");
    add("--decode.kv-cache-memory", "128M");
  } else {
    add("--kv-cache-memory", "256M");
  }
  if (options.threads > 0) add("--threads", std::to_string(options.threads));
  return words;
}

std::vector<std::string> keys_of(const Target& target) {
  std::string keys;
  for (const std::string& key : target.api_keys) keys += (keys.empty() ? "" : ",") + key;
  return {"BULKHEAD_ADMIN_KEY=" + target.admin_key, "BULKHEAD_API_KEY=" + keys};
}

}  // namespace

base::Result<std::unique_ptr<ThrowawayServer>> ThrowawayServer::start(
    const ThrowawayOptions& options) {
  std::unique_ptr<ThrowawayServer> server(new ThrowawayServer);
  server->target_.host = "127.0.0.1";
  server->target_.admin_key = random_key();
  server->target_.api_keys = {random_key(), random_key()};
  BH_ASSIGN(server->server_, OwnServer::start({words_of(options), keys_of(server->target_)}));
  server->target_.port = server->server_->port();
  return server;
}

}  // namespace bulkhead::apps
