#include "serve/server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "api/api.h"
#include "constraint/compiler.h"
#include "http/server.h"
#include "serve/banner.h"
#include "serve/http_side.h"
#include "serve/plan.h"
#include "serve/port_file.h"
#include "serve/progress.h"
#include "serve/roles/gateway/gateway_runtime.h"
#include "serve/roles/gateway/no_constraints.h"
#include "serve/roles/worker/worker_process.h"
#include "serve/runtime.h"
#include "serve/signals.h"
#include "serve/start_metrics.h"
#include "serve/text_loading.h"

namespace bulkhead::serve {
namespace {

using std::chrono::milliseconds;

base::Status check_host(const ServeOptions& options, const Keys& keys) {
  if (options.model.inject_faults && !is_loopback(options.host)) {
    return base::invalid_argument(
        "--inject-faults",
        fmt::format("--inject-faults lets whoever administers the server damage its cache; it is "
                    "for tests on loopback, and --host is {}",
                    options.host));
  }
  return check_exposure("--host", "--host " + options.host, options.host, keys);
}

api::ModelCard card_of(const ServeOptions& options, const model::Checkpoint& checkpoint,
                       const model::ModelFacts& facts, const TextSide& text) {
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
  card.chat_template = text.chat_template_source;
  card.tool_format = text.formats.tools;
  card.reasoning_format = text.formats.reasoning;
  card.defaults.eos_ids = recommended.eos_ids;
  card.defaults.temperature = recommended.temperature.value_or(1.0f);
  card.defaults.top_p = recommended.top_p.value_or(1.0f);
  card.defaults.top_k = recommended.top_k.value_or(0);
  card.defaults.repetition_penalty = recommended.repetition_penalty.value_or(1.0f);
  return card;
}

// Waits for the signal to end, then lets running requests finish; a second one cuts it short.
void serve_until_told(const Signals& signals, const ServeOptions& options, Engine& runtime,
                      api::Api& api, IoThread& io, base::Logger& logger) {
  for (Signal signal = Signal::kNone; signal != Signal::kEnd;) {
    signal = signals.wait(milliseconds(1000));
    if (signal == Signal::kReload) {
      reload_keys(
          options, [&api](std::vector<std::string> keys) { api.replace_keys(std::move(keys)); },
          logger);
    }
  }
  const wire::GeneratorStatus status = runtime.generator().status();
  logger.info("draining", {{"running", uint64_t{status.running}},
                           {"waiting", uint64_t{status.waiting}},
                           {"timeout_s", int64_t{options.drain_timeout.count()}}});
  runtime.drain(options.drain_timeout);
  while (!runtime.drained()) {
    if (signals.wait(milliseconds(50)) == Signal::kEnd) {
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

api::PoolFacts facts_of(const PoolPlan& plan) {
  return {.weights = plan.products(),
          .cache_dtype = std::string(kv::to_string(plan.layout.format))};
}

api::ApiOptions api_options_of(const ServeOptions& options, const Keys& keys,
                               api::EngineFacts engine) {
  api::ApiOptions out;
  out.engine = std::move(engine);
  out.keys = keys.api;
  out.admin_key = keys.admin;
  out.loopback_only = is_loopback(options.host);
  out.version = BULKHEAD_VERSION;
  if (options.request_timeout.count() > 0) out.request_timeout = options.request_timeout;
  out.higher_priority_first = options.higher_priority_first;
  out.reasoning_field = options.reasoning_field;
  return out;
}

api::EngineFacts engine_facts(const Plan& plan) {
  api::EngineFacts out;
  out.page_tokens = plan.layout.page_tokens;
  out.prefill_chunk_tokens = plan.prefill_chunk_tokens;
  out.threads = plan.threads;
  out.isa = std::string(device::to_string(plan.isa));
  out.decode = facts_of(plan);
  if (plan.prefill) out.prefill = facts_of(*plan.prefill);
  return out;
}

// Tokenizer and template, and what they tell of the model's chats. What the operator says goes
// before that.
base::Result<TextSide> prepare_text(const ServeOptions& options,
                                    const model::Checkpoint& checkpoint, std::ostream& out) {
  BH_ASSIGN(TextSide text, load_text(checkpoint, options.model.chat_template_path));
  if (options.tool_format) {
    text.formats.tools = *options.tool_format;
    text.formats.tools_reason = "as --tool-call-parser says";
  }
  if (options.reasoning_format) {
    text.formats.reasoning = *options.reasoning_format;
    text.formats.reasoning_reason = "as --reasoning-parser says";
  }
  out << formats_text(text.formats) << std::flush;
  return text;
}

// What a gateway knows before anybody has joined it.
struct Gateway {
  roles::Identity identity;
  RoleOptions members;  // their addresses as numbers
};

base::Result<Gateway> prepare_gateway(const ServeOptions& options,
                                      const model::Checkpoint& checkpoint, std::ostream& out) {
  Gateway gateway;
  BH_ASSIGN(gateway.identity, roles::make_identity(options, checkpoint));
  BH_ASSIGN(gateway.members, roles::resolve_members(options.roles));
  out << gateway_text(options.roles) << std::flush;
  return gateway;
}

// What lives as long as the server answers. Members end in the reverse order: nothing arrives any
// more, then nothing is generated any more, and only then the API that events refer to goes.
struct Serving {
  std::unique_ptr<api::Api> api;
  std::unique_ptr<wire::ConstraintCompiler> constraints;  // tells the Api what it compiled
  std::unique_ptr<Engine> engine;
  std::unique_ptr<IoThread> io;
};

// Where everything of a start comes together.
struct Start {
  const ServeOptions& options;
  const model::Checkpoint& checkpoint;
  const base::Clock& clock;
  const Signals& signals;
  telemetry::Registry& registry;
  base::Logger& logger;
  LoadingGate& gate;
  std::ostream& out;
};

// What runs the requests, and what there is to say of it.
struct Loaded {
  std::unique_ptr<Engine> engine;
  model::ModelFacts facts;
  api::EngineFacts told;
};

base::Result<Loaded> load_model(const Start& start, const Prepared& prepared) {
  Loaded loaded;
  register_plan(start.registry, prepared.plan, prepared.kernels);
  Progress bar(start.out, isatty(STDOUT_FILENO) != 0, "  loading", start.clock);
  BH_ASSIGN(
      std::unique_ptr<Runtime> runtime,
      Runtime::start(prepared.plan, prepared.kernels, start.checkpoint, start.clock, start.registry,
                     &start.logger, [&bar, &start](const model::LoadProgress& at) {
                       bar.update(at.bytes_done, at.bytes_total);
                       start.gate.progress(at.bytes_done, at.bytes_total);
                     }));
  bar.finish();
  loaded.facts = runtime->facts();
  loaded.told = engine_facts(prepared.plan);
  loaded.engine = std::move(runtime);
  return loaded;
}

// A gateway has no weights: it waits for its workers instead.
base::Result<Loaded> join_workers(const Start& start, const Gateway& gateway) {
  Loaded loaded;
  const model::ModelConfig& config = start.checkpoint.config();
  ServeOptions options = start.options;
  options.roles = gateway.members;
  BH_ASSIGN(std::unique_ptr<roles::GatewayRuntime> runtime,
            roles::GatewayRuntime::start(
                options, gateway.identity, config, start.clock, start.registry, start.logger,
                [&start] { return start.signals.wait(milliseconds(5)) != Signal::kEnd; }));
  start.out << members_text(runtime->members()) << std::flush;
  loaded.facts.name = start.checkpoint.name();
  loaded.facts.parameters = start.checkpoint.describe().parameters;
  loaded.facts.vocabulary_size = config.vocabulary;
  loaded.facts.context_tokens = config.context;
  loaded.told.page_tokens = start.options.model.page_tokens;
  loaded.told.prefill_chunk_tokens = start.options.model.prefill_chunk_tokens;
  loaded.told.isa = "none";
  loaded.told.remote = true;
  loaded.engine = std::move(runtime);
  return loaded;
}

base::Result<std::unique_ptr<wire::ConstraintCompiler>> make_constraints(
    const Start& start, const TextSide& text, int32_t vocabulary,
    std::span<const wire::TokenId> end_ids) {
  if (start.options.roles.role == Role::kGateway) {
    return std::unique_ptr<wire::ConstraintCompiler>(std::make_unique<roles::NoConstraints>());
  }
  BH_ASSIGN(std::unique_ptr<constraint::Compiler> compiler,
            constraint::Compiler::create(
                constraint_vocabulary(*text.tokenizer, vocabulary, end_ids), {}, start.registry));
  return std::unique_ptr<wire::ConstraintCompiler>(std::move(compiler));
}

std::unique_ptr<api::Api> make_api(const Start& start, const Serving& serving, http::Server& server,
                                   const TextSide& text, api::ModelCard card,
                                   const api::ApiOptions& options) {
  return std::make_unique<api::Api>(
      api::ApiDeps{.generator = serving.engine->generator(),
                   .tokenizer = *text.tokenizer,
                   .chat_template = text.chat_template ? &*text.chat_template : nullptr,
                   .registry = start.registry,
                   .logger = start.logger,
                   .clock = start.clock,
                   .post = [&server](std::function<void()> task) { server.post(std::move(task)); },
                   .post_after =
                       [&server](milliseconds delay, std::function<void()> task) {
                         server.post_after(delay, std::move(task));
                       },
                   .constraints = serving.constraints.get(),
                   .integrity = serving.engine->integrity(),
                   .workers = [&engine = *serving.engine] { return engine.workers(); }},
      std::move(card), options);
}

}  // namespace

base::Status run_server(const ServeOptions& options, std::ostream& out, std::ostream& log) {
  if (options.roles.role == Role::kPrefill || options.roles.role == Role::kDecode) {
    return roles::run_worker(options, out, log);
  }
  const base::SteadyClock clock;
  const base::Nanoseconds started = clock.now();
  BH_TRY(roles::check_roles(options));
  BH_ASSIGN(const Keys keys, collect_keys(options));
  BH_TRY(check_host(options, keys));
  BH_ASSIGN(const model::Checkpoint checkpoint, model::Checkpoint::open(options.model.model_path));
  const bool is_gateway = options.roles.role == Role::kGateway;
  std::optional<Prepared> prepared;
  std::optional<Gateway> gateway;
  if (is_gateway) {
    BH_ASSIGN(gateway, prepare_gateway(options, checkpoint, out));
  } else {
    BH_ASSIGN(prepared, prepare(options, checkpoint, out));
  }
  if (options.dry_run) {
    BH_TRY(prepare_text(options, checkpoint, out));
    return {};
  }

  const Signals signals;
  base::Logger logger(log, options.log_format, options.log_level);
  warn_of_open_file(keys, logger);
  const std::string name =
      options.served_model_name.empty() ? checkpoint.name() : options.served_model_name;
  telemetry::Registry registry({{"model_name", name}});

  LoadingGate gate(clock);
  BH_ASSIGN(const std::unique_ptr<http::Server> server,
            listen_http({.host = options.host, .port = options.port}, gate, logger));
  BH_ASSIGN(const TextSide text, prepare_text(options, checkpoint, out));
  Serving serving;
  serving.io = std::make_unique<IoThread>(*server);
  const base::Nanoseconds load_started = clock.now();
  const Start start{options, checkpoint, clock, signals, registry, logger, gate, out};
  BH_ASSIGN(Loaded loaded,
            is_gateway ? join_workers(start, *gateway) : load_model(start, *prepared));
  serving.engine = std::move(loaded.engine);

  api::ModelCard card = card_of(options, checkpoint, loaded.facts, text);
  BH_TRY(card.defaults.validate(loaded.facts.vocabulary_size));
  api::ApiOptions api_options = api_options_of(options, keys, std::move(loaded.told));
  api_options.engine.load_seconds = base::to_seconds(clock.now() - load_started);
  api_options.engine.ready_seconds = base::to_seconds(clock.now() - started);
  register_start(registry, api_options.engine.load_seconds, api_options.engine.ready_seconds);
  BH_ASSIGN(serving.constraints,
            make_constraints(start, text, loaded.facts.vocabulary_size, card.defaults.eos_ids));
  serving.api = make_api(start, serving, *server, text, std::move(card), api_options);
  gate.open(serving.api->handler());

  out << ready_text(Reach{.url = url_text(options.host, server->port()),
                          .model_name = name,
                          .keys = keys.api.size(),
                          .admin_key = !keys.admin.empty(),
                          .has_chat = text.chat_template.has_value(),
                          .ready_seconds = base::to_seconds(clock.now() - started)})
      << std::flush;
  BH_TRY(write_port_file(options.port_file, server->port()));
  serve_until_told(signals, options, *serving.engine, *serving.api, *serving.io, logger);
  return {};
}

}  // namespace bulkhead::serve
