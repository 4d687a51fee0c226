#include "serve/roles/worker_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "serve/roles/testing/local_hub.h"

namespace bulkhead::serve::roles {
namespace {

using ::testing::HasSubstr;
using testing::LocalHub;
using transfer::remote::Connection;
using transfer::remote::Frame;
using wire::WorkerRole;

constexpr base::Nanoseconds kBeat{100};

WorkerSessionOptions options_of(WorkerRole role) {
  WorkerSessionOptions out;
  out.identity.role = role;
  out.identity.product = "1";
  out.identity.vocabulary_size = 10;
  out.identity.label = to_string(role);
  if (role != WorkerRole::kGateway) {
    out.identity.page_tokens = 16;
    out.identity.pages = 4;
    out.identity.context_tokens = 64;
    out.identity.sequences_max = 2;
  }
  out.key = "secret";
  out.bounds = {10, 64};
  out.beat = kBeat;
  return out;
}

struct Pair {
  explicit Pair(const WorkerSessionOptions& one = options_of(WorkerRole::kGateway),
                const WorkerSessionOptions& two = options_of(WorkerRole::kDecode)) {
    auto connection = door->connect("there");
    gateway = std::make_unique<WorkerSession>(one, std::move(connection).value(), clock);
    worker = std::make_unique<WorkerSession>(two, listener->accept(), clock);
  }
  void run(int steps = 6) {
    for (int i = 0; i < steps; ++i) {
      for (WorkerSession* session : {gateway.get(), worker.get()}) {
        session->tick();
        while (auto message = session->poll()) heard.push_back(*std::move(message));
      }
    }
  }

  base::ManualClock clock;
  LocalHub hub;
  std::unique_ptr<transfer::remote::Transport> listener = hub.join("there");
  std::unique_ptr<transfer::remote::Transport> door = hub.join("");
  std::unique_ptr<WorkerSession> gateway;
  std::unique_ptr<WorkerSession> worker;
  std::vector<wire::WorkerMessage> heard;
};

TEST(WorkerSession, OpensWhenBothFitAndKnowTheKey) {
  Pair pair;
  pair.run();
  ASSERT_TRUE(pair.gateway->is_open()) << pair.gateway->why_closed();
  ASSERT_TRUE(pair.worker->is_open());
  EXPECT_EQ(pair.gateway->peer().pages, 4);
  EXPECT_EQ(pair.worker->peer().role, WorkerRole::kGateway);
  pair.gateway->post(wire::Cancel{{1, 2}});
  pair.run();
  ASSERT_EQ(pair.heard.size(), 1u);
  EXPECT_EQ(std::get<wire::Cancel>(pair.heard[0]).attempt, (wire::AttemptId{1, 2}));
}

// C223
TEST(WorkerSession, APeerWithoutTheKeyIsRefusedAndHearsNothing) {
  auto stranger = options_of(WorkerRole::kGateway);
  stranger.key = "guess";
  Pair pair(stranger);
  pair.run();
  EXPECT_FALSE(pair.worker->is_open());
  EXPECT_TRUE(pair.worker->is_closed());
  EXPECT_TRUE(pair.worker->was_refused());
  EXPECT_THAT(pair.worker->why_closed(), HasSubstr("key"));
  EXPECT_TRUE(pair.gateway->is_closed());
  EXPECT_TRUE(pair.heard.empty());
}

// However full the way is.
TEST(WorkerSession, WhatWasSaidArrivesBeforeTheLastWord) {
  Pair pair;
  pair.run();
  ASSERT_TRUE(pair.worker->is_open());
  constexpr size_t kWords = 300;  // more than there is room for at once
  for (size_t i = 0; i < kWords; ++i) pair.worker->post(wire::Released{{1, i}});
  pair.worker->close("done");
  pair.run(40);
  EXPECT_EQ(pair.heard.size(), kWords);
  EXPECT_TRUE(pair.gateway->is_closed());
  EXPECT_TRUE(pair.gateway->was_left());
  EXPECT_THAT(pair.gateway->why_closed(), HasSubstr("done"));
  EXPECT_TRUE(pair.worker->is_finished());
}

// C073, C079: a pair of unlike processes is refused, and both sides say why.
TEST(WorkerSession, ProcessesThatDoNotFitAreRefusedWithTheReason) {
  struct Skew {
    const char* says;
    std::function<void(wire::WorkerHello&)> change;
  };
  const Skew skews[] = {
      {"versions of Bulkhead", [](auto& hello) { hello.product = "2"; }},
      {"protocol versions", [](auto& hello) { hello.protocol += 1; }},
      {"models", [](auto& hello) { hello.model_digest[0] = 1; }},
      {"vocabulary sizes", [](auto& hello) { hello.vocabulary_size = 11; }},
      {"room for nothing", [](auto& hello) { hello.pages = 0; }},
      {"nothing to say", [](auto& hello) { hello.role = WorkerRole::kGateway; }},
  };
  for (const Skew& skew : skews) {
    auto worker = options_of(WorkerRole::kDecode);
    skew.change(worker.identity);
    Pair pair(options_of(WorkerRole::kGateway), worker);
    pair.run();
    EXPECT_TRUE(pair.gateway->is_closed()) << skew.says;
    EXPECT_TRUE(pair.worker->is_closed()) << skew.says;
    EXPECT_TRUE(pair.gateway->was_refused());
    EXPECT_THAT(pair.gateway->why_closed(), HasSubstr(skew.says));
    EXPECT_THAT(pair.worker->why_closed(), HasSubstr(skew.says));
  }
}

TEST(WorkerSession, APeerThatMissesTwoBeatsIsLost) {
  Pair pair;
  pair.run();
  // The gateway says that it is there, the worker never says anything.
  for (int beats = 0; beats < 2; ++beats) {
    pair.clock.advance(kBeat);
    ASSERT_TRUE(pair.gateway->beat_due());
    pair.gateway->post(wire::WorkerBeat{});
    pair.run(1);
    ASSERT_TRUE(pair.worker->is_open());
    ASSERT_TRUE(pair.gateway->is_open());
  }
  pair.clock.advance(kBeat);
  pair.run(1);
  EXPECT_TRUE(pair.gateway->is_closed());
  EXPECT_FALSE(pair.gateway->was_refused());
  EXPECT_THAT(pair.gateway->why_closed(), HasSubstr("2 beats"));
}

TEST(WorkerSession, WhatArrivedWhileThisSideSleptCounts) {
  Pair pair;
  pair.run();
  pair.worker->post(wire::Released{{1, 1}});
  pair.clock.advance(100 * kBeat);
  pair.gateway->tick();
  EXPECT_TRUE(pair.gateway->poll().has_value());
  EXPECT_TRUE(pair.gateway->is_open());
}

TEST(WorkerSession, ABrokenConnectionEndsItWithItsReason) {
  Pair pair;
  pair.run();
  pair.worker.reset();
  pair.gateway->tick();
  EXPECT_FALSE(pair.gateway->poll().has_value());
  EXPECT_TRUE(pair.gateway->is_closed());
  EXPECT_FALSE(pair.gateway->why_closed().empty());
}

// C223: whatever a stranger sends, the session ends and nothing comes out of it.
TEST(WorkerSession, AnythingButAGreetingEndsIt) {
  base::Rng rng(5);
  for (int round = 0; round < 300; ++round) {
    base::ManualClock clock;
    LocalHub hub;
    auto listener = hub.join("there");
    auto stranger = std::move(hub.join("")->connect("there")).value();
    WorkerSession session(options_of(WorkerRole::kDecode), listener->accept(), clock);
    Frame frame;
    switch (round % 4) {
      case 0:
        frame.resize(rng.below(100));
        for (std::byte& byte : frame) byte = static_cast<std::byte>(rng.bits());
        break;
      case 1:
        encode_worker_frame(wire::Expect{{1, 1}, 1, 4, 8}, 1, frame);
        break;
      case 2:
        encode_worker_frame(options_of(WorkerRole::kGateway).identity, 2, frame);  // not the first
        break;
      default:
        encode_worker_frame(wire::WorkerReady{}, 1, frame);  // before a hello
    }
    stranger->post(frame);
    session.tick();
    EXPECT_FALSE(session.poll().has_value());
    EXPECT_TRUE(session.is_closed()) << round;
    EXPECT_FALSE(session.is_open());
  }
}

TEST(WorkerSession, AFrameSaidTwiceEndsIt) {
  base::ManualClock clock;
  LocalHub hub;
  auto listener = hub.join("there");
  auto other = std::move(hub.join("")->connect("there")).value();
  WorkerSession session(options_of(WorkerRole::kDecode), listener->accept(), clock);
  for (int i = 0; i < 2; ++i) {
    Frame frame;
    encode_worker_frame(options_of(WorkerRole::kGateway).identity, 1, frame);
    other->post(frame);
  }
  session.tick();
  EXPECT_FALSE(session.poll().has_value());
  EXPECT_TRUE(session.is_closed());
  EXPECT_THAT(session.why_closed(), HasSubstr("doubled"));
}

TEST(WorkerSession, WhatWaitsForASlowPeerIsBounded) {
  auto gateway = options_of(WorkerRole::kGateway);
  gateway.waiting_max = 10;
  Pair pair(gateway);
  pair.run();
  int posted = 0;
  while (pair.gateway->is_open() && posted < 1000) {
    pair.gateway->post(wire::Cancel{{1, 1}});
    ++posted;
  }
  EXPECT_TRUE(pair.gateway->is_closed());
  EXPECT_LT(posted, 100);
}

}  // namespace
}  // namespace bulkhead::serve::roles
