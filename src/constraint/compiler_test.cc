#include "constraint/compiler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>
#include <vector>

#include "constraint/structural_tag.h"
#include "constraint/testing/small_vocabulary.h"

namespace bulkhead::constraint {
namespace {

using Shared = std::shared_ptr<const wire::Constraint>;
using Answer = base::Result<Shared>;

wire::ConstraintSpec schema(std::string text) {
  wire::ConstraintSpec spec;
  spec.json_schema = std::move(text);
  return spec;
}

struct Fixture {
  explicit Fixture(const CompilerOptions& options = {}) {
    auto made = Compiler::create(testing::small_vocabulary(), options, registry);
    EXPECT_TRUE(made.ok());
    compiler = std::move(made).value();
  }
  std::future<Answer> ask(wire::ConstraintSpec spec) {
    auto promise = std::make_shared<std::promise<Answer>>();
    std::future<Answer> future = promise->get_future();
    compiler->compile(std::move(spec),
                      [promise](Answer answer) { promise->set_value(std::move(answer)); });
    return future;
  }

  telemetry::Registry registry;
  std::unique_ptr<Compiler> compiler;
};

TEST(Compiler, CompilesOnceAndRemembers) {
  Fixture fixture;
  const Answer first = fixture.ask(schema(R"({"type":"integer"})")).get();
  ASSERT_TRUE(first.ok());
  std::future<Answer> again = fixture.ask(schema(R"({"type":"integer"})"));
  // From the cache, and so before compile() came back.
  ASSERT_EQ(again.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(*again.get(), *first);
  EXPECT_NE(*fixture.ask(schema(R"({"type":"null"})")).get(), *first);
  EXPECT_NE(fixture.registry.expose().find("bulkhead_constraints_cached 2"), std::string::npos);
}

TEST(Compiler, NobodyFindsWhatAnotherScopeHadCompiled) {
  Fixture fixture;
  wire::ConstraintSpec spec = schema(R"({"type":"integer"})");
  const Answer first = fixture.ask(spec).get();
  spec.scope[0] = 1;
  const Answer other = fixture.ask(spec).get();
  ASSERT_TRUE(first.ok() && other.ok());
  EXPECT_NE(*first, *other);
  EXPECT_EQ(*fixture.ask(spec).get(), *other);
  EXPECT_NE(fixture.registry.expose().find("bulkhead_constraint_compile_seconds_count 2"),
            std::string::npos);
}

TEST(Compiler, AnErrorIsToldAndNotRemembered) {
  Fixture fixture;
  const Answer answer = fixture.ask(schema(R"({"type":"strng"})")).get();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_NE(fixture.registry.expose().find("bulkhead_constraints_cached 0"), std::string::npos);
}

// CVE-2025-32381
TEST(Compiler, WhatIsRememberedIsBoundedInBytes) {
  Fixture measure;
  const size_t bytes = (*measure.ask(schema(R"({"const":"text number 10"})")).get())->bytes();
  Fixture fixture({.cache_bytes_max = 4 * bytes});
  for (int i = 10; i < 40; ++i) {
    ASSERT_TRUE(
        fixture.ask(schema(R"({"const":"text number )" + std::to_string(i) + "\"}")).get().ok());
  }
  const std::string exposed = fixture.registry.expose();
  const auto value_of = [&exposed](const std::string& name) {
    const size_t at = exposed.find("\n" + name + " ");
    EXPECT_NE(at, std::string::npos) << name;
    return std::stod(exposed.substr(at + name.size() + 2));
  };
  EXPECT_LE(value_of("bulkhead_constraints_cached_bytes"), 4.0 * static_cast<double>(bytes));
  EXPECT_LE(value_of("bulkhead_constraints_cached"), 4);
  EXPECT_GE(value_of("bulkhead_constraints_cached"), 1);
}

TEST(Compiler, BeyondTheQueueItRefusesAtOnce) {
  Fixture fixture({.waiting_max = 0});
  std::future<Answer> answer = fixture.ask(schema("{}"));
  ASSERT_EQ(answer.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(answer.get().error().code, base::ErrorCode::kResourceExhausted);
}

// C146
TEST(Compiler, AQuestionWhoseTimeIsUpIsAnsweredOnce) {
  // No time at all: whether it was running or waiting, it gets one answer, which may even be the
  // result.
  Fixture fixture({.waiting_max = 1000, .time_max = std::chrono::milliseconds(0)});
  constexpr int kQuestions = 50;
  std::vector<std::future<Answer>> answers;
  answers.reserve(kQuestions);
  for (int i = 0; i < kQuestions; ++i) {
    answers.push_back(fixture.ask(schema(R"({"const":)" + std::to_string(i) + "}")));
  }
  for (auto& answer : answers) {
    const Answer result = answer.get();
    if (result.ok()) continue;
    EXPECT_TRUE(result.error().code == base::ErrorCode::kInvalidArgument ||
                result.error().code == base::ErrorCode::kResourceExhausted);
  }
}

TEST(Compiler, EndingAnswersEverybody) {
  std::vector<std::future<Answer>> answers;
  {
    Fixture fixture;
    for (int i = 0; i < 20; ++i) {
      answers.push_back(fixture.ask(schema(R"({"const":)" + std::to_string(i) + "}")));
    }
  }
  for (auto& answer : answers) {
    const Answer result = answer.get();
    EXPECT_TRUE(result.ok() || result.error().code == base::ErrorCode::kUnavailable);
  }
}

TEST(Compiler, SpecificationsThatDifferHaveDifferentKeys) {
  wire::ConstraintSpec a = schema("x");
  wire::ConstraintSpec b;
  b.json_schema = "";
  wire::ConstraintSpec c;
  c.json_object = true;
  wire::ConstraintSpec d = schema("x");
  d.free_until = "</think>";
  wire::ConstraintSpec e;
  e.tool_calls.emplace().tools.push_back({"ab", "c", "", {}, "d"});
  wire::ConstraintSpec f;
  f.tool_calls.emplace().tools.push_back({"a", "bc", "", {}, "d"});
  wire::ConstraintSpec g = a;
  g.scope[31] = 1;
  const std::vector<wire::ConstraintSpec> specs = {{}, a, b, c, d, e, f, g};
  for (size_t i = 0; i < specs.size(); ++i) {
    for (size_t k = 0; k < i; ++k) EXPECT_NE(spec_key(specs[i]), spec_key(specs[k])) << i << k;
  }
}

}  // namespace
}  // namespace bulkhead::constraint
