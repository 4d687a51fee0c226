#include "serve/roles/worker/worker_process.h"

#include <fmt/format.h>
#include <openssl/sha.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "device/thread_pool.h"
#include "device/thread_tuning.h"
#include "engine/executor.h"
#include "kernels/kernel_set.h"
#include "kv/prefix_index.h"
#include "model/loader.h"
#include "sampling/sampler.h"
#include "serve/banner.h"
#include "serve/plan.h"
#include "serve/pool_integrity.h"
#include "serve/port_file.h"
#include "serve/progress.h"
#include "serve/roles/deployment.h"
#include "serve/roles/worker/decode_worker.h"
#include "serve/roles/worker/prefill_worker.h"
#include "serve/roles/worker/receiving_link.h"
#include "serve/roles/worker/sending_link.h"
#include "serve/roles/worker/worker_http.h"
#include "serve/signals.h"
#include "serve/start_metrics.h"
#include "transfer/converting_link.h"
#include "transfer/remote/socket_address.h"
#include "transfer/remote/ucx_transport.h"
#include "wire/secrets.h"

namespace bulkhead::serve::roles {
namespace {

using std::chrono::milliseconds;
using transfer::remote::Transport;

// An idle worker looks for frames so often.
constexpr std::chrono::microseconds kIdlePause{500};
// How long a process that ends waits for its last words to leave.
constexpr std::chrono::seconds kFarewellMax{2};

struct Machine {
  device::CpuFacts cpu;
  Plan plan;
  kernels::KernelSet kernels;
};

// Where everything of a start comes together.
struct Start {
  const ServeOptions& options;
  const model::Checkpoint& checkpoint;
  const Identity& identity;
  const Machine& machine;
  const base::Clock& clock;
  telemetry::Registry& registry;
  base::Logger& logger;
};

// What a worker is made of, in the order in which it is built.
struct Parts {
  std::unique_ptr<Transport> control;
  std::unique_ptr<Transport> pages_transport;
  std::unique_ptr<device::ThreadPool> threads;
  std::unique_ptr<model::Decoder> decoder;
  std::unique_ptr<kv::PagePool> pages;
  PoolIntegrity integrity;
  std::unique_ptr<kv::PrefixIndex> index;  // of prefill
  std::unique_ptr<engine::Executor> executor;
  std::unique_ptr<sampling::Sampler> sampler;
  std::unique_ptr<PrefillHandoff> sending;   // of prefill
  std::unique_ptr<DecodeHandoff> receiving;  // of decode
  std::unique_ptr<wire::PrefillPort> prefill;
  std::unique_ptr<wire::DecodePort> decode;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<WorkerHttp> http;  // bound before anything is loaded; null: nobody asked for it
};

// The step thread, joined whatever happens.
class WorkerThread {
 public:
  explicit WorkerThread(Worker& worker) : worker_(worker), thread_([this] { run(); }) {}
  ~WorkerThread() {
    ended_.store(true, std::memory_order_relaxed);
    thread_.join();
  }

 private:
  void run() {
    device::name_thread("bulkhead-step");
    while (!ended_.load(std::memory_order_relaxed)) {
      if (worker_.step() == wire::StepOutcome::kIdle) std::this_thread::sleep_for(kIdlePause);
    }
  }

  Worker& worker_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

model::StepLimits step_limits(const Plan& plan, Role role) {
  const auto running = static_cast<int32_t>(plan.running_max);
  model::StepLimits limits;
  limits.rows_max = role == Role::kPrefill ? std::max(plan.prefill_chunk_tokens, running) : running;
  limits.logits_rows_max = running;
  limits.slices_max = running;
  return limits;
}

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

base::Status open_sockets(const ServeOptions& options, Parts& parts) {
  // A worker that was killed may come back at its address at once. No other thread runs yet.
  for (const char* name : {"UCX_TCP_CM_REUSEADDR", "UCX_CM_REUSEADDR"}) setenv(name, "y", 0);
  BH_ASSIGN(parts.control, transfer::remote::make_ucx_transport({.listen = options.roles.listen}));
  transfer::remote::UcxOptions pages;
  if (options.roles.role == Role::kDecode) pages.listen = host_of(options.roles.listen) + ":0";
  BH_ASSIGN(parts.pages_transport, transfer::remote::make_ucx_transport(pages));
  return {};
}

// One for all pools of a deployment: from the secret that its processes share.
kv::integrity::Mark stamp_key(const Identity& identity) {
  const std::string text = "stamps of cache pages\n" + identity.key;
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const uint8_t*>(text.data()), text.size(), digest.data());
  kv::integrity::Mark mark;
  std::memcpy(&mark.high, digest.data(), sizeof mark.high);
  std::memcpy(&mark.low, digest.data() + sizeof mark.high, sizeof mark.low);
  return mark;
}

base::Status load(const Start& start, const model::ProgressFn& progress, Parts& parts) {
  const Plan& plan = start.machine.plan;
  const Role role = start.options.roles.role;
  device::ThreadPoolOptions threads;
  threads.threads = plan.threads;
  parts.threads = std::make_unique<device::ThreadPool>(threads);
  BH_ASSIGN(parts.decoder,
            model::load_decoder(start.checkpoint, plan.load_options(), start.machine.kernels,
                                *parts.threads, step_limits(plan, role), progress));
  const std::string name = role == Role::kPrefill ? "prefill" : "decode";
  kv::PagePoolOptions pages;
  pages.pages = plan.pages;
  pages.boot_nonce = static_cast<uint16_t>(wire::draw_word());
  pages.integrity = {plan.integrity, name, &start.logger, stamp_key(start.identity)};
  BH_ASSIGN(parts.pages, kv::PagePool::create(plan.layout, pages));
  parts.integrity.add(name, *parts.pages, nullptr);
  BH_ASSIGN(parts.executor, engine::Executor::create(*parts.decoder, parts.pages->view()));
  parts.sampler = std::make_unique<sampling::Sampler>(parts.decoder->facts().vocabulary_size);
  return {};
}

WorkerOptions worker_options(const Start& start, const Parts& parts) {
  WorkerOptions out{.session = worker_session(start.options, start.identity, start.machine.plan)};
  if (parts.http) out.session.identity.http_address = parts.http->address();
  return out;
}

base::Status wire_prefill(const Start& start, Parts& parts) {
  const Plan& plan = start.machine.plan;
  const kv::PageLayout destination = decode_layout(start.options, start.checkpoint.config());
  BH_ASSIGN(transfer::PageToBytes convert, transfer::page_to_bytes(plan.layout, destination));
  const std::string name =
      fmt::format("{}/{}/{}/{}", parts.decoder->facts().name, parts.decoder->facts().weight_format,
                  plan.layout.id(), device::to_string(plan.isa));
  parts.index = std::make_unique<kv::PrefixIndex>(
      *parts.pages,
      kv::PrefixIndexOptions{plan.prefix_cache, name, wire::draw_bytes<sizeof(kv::PrefixKey)>()});
  transfer::remote::SenderOptions sender;
  sender.session = handoff_session(start.options, start.identity, plan.layout, destination);
  parts.sending = std::make_unique<SendingLink>(
      sender, SendingDeps{*parts.pages, destination, std::move(convert), *parts.pages_transport,
                          start.clock, &start.logger});
  parts.prefill = std::make_unique<prefill::PrefillPool>(
      prefill::PrefillOptions{.chunk_tokens = plan.prefill_chunk_tokens,
                              .sequences_max = plan.running_max,
                              .shares_pages = false,
                              .scrub = {.pages_at_rest = plan.scrub_pages}},
      prefill::PrefillDeps{*parts.pages, *parts.index, *parts.executor, *parts.sampler,
                           *parts.sending});
  parts.worker =
      std::make_unique<PrefillWorker>(worker_options(start, parts), *parts.control, *parts.prefill,
                                      *parts.sending, start.clock, &start.logger);
  return {};
}

void wire_decode(const Start& start, Parts& parts) {
  const Plan& plan = start.machine.plan;
  WorkerOptions worker = worker_options(start, parts);
  worker.session.identity.transfer_address = parts.pages_transport->address();
  transfer::remote::ReceiverOptions receiver;
  receiver.session = handoff_session(start.options, start.identity, plan.layout, plan.layout);
  receiver.bounds = worker.session.bounds;
  parts.receiving = std::make_unique<ReceivingLink>(
      receiver, ReceivingDeps{*parts.pages, *parts.pages_transport, start.clock, &start.logger});
  parts.decode = std::make_unique<decode::DecodePool>(
      decode::DecodeOptions{.running_max = plan.running_max},
      decode::DecodeDeps{*parts.executor, *parts.sampler, *parts.receiving, nullptr,
                         parts.pages.get()});
  parts.worker = std::make_unique<DecodeWorker>(worker, *parts.control, *parts.decode,
                                                *parts.receiving, start.clock, &start.logger);
}

// Everything between the bound sockets and the first step.
base::Status build(const Start& start, std::ostream& out, Parts& parts) {
  const base::Nanoseconds began = start.clock.now();
  Progress bar(out, isatty(STDOUT_FILENO) != 0, "  loading", start.clock);
  BH_TRY(load(
      start,
      [&bar, &parts](const model::LoadProgress& at) {
        bar.update(at.bytes_done, at.bytes_total);
        if (parts.http) parts.http->progress(at);
      },
      parts));
  bar.finish();
  const double load_seconds = base::to_seconds(start.clock.now() - began);
  if (start.options.roles.role == Role::kPrefill) {
    BH_TRY(wire_prefill(start, parts));
  } else {
    wire_decode(start, parts);
  }
  if (!parts.http) return {};
  register_plan(start.registry, start.machine.plan, start.machine.kernels);
  register_start(start.registry, load_seconds, base::to_seconds(start.clock.now() - began));
  parts.integrity.register_metrics(start.registry);
  parts.http->open(
      start.registry, [worker = parts.worker.get()] { return worker->status(); }, parts.integrity,
      parts.decoder->facts().weight_bytes);
  return {};
}

// What can be known to fail before the weights are loaded.
base::Status check_worker(const ServeOptions& options, const model::Checkpoint& checkpoint,
                          const Plan& plan) {
  auto address = transfer::remote::resolve(options.roles.listen);
  if (!address.ok()) return std::move(address).error().within("--listen");
  BH_TRY(WorkerHttp::check(options));
  if (options.roles.role != Role::kPrefill) return {};
  auto convert =
      transfer::page_conversion(plan.layout, decode_layout(options, checkpoint.config()));
  if (convert.ok()) return {};
  return std::move(convert).error().within("--prefill.kv and --decode.kv");
}

void serve_until_told(const Signals& signals, const Start& start, const Parts& parts) {
  const base::Clock& clock = start.clock;
  base::Logger& logger = start.logger;
  Worker& worker = *parts.worker;
  for (Signal signal = Signal::kNone; signal != Signal::kEnd;) {
    signal = signals.wait(milliseconds(1000));
    if (signal == Signal::kReload && parts.http) parts.http->reload_keys();
  }
  const std::chrono::seconds drain_timeout = start.options.drain_timeout;
  logger.info("draining", {{"timeout_s", int64_t{drain_timeout.count()}}});
  worker.drain();
  const base::Nanoseconds end = clock.now() + drain_timeout;
  while (!worker.has_left() && clock.now() < end) {
    if (signals.wait(milliseconds(5)) != Signal::kEnd) continue;
    logger.warning("second signal: leaving at once");
    break;
  }
  // Whatever is held: nobody should have to find out.
  worker.leave_now();
  const base::Nanoseconds last = clock.now() + kFarewellMax;
  while (!worker.has_left() && clock.now() < last) signals.wait(milliseconds(5));
  logger.info("stopped");
}

}  // namespace

base::Status run_worker(const ServeOptions& options, std::ostream& out, std::ostream& log) {
  const base::SteadyClock clock;
  BH_TRY(check_roles(options));
  BH_ASSIGN(const model::Checkpoint checkpoint, model::Checkpoint::open(options.model.model_path));
  BH_ASSIGN(const Identity identity, make_identity(options, checkpoint));
  Machine machine;
  machine.cpu = device::detect_cpu();
  BH_ASSIGN(machine.plan, worker_plan(options, checkpoint, machine.cpu));
  BH_ASSIGN(machine.kernels, kernels::select_kernels(machine.cpu, machine.plan.isa));
  out << plan_text(machine.plan, checkpoint, machine.cpu, machine.kernels.description,
                   options.roles.role)
      << std::flush;
  BH_TRY(check_worker(options, checkpoint, machine.plan));
  if (options.dry_run) return {};

  const Signals signals;
  base::Logger logger(log, options.log_format, options.log_level);
  telemetry::Registry registry({{"model_name", checkpoint.name()}});
  const Start start{options, checkpoint, identity, machine, clock, registry, logger};
  Parts parts;
  BH_TRY(open_sockets(options, parts));
  BH_ASSIGN(parts.http, WorkerHttp::listen(options, clock, logger));
  BH_TRY(build(start, out, parts));
  const std::string address = parts.control->address();
  out << worker_text(options.roles.role, address, parts.http ? parts.http->url() : "",
                     transfer::remote::ucx_version())
      << std::flush;
  const WorkerThread thread(*parts.worker);
  BH_TRY(write_port_file(options.port_file, port_of(address)));
  serve_until_told(signals, start, parts);
  return {};
}

}  // namespace bulkhead::serve::roles
