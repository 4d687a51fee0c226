// Prefill and decode in two real processes over UCX, and what is left when one of them is killed.
//
// The executable runs itself: with --role it is the other worker.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

#include "base/rng.h"
#include "transfer/remote/codec.h"
#include "transfer/remote/testing/sides.h"
#include "transfer/remote/ucx_transport.h"

namespace bulkhead::transfer::remote {
namespace {

constexpr uint64_t kTransfers = 12;

TransferId transfer(uint64_t n) { return {31, n}; }
int32_t tokens_of(uint64_t n) { return 1 + static_cast<int32_t>(n * 7 % 60); }

// Far longer than anything here takes: against a test that hangs.
class Patience {
 public:
  bool is_over() const { return clock_.now() - begin_ > base::Nanoseconds{60'000'000'000}; }

 private:
  base::SteadyClock clock_;
  base::Nanoseconds begin_ = clock_.now();
};

// A moment of a worker's life at which it is killed.
struct Death {
  std::string at = "never";
  void check(const PrefillSide& side) const {
    const SenderCounters& counters = side.sender->counters();
    const bool now = (at == "connecting") || (at == "open" && side.sender->session().is_open()) ||
                     (at == "first-page" && counters.pages_sent >= 1) ||
                     (at == "mid-transfer" && counters.pages_sent >= 10) ||
                     (at == "record-sent" && counters.commits_sent >= 1);
    if (now) raise(SIGKILL);
  }
  void check(const DecodeSide& side) const {
    const ReceiverCounters& counters = side.receiver->counters();
    const bool now = (at == "connecting") || (at == "open" && side.receiver->session().is_open()) ||
                     (at == "granted" && side.receiver->open_grants() > 0) ||
                     (at == "filling" && counters.chunks_written >= 5) ||
                     (at == "accepted" && counters.commits_accepted >= 1);
    if (now) raise(SIGKILL);
  }
};

void begin(PrefillSide& side) {
  for (uint64_t n = 0; n < kTransfers; ++n) side.open(transfer(n), tokens_of(n));
}
void begin(DecodeSide& side) {
  for (uint64_t n = 0; n < kTransfers; ++n) side.grant(transfer(n), tokens_of(n));
}
void work(PrefillSide& side) { side.compute_some(); }
void work(DecodeSide&) {}
const Session& session_of(const PrefillSide& side) { return side.sender->session(); }
const Session& session_of(const DecodeSide& side) { return side.receiver->session(); }

// Runs one side until all its transfers have ended or its session has.
template <typename Side>
void run_side(Transport& transport, Side& side, const Death& death) {
  const Patience patience;
  bool begun = false;
  while (!patience.is_over()) {
    transport.progress();
    side.poll();
    death.check(side);
    if (!begun && session_of(side).is_open()) {
      begin(side);
      begun = true;
    }
    work(side);
    death.check(side);
    if (session_of(side).is_closed() || (begun && side.is_idle())) return;
  }
  ADD_FAILURE() << "the session hangs";
}

bool all_well(const PrefillSide& side) {
  size_t well = 0;
  for (const auto& [id, outcome] : side.outcomes) {
    well += outcome.end && outcome.end->fault == Fault::kNone ? 1 : 0;
  }
  return well == kTransfers;
}
bool all_well(const DecodeSide& side) {
  size_t well = 0;
  for (const auto& [id, outcome] : side.outcomes) well += outcome.right ? 1 : 0;
  return well == kTransfers;
}

constexpr int32_t kPages = 80;

// A machine that is busy with other things is no reason to count a peer as lost.
template <typename Side>
void be_patient(Side& side) {
  side.options.session.silence_max = base::Nanoseconds{30'000'000'000};
}

// The other worker: connects, works, and exits with 0 when all went well.
template <typename Side>
int run_child(const std::string& address, const Death& death) {
  auto transport = make_ucx_transport({});
  if (!transport.ok()) return 3;
  const base::SteadyClock clock;
  Side side(kPages);
  be_patient(side);
  auto connection = (*transport)->connect(address);
  if (!connection.ok()) return 4;
  side.connect(std::move(connection).value(), clock);
  run_side(**transport, side, death);
  const bool well = all_well(side);
  // The other side may still wait for the last answers: stay until it leaves.
  const Patience patience;
  while (!session_of(side).is_closed() && !patience.is_over()) {
    (*transport)->progress();
    side.poll();
  }
  return well ? 0 : 1;
}

class Child {
 public:
  Child(const std::string& role, const std::string& address, const std::string& death) {
    std::array<std::string, 4> words = {"/proc/self/exe", "--role=" + role, address, death};
    std::array<char*, 5> argv = {words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                                 nullptr};
    EXPECT_EQ(posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environ), 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      wait();
    }
  }
  // The exit code, or minus the signal.
  int wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  void signal(int number) const { kill(pid_, number); }

 private:
  pid_t pid_ = 0;
};

class Workers : public testing::Test {
 protected:
  void SetUp() override {
    auto made = make_ucx_transport({.listen = "127.0.0.1:0"});
    ASSERT_TRUE(made.ok()) << made.error().message;
    transport = std::move(made).value();
  }
  std::unique_ptr<Connection> accept() {
    const Patience patience;
    while (!patience.is_over()) {
      transport->progress();
      if (auto connection = transport->accept()) return connection;
    }
    return nullptr;
  }
  template <typename Side>
  void serve(Side& side) {
    auto connection = accept();
    ASSERT_NE(connection, nullptr);
    be_patient(side);
    side.connect(std::move(connection), clock);
    run_side(*transport, side, Death{});
  }
  static void leave(PrefillSide& side) { side.sender->close(Fault::kShutdown, "done"); }
  static void leave(DecodeSide& side) { side.receiver->close(Fault::kShutdown, "done"); }
  template <typename Side>
  void finish(Side& side) {
    leave(side);
    const Patience patience;
    while (!session_of(side).is_finished() && !patience.is_over()) {
      transport->progress();
      side.poll();
    }
  }

  base::SteadyClock clock;
  std::unique_ptr<Transport> transport;
};

TEST_F(Workers, MovePagesBetweenTwoProcesses) {
  for (const std::string other : {"prefill", "decode"}) {
    Child child(other, transport->address(), "never");
    if (other == "prefill") {
      DecodeSide side(kPages);
      serve(side);
      EXPECT_TRUE(all_well(side));
      finish(side);
      EXPECT_EQ(child.wait(), 0);
      EXPECT_EQ(side.pages->counts().available, kPages);
    } else {
      PrefillSide side(kPages);
      serve(side);
      EXPECT_TRUE(all_well(side));
      finish(side);
      EXPECT_EQ(child.wait(), 0);
      EXPECT_EQ(side.pages->counts().available, kPages);
    }
  }
}

TEST_F(Workers, SurviveThatPrefillIsKilledAtAnyStep) {
  for (const char* at : {"connecting", "open", "first-page", "mid-transfer", "record-sent"}) {
    SCOPED_TRACE(at);
    DecodeSide side(kPages);
    Child child("prefill", transport->address(), at);
    if (std::string(at) == "connecting") {
      EXPECT_EQ(child.wait(), -SIGKILL);
    } else {
      serve(side);
      EXPECT_EQ(child.wait(), -SIGKILL);
      EXPECT_EQ(session_of(side).why_closed().fault, Fault::kPeerLost);
    }
    for (const auto& [id, outcome] : side.outcomes) {
      EXPECT_TRUE(outcome.arrived ? outcome.right
                                  : outcome.end && outcome.end->fault == Fault::kPeerLost);
    }
    EXPECT_EQ(side.pages->counts().available, kPages);
  }
}

TEST_F(Workers, SurviveThatDecodeIsKilledAtAnyStep) {
  for (const char* at : {"open", "granted", "filling", "accepted"}) {
    SCOPED_TRACE(at);
    PrefillSide side(kPages);
    Child child("decode", transport->address(), at);
    serve(side);
    EXPECT_EQ(child.wait(), -SIGKILL);
    EXPECT_EQ(session_of(side).why_closed().fault, Fault::kPeerLost);
    for (const auto& [id, outcome] : side.outcomes) EXPECT_TRUE(outcome.end.has_value());
    side.forget();
    EXPECT_EQ(side.pages->counts().available, kPages);
  }
  // And serve the next one.
  Child child("decode", transport->address(), "never");
  PrefillSide side(kPages);
  serve(side);
  EXPECT_TRUE(all_well(side));
  finish(side);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Workers, AStoppedPeerCountsAsLostThoughItsConnectionStands) {
  Child child("prefill", transport->address(), "never");
  auto connection = accept();
  ASSERT_NE(connection, nullptr);
  DecodeSide side(kPages);
  side.options.session.silence_max = base::Nanoseconds{300'000'000};
  side.connect(std::move(connection), clock);
  const Patience patience;
  while (!session_of(side).is_open() && !patience.is_over()) {
    transport->progress();
    side.poll();
  }
  side.grant(transfer(99), 50);  // which prefill does not know
  child.signal(SIGSTOP);
  while (!session_of(side).is_closed() && !patience.is_over()) {
    transport->progress();
    side.poll();
  }
  EXPECT_EQ(session_of(side).why_closed().fault, Fault::kPeerLost);
  EXPECT_EQ(side.outcomes[transfer(99)].end->fault, Fault::kPeerLost);
  EXPECT_EQ(side.pages->counts().available, kPages);
  child.signal(SIGCONT);
  EXPECT_EQ(child.wait(), 1);  // it finds its session over
}

TEST_F(Workers, NobodyAtTheOtherEndIsAClosedSession) {
  auto connection = transport->connect("127.0.0.1:1");
  ASSERT_TRUE(connection.ok());
  DecodeSide side(kPages);
  side.connect(std::move(connection).value(), clock);
  run_side(*transport, side, Death{});
  EXPECT_EQ(session_of(side).why_closed().fault, Fault::kPeerLost);
}

// Two transports of one process, so that frames can be compared.
TEST(UcxFrames, OfEverySizeArriveWholeAndInOrder) {
  auto server = make_ucx_transport({.listen = "127.0.0.1:0"});
  auto client = make_ucx_transport({});
  ASSERT_TRUE(server.ok() && client.ok());
  auto connected = (*client)->connect((*server)->address());
  ASSERT_TRUE(connected.ok());
  const std::unique_ptr<Connection> first = std::move(connected).value();
  std::unique_ptr<Connection> second;
  // Around UCX's own switches from one way of sending to another, small ones behind big ones.
  const std::vector<size_t> sizes = {1, 8,      100, 8191,  8192,           8193,
                                     1, 262192, 1,   65536, kFrameBytesMax, 7};
  const auto byte_of = [](size_t frame, size_t i) {
    return static_cast<std::byte>(base::mix64(frame * 7919 + i / 8) >> (i % 8 * 8));
  };
  size_t sent = 0;
  size_t arrived = 0;
  Frame frame;
  const Patience patience;
  while (arrived < sizes.size() && !patience.is_over()) {
    (*client)->progress();
    (*server)->progress();
    if (!second) second = (*server)->accept();
    if (sent < sizes.size() && first->can_post()) {
      frame.resize(sizes[sent]);
      for (size_t i = 0; i < frame.size(); ++i) frame[i] = byte_of(sent, i);
      first->post(frame);
      EXPECT_TRUE(frame.empty());
      ++sent;
    }
    while (second && second->poll(frame)) {
      ASSERT_EQ(frame.size(), sizes[arrived]);
      for (size_t i = 0; i < frame.size(); ++i) ASSERT_EQ(frame[i], byte_of(arrived, i));
      ++arrived;
    }
  }
  EXPECT_EQ(arrived, sizes.size());
  // One that is too long ends the connection at the other side, before a byte of it is stored.
  frame.assign(kFrameBytesMax + 1, std::byte{0});
  first->post(frame);
  while (second->state() != Connection::State::kClosed && !patience.is_over()) {
    (*client)->progress();
    (*server)->progress();
  }
  EXPECT_EQ(second->reason(), "the peer sends more than it may");
}

TEST(UcxAddress, WhatIsNoAddressIsNamed) {
  for (const char* text :
       {"", "here", "127.0.0.1", "127.0.0.1:", ":7", "127.0.0.1:70000", "a:b:c"}) {
    const auto made = make_ucx_transport({.listen = text[0] == 0 ? " " : text});
    EXPECT_FALSE(made.ok()) << text;
  }
  EXPECT_TRUE(ucx_version().starts_with("UCX 1."));
}

}  // namespace
}  // namespace bulkhead::transfer::remote

int main(int argc, char** argv) {
  using namespace bulkhead::transfer::remote;
  if (argc == 4) {
    const Death death{argv[3]};
    return std::string(argv[1]) == "--role=prefill" ? run_child<PrefillSide>(argv[2], death)
                                                    : run_child<DecodeSide>(argv[2], death);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
