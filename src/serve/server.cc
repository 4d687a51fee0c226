#include "serve/server.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "api/api.h"
#include "base/json_writer.h"
#include "http/server.h"
#include "serve/banner.h"
#include "serve/plan.h"
#include "serve/progress.h"
#include "serve/runtime.h"
#include "serve/text_loading.h"

namespace bulkhead::serve {
namespace {

using std::chrono::milliseconds;

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

base::Status check_exposure(const ServeOptions& options) {
  if (is_loopback(options.host) || !options.api_key.empty()) return {};
  return base::invalid_argument(
      "--host", fmt::format("--host {} is reachable from other machines and there is no key; set "
                            "--api-key (or BULKHEAD_API_KEY), or listen on 127.0.0.1",
                            options.host));
}

// Signals that mean "end", taken by sigtimedwait() on the main thread alone. Blocked before any
// other thread exists, so that all of them inherit the mask.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    // A client that leaves is an error of the write, not a signal.
    ::signal(SIGPIPE, SIG_IGN);
  }
  // True when one arrived within `timeout`.
  bool wait(milliseconds timeout) const {
    timespec limit{};
    limit.tv_sec = timeout.count() / 1000;
    limit.tv_nsec = (timeout.count() % 1000) * 1'000'000;
    return sigtimedwait(&set_, nullptr, &limit) > 0;
  }

 private:
  sigset_t set_;
};

// The handler of the first seconds: the port answers, the model does not yet.
class LoadingGate {
 public:
  void open(http::Handler handler) {
    handler_ = std::move(handler);
    ready_.store(true, std::memory_order_release);
  }
  void handle(http::Request request, std::shared_ptr<http::ResponseWriter> writer) {
    if (ready_.load(std::memory_order_acquire)) {
      handler_(std::move(request), std::move(writer));
      return;
    }
    base::JsonWriter body;
    body.begin_object().key("error").begin_object();
    body.key("message").value("The model is loading; try again in a moment.");
    body.key("type").value("server_error");
    body.key("param").null();
    body.key("code").value("model_loading");
    body.end_object().end_object();
    http::Response response;
    response.status = 503;
    response.headers = {{"Retry-After", "1"}};
    response.body = std::move(body).take();
    writer->send(std::move(response));
  }

 private:
  std::atomic<bool> ready_{false};
  http::Handler handler_;  // written once, before ready_
};

// The I/O thread, joined whatever happens.
class IoThread {
 public:
  explicit IoThread(http::Server& server) : server_(server), thread_([this] { server_.run(); }) {}
  ~IoThread() { stop(milliseconds(0)); }
  void stop(milliseconds grace) {
    if (!thread_.joinable()) return;
    server_.stop(grace);
    thread_.join();
  }

 private:
  http::Server& server_;
  std::thread thread_;
};

api::ModelCard card_of(const ServeOptions& options, const model::Checkpoint& checkpoint,
                       const model::ModelFacts& facts) {
  const model::GenerationDefaults& recommended = checkpoint.generation();
  api::ModelCard card;
  card.id = options.served_model_name.empty() ? checkpoint.name() : options.served_model_name;
  card.root = checkpoint.name();
  card.created = std::chrono::duration_cast<std::chrono::seconds>(
                     std::chrono::system_clock::now().time_since_epoch())
                     .count();
  card.parameters = facts.parameters;
  card.bytes = facts.weight_bytes;
  card.context_trained = facts.context_tokens;
  card.bos_token = checkpoint.text().bos_token;
  card.eos_token = checkpoint.text().eos_token;
  card.defaults.eos_ids = recommended.eos_ids;
  card.defaults.temperature = recommended.temperature.value_or(1.0f);
  card.defaults.top_p = recommended.top_p.value_or(1.0f);
  card.defaults.top_k = recommended.top_k.value_or(0);
  card.defaults.repetition_penalty = recommended.repetition_penalty.value_or(1.0f);
  return card;
}

std::string url_of(const ServeOptions& options, uint16_t port) {
  const bool v6 = options.host.find(':') != std::string::npos;
  const std::string host = options.host == "0.0.0.0" ? "127.0.0.1"
                           : v6 ? fmt::format("[{}]", options.host == "::" ? "::1" : options.host)
                                : options.host;
  return fmt::format("http://{}:{}", host, port);
}

base::Status write_port_file(const std::string& path, uint16_t port) {
  if (path.empty()) return {};
  // Written aside and renamed, so that a reader never sees half of it.
  const std::string aside = path + ".part";
  std::ofstream file(aside);
  file << port << '\n';
  file.close();
  if (!file || std::rename(aside.c_str(), path.c_str()) != 0) {
    return base::Error{base::ErrorCode::kIo, fmt::format("--port-file: cannot write {}", path),
                       "--port-file"};
  }
  return {};
}

// Waits for the first signal, then lets running requests finish; a second signal cuts it short.
void serve_until_told(const EndSignals& signals, const ServeOptions& options, Runtime& runtime,
                      IoThread& io, base::Logger& logger) {
  while (!signals.wait(milliseconds(1000))) {
  }
  const wire::GeneratorStatus status = runtime.generator().status();
  logger.info("draining", {{"running", uint64_t{status.running}},
                           {"waiting", uint64_t{status.waiting}},
                           {"timeout_s", int64_t{options.drain_timeout.count()}}});
  runtime.drain(options.drain_timeout);
  while (!runtime.drained()) {
    if (signals.wait(milliseconds(50))) {
      logger.warning("second signal: ending running requests");
      runtime.drain(std::chrono::nanoseconds(0));
    }
  }
  // Every request has its last event; give the clients a moment to read it.
  io.stop(milliseconds(2000));
  runtime.stop();
  logger.info("stopped");
}

struct Prepared {
  device::CpuFacts cpu;
  Plan plan;
  kernels::KernelSet kernels;
};

base::Result<Prepared> prepare(const ServeOptions& options, const model::Checkpoint& checkpoint,
                               std::ostream& out) {
  Prepared prepared;
  prepared.cpu = device::detect_cpu();
  BH_ASSIGN(prepared.plan, make_plan(options.model, checkpoint, prepared.cpu));
  BH_ASSIGN(prepared.kernels, kernels::select_kernels(prepared.cpu, prepared.plan.isa));
  out << plan_text(prepared.plan, checkpoint, prepared.cpu, prepared.kernels.description)
      << std::flush;
  return prepared;
}

void register_facts(telemetry::Registry& registry, const Plan& plan,
                    const kernels::KernelSet& kernels) {
  registry.info(
      "bulkhead_kernels_info", "The kernel path in use.",
      {{"isa", std::string(device::to_string(kernels.isa))}, {"kernels", kernels.description}});
  registry.info("vllm:cache_config_info", "Size and format of the page pool.",
                {{"block_size", std::to_string(plan.layout.page_tokens)},
                 {"num_gpu_blocks", std::to_string(plan.pages)},
                 {"cache_dtype", std::string(kv::to_string(plan.layout.format))}});
}

}  // namespace

base::Status run_server(const ServeOptions& options, std::ostream& out, std::ostream& log) {
  const base::SteadyClock clock;
  const base::Nanoseconds started = clock.now();
  BH_TRY(check_exposure(options));
  BH_ASSIGN(const model::Checkpoint checkpoint, model::Checkpoint::open(options.model.model_path));
  BH_ASSIGN(const Prepared prepared, prepare(options, checkpoint, out));
  if (options.dry_run) return {};

  const EndSignals signals;
  base::Logger logger(log, options.log_format, options.log_level);
  const std::string name =
      options.served_model_name.empty() ? checkpoint.name() : options.served_model_name;
  telemetry::Registry registry({{"model_name", name}});
  register_facts(registry, prepared.plan, prepared.kernels);

  LoadingGate gate;
  http::ServerOptions http_options;
  http_options.host = options.host;
  http_options.port = options.port;
  BH_ASSIGN(const std::unique_ptr<http::Server> server,
            http::Server::listen(
                http_options,
                [&gate](http::Request request, std::shared_ptr<http::ResponseWriter> writer) {
                  gate.handle(std::move(request), std::move(writer));
                },
                logger));

  BH_ASSIGN(const TextSide text, load_text(checkpoint, options.model.chat_template_path));
  // They end in the reverse order: nothing arrives any more, then nothing is generated any more,
  // and only then the API that events refer to goes.
  std::unique_ptr<api::Api> api;
  std::unique_ptr<Runtime> runtime;
  IoThread io(*server);
  Progress bar(out, isatty(STDOUT_FILENO) != 0, "  loading", clock);
  BH_ASSIGN(runtime, Runtime::start(prepared.plan, prepared.kernels, checkpoint, clock, registry,
                                    [&bar](const model::LoadProgress& at) {
                                      bar.update(at.bytes_done, at.bytes_total);
                                    }));
  bar.finish();

  api::ModelCard card = card_of(options, checkpoint, runtime->facts());
  BH_TRY(card.defaults.validate(runtime->facts().vocabulary_size));
  api::ApiOptions api_options;
  if (!options.api_key.empty()) api_options.keys = {options.api_key};
  api_options.version = BULKHEAD_VERSION;
  api = std::make_unique<api::Api>(
      api::ApiDeps{
          .generator = runtime->generator(),
          .tokenizer = *text.tokenizer,
          .chat_template = text.chat_template ? &*text.chat_template : nullptr,
          .registry = registry,
          .logger = logger,
          .clock = clock,
          .post = [&server](std::function<void()> task) { server->post(std::move(task)); }},
      std::move(card), api_options);
  gate.open(api->handler());

  out << ready_text(Reach{.url = url_of(options, server->port()),
                          .model_name = name,
                          .key_needed = !options.api_key.empty(),
                          .has_chat = text.chat_template.has_value(),
                          .ready_seconds = base::to_seconds(clock.now() - started)})
      << std::flush;
  BH_TRY(write_port_file(options.port_file, server->port()));
  serve_until_told(signals, options, *runtime, io, logger);
  return {};
}

}  // namespace bulkhead::serve
