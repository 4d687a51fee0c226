#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/check.h"
#include "decode/decode_pool.h"
#include "engine/executor.h"
#include "kv/invariants.h"
#include "kv/prefix_index.h"
#include "prefill/prefill_pool.h"
#include "serve/roles/worker/decode_worker.h"
#include "serve/roles/worker/prefill_worker.h"
#include "serve/roles/worker/receiving_link.h"
#include "serve/roles/worker/sending_link.h"
#include "sim/oracle_decoder.h"
#include "sim/process.h"
#include "sim/timing.h"

namespace bulkhead::sim {
namespace {

using serve::roles::WorkerOptions;
using transfer::remote::SessionOptions;

constexpr model::StepLimits kLimits{.rows_max = 64, .logits_rows_max = 64, .slices_max = 16};

template <typename T>
T take(base::Result<T> result) {
  BH_CHECK(result.ok(), result.error().message);
  return std::move(result).value();
}

std::unique_ptr<kv::PagePool> make_pages(const SwarmConfig& config, int32_t pages,
                                         const Birth& birth, Damage& damage) {
  auto pool = take(kv::PagePool::create(sim_layout(config.layers),
                                        {.pages = pages,
                                         .boot_nonce = static_cast<uint16_t>(birth.nonce),
                                         .poison_free = true,
                                         .integrity = {.mode = config.integrity},
                                         .faults = &damage.injector()}));
  damage.injector().attach(*pool);
  return pool;
}

void count_handoff(const serve::roles::HandoffTotals& totals, RunStats& stats) {
  const auto add = [&stats](Mechanism mechanism, uint64_t count) {
    stats.noticed[static_cast<size_t>(mechanism)] += count;
  };
  add(Mechanism::kChecksum, totals.damaged_frames);
  add(Mechanism::kSequence, totals.repeated_frames);
  add(Mechanism::kFence, totals.refused_writes);
  add(Mechanism::kCover, totals.pages_asked_again);
  add(Mechanism::kRecord, totals.refused_records);
  add(Mechanism::kLease, totals.leases_expired);
  add(Mechanism::kSession, totals.sessions_lost);
}

WorkerOptions worker_options(const SwarmConfig& config, const Birth& birth,
                             const kv::PagePool& pages, const std::string& transfer_address) {
  WorkerOptions out;
  out.session = control_session(birth);
  wire::WorkerHello& hello = out.session.identity;
  hello.role =
      birth.role == Role::kPrefill ? wire::WorkerRole::kPrefill : wire::WorkerRole::kDecode;
  hello.label = fmt::format("{}-{}", to_string(hello.role), birth.number);
  hello.weights = hello.kv = "bf16";
  hello.layout = pages.layout().id();
  hello.page_tokens = pages.layout().page_tokens;
  hello.pages = pages.counts().total;
  hello.context_tokens = std::min(kContext, hello.pages * hello.page_tokens);
  hello.sequences_max = config.sequences_max;
  hello.transfer_address = transfer_address;
  hello.boot_nonce = birth.nonce;
  out.start_max = kStartMax;
  return out;
}

SessionOptions handoff_session(const SwarmConfig& config, const Birth& birth,
                               const kv::PagePool& pages) {
  SessionOptions out;
  transfer::remote::Hello& hello = out.identity;
  hello.role = birth.role == Role::kPrefill ? transfer::remote::Role::kPrefill
                                            : transfer::remote::Role::kDecode;
  hello.product = "sim";
  hello.pool_layout = hello.wire_layout = pages.layout().id();
  hello.page_tokens = static_cast<uint32_t>(pages.layout().page_tokens);
  hello.page_bytes = pages.layout().page_bytes();
  hello.scale_rule = "none";
  hello.chunk_bytes = config.wire_chunk_bytes;
  hello.boot_nonce = birth.nonce;
  out.peer_key = kKey;
  out.heartbeat = kHeartbeat;
  out.silence_max = kSilence;
  out.linger = kLinger;
  out.window_frames = config.window_frames;
  out.draw_id = [rng = base::Rng(birth.nonce, 0x1d)]() mutable {
    const uint64_t high = rng.bits();
    return transfer::remote::Id128{high, rng.bits()};
  };
  return out;
}

transfer::remote::SenderOptions sender_options(const SwarmConfig& config, const Birth& birth,
                                               const kv::PagePool& pages) {
  transfer::remote::SenderOptions out;
  out.session = handoff_session(config, birth, pages);
  out.grant_wait = kLease;
  out.commit_retry = kCommitRetry;
  return out;
}

transfer::remote::ReceiverOptions receiver_options(const SwarmConfig& config, const Birth& birth,
                                                   const kv::PagePool& pages) {
  transfer::remote::ReceiverOptions out;
  out.session = handoff_session(config, birth, pages);
  out.bounds = {kVocabulary, kContext};
  out.lease = kLease;
  return out;
}

void copy_page(std::span<const std::byte> page, int32_t, std::span<std::byte> out) {
  std::memcpy(out.data(), page.data(), out.size());
}

void add_leases(std::vector<kv::PageRef>& holders, std::span<const engine::Sequence> sequences) {
  for (const engine::Sequence& sequence : sequences) {
    for (const kv::Lease& lease : sequence.pages.leases()) holders.push_back(lease.ref());
  }
}

std::string look(LabelBook& labels, std::span<const engine::Sequence> sequences) {
  std::string wrong;
  for (const engine::Sequence& sequence : sequences) wrong += labels.look(sequence);
  return wrong;
}

// What a worker of either role is made around: sockets, model, pages and what damages them.
class WorkerProcess : public Process {
 public:
  std::string audit() final {
    if (damage_.struck()) return {};
    return kv::describe(kv::validate(pages_->snapshot(), holders())) + look(labels_, sequences());
  }
  std::string audit_quiet() override { return kv::describe(kv::validate_idle(pages_->snapshot())); }
  bool can_be_damaged() const final { return true; }
  void damage(FaultKind kind, uint64_t) final { damage_.order(kind); }
  void count(RunStats& stats) const override {
    count_decoder(decoder_, stats);
    stats.struck += damage_.done();
    count_pool(*pages_, stats);
  }

 protected:
  WorkerProcess(const SwarmConfig& config, const Birth& birth, SimNet& net, std::string_view role,
                const std::string& transfer_address, int32_t pages)
      : control_(net.join(birth.id, control_address(role, birth.number))),
        transport_(net.join(birth.id, transfer_address)),
        decoder_(config.layers, kLimits),
        damage_(birth.nonce),
        pages_(make_pages(config, pages, birth, damage_)),
        executor_(take(engine::Executor::create(decoder_, pages_->view()))),
        sampler_(kVocabulary),
        labels_(pages) {}

  // Who holds pages, and whose pages the pool reads.
  virtual std::vector<kv::PageRef> holders() const = 0;
  virtual std::span<const engine::Sequence> sequences() const = 0;

  std::unique_ptr<transfer::remote::Transport> control_;
  std::unique_ptr<transfer::remote::Transport> transport_;
  OracleDecoder decoder_;
  Damage damage_;
  std::unique_ptr<kv::PagePool> pages_;
  std::unique_ptr<engine::Executor> executor_;
  sampling::Sampler sampler_;

 private:
  LabelBook labels_;
};

class PrefillProcess final : public WorkerProcess {
 public:
  PrefillProcess(const SwarmConfig& config, const Birth& birth, SimNet& net,
                 const base::Clock& clock)
      : WorkerProcess(config, birth, net, "prefill", "", config.prefill_pages),
        index_(*pages_, {.enabled = config.prefix_cache,
                         .identity = "sim",
                         .secret = {1},
                         .key_bits = config.key_bits}),
        link_(sender_options(config, birth, *pages_),
              {*pages_, pages_->layout(), copy_page, *transport_, clock}),
        pool_({config.chunk_tokens, config.sequences_max, false},
              {*pages_, index_, *executor_, sampler_, link_}),
        worker_(worker_options(config, birth, *pages_, ""), *control_, pool_, link_, clock,
                nullptr) {}

  void step() override { worker_.step(); }
  bool is_quiet() const override { return worker_.attempts() == 0 && link_.in_transit() == 0; }
  std::string audit_quiet() override {
    index_.clear();
    return WorkerProcess::audit_quiet();
  }
  void count(RunStats& stats) const override {
    WorkerProcess::count(stats);
    count_handoff(link_.totals(), stats);
    stats.evicted_pages += index_.evicted_pages();
  }

 private:
  std::vector<kv::PageRef> holders() const override {
    std::vector<kv::PageRef> out = index_.holders();
    add_leases(out, pool_.sequences());
    link_.add_holders(out);
    return out;
  }
  std::span<const engine::Sequence> sequences() const override { return pool_.sequences(); }

  kv::PrefixIndex index_;
  serve::roles::SendingLink link_;
  prefill::PrefillPool pool_;
  serve::roles::PrefillWorker worker_;
};

class DecodeProcess final : public WorkerProcess {
 public:
  DecodeProcess(const SwarmConfig& config, const Birth& birth, SimNet& net,
                const base::Clock& clock)
      : WorkerProcess(config, birth, net, "decode", fmt::format("decode-{}/pages", birth.number),
                      config.pages),
        link_(receiver_options(config, birth, *pages_), {*pages_, *transport_, clock}),
        pool_({config.sequences_max}, {*executor_, sampler_, link_, nullptr, pages_.get()}),
        worker_(worker_options(config, birth, *pages_, transport_->address()), *control_, pool_,
                link_, clock, nullptr) {}

  void step() override { worker_.step(); }
  bool is_quiet() const override {
    return worker_.attempts() == 0 && link_.in_transit() == 0 && link_.quarantined_pages() == 0;
  }
  void count(RunStats& stats) const override {
    WorkerProcess::count(stats);
    count_handoff(link_.totals(), stats);
  }

 private:
  std::vector<kv::PageRef> holders() const override {
    std::vector<kv::PageRef> out;
    add_leases(out, pool_.sequences());
    link_.add_holders(out);
    return out;
  }
  std::span<const engine::Sequence> sequences() const override { return pool_.sequences(); }

  serve::roles::ReceivingLink link_;
  decode::DecodePool pool_;
  serve::roles::DecodeWorker worker_;
};

}  // namespace

std::unique_ptr<Process> make_prefill(const SwarmConfig& config, const Birth& birth, SimNet& net,
                                      const base::Clock& clock) {
  return std::make_unique<PrefillProcess>(config, birth, net, clock);
}

std::unique_ptr<Process> make_decode(const SwarmConfig& config, const Birth& birth, SimNet& net,
                                     const base::Clock& clock) {
  return std::make_unique<DecodeProcess>(config, birth, net, clock);
}

}  // namespace bulkhead::sim
