// No allocation on the step path: operator new is counted while a step runs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "engine/testing/checking_decoder.h"
#include "engine/testing/scripted_decoder.h"
#include "support/engine_stack.h"

namespace {

thread_local bool counting = false;
thread_local int allocations = 0;

void* counted(std::size_t size) {
  if (counting) ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace bulkhead {
namespace {

using engine::testing::CheckingDecoder;
using engine::testing::small_facts;
using testing::EngineStack;

class CountingSink final : public wire::EventSink {
 public:
  void on_prompt(wire::PromptEvent) override {}
  void on_token(wire::TokenEvent) override { ++tokens; }
  void on_finish(wire::FinishEvent) override { ++finishes; }
  int tokens = 0;
  int finishes = 0;
};

int allocations_of(EngineStack& stack, int steps) {
  allocations = 0;
  counting = true;
  for (int i = 0; i < steps; ++i) stack.step();
  counting = false;
  return allocations;
}

std::shared_ptr<CountingSink> submit(EngineStack& stack, size_t prompt_tokens, int32_t max_tokens,
                                     wire::SamplingParams sampling) {
  auto sink = std::make_shared<CountingSink>();
  wire::GenerateRequest request;
  request.id = stack.router().next_id();
  request.prompt.assign(prompt_tokens, 3);
  request.max_tokens = max_tokens;
  request.sampling = sampling;
  request.stop_ids = {5000};  // looked for and never found
  EXPECT_TRUE(stack.router().submit(std::move(request), sink).ok());
  return sink;
}

TEST(StepPath, TheCounterCounts) {
  counting = true;
  delete new int(1);
  counting = false;
  EXPECT_GE(allocations, 1);
}

void expect_steps_without_allocation(const testing::StackOptions& options) {
  CheckingDecoder decoder(small_facts(1200, 2048), {});
  EngineStack stack(decoder, options);
  std::vector<std::shared_ptr<CountingSink>> sinks;
  wire::SamplingParams greedy;
  greedy.temperature = 0.0f;
  wire::SamplingParams filtered;
  filtered.top_k = 40;
  filtered.top_p = 0.9f;
  filtered.min_p = 0.01f;
  wire::SamplingParams penalized;
  penalized.frequency_penalty = 0.5f;
  penalized.repetition_penalty = 1.1f;
  penalized.logit_bias = {{5, 1.0f}};
  penalized.top_logprobs = 0;
  for (const wire::SamplingParams& sampling :
       {greedy, filtered, penalized, wire::SamplingParams{}}) {
    sinks.push_back(submit(stack, 5, 400, sampling));
  }
  for (int i = 0; i < 10; ++i) stack.step();
  sinks.push_back(submit(stack, 1000, 20, {}));  // prefilled in chunks beside the others
  stack.step();
  const int before = sinks[0]->tokens;
  EXPECT_EQ(allocations_of(stack, 50), 0);
  EXPECT_EQ(sinks[0]->tokens, before + 50);
  EXPECT_EQ(sinks[4]->tokens, 0);
  ASSERT_TRUE(stack.run_until_idle());
  for (const auto& sink : sinks) EXPECT_EQ(sink->finishes, 1);
  stack.expect_idle();
}

TEST(StepPath, AStepThatAdmitsAndEndsNothingAllocatesNothing) {
  expect_steps_without_allocation({.pages = 256, .chunk_tokens = 16, .running_max = 8});
}

TEST(StepPath, NorDoesOneInTheSplitPlacement) {
  expect_steps_without_allocation(
      {.pages = 256, .prefill_pages = 128, .chunk_tokens = 16, .running_max = 8});
}

TEST(StepPath, AnIdleRoundAllocatesNothing) {
  CheckingDecoder decoder(small_facts(64, 512), {});
  EngineStack stack(decoder, {});
  stack.step();
  EXPECT_EQ(allocations_of(stack, 10), 0);
}

}  // namespace
}  // namespace bulkhead
