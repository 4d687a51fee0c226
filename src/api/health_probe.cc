#include "api/health_probe.h"

#include <utility>

namespace bulkhead::api {
namespace {

// Hands the end over to the I/O thread; the token itself tells nothing more.
class EndSink final : public wire::EventSink {
 public:
  using Then = std::function<void(const wire::FinishEvent&)>;
  EndSink(std::function<void(std::function<void()>)> post, Then then)
      : post_(std::move(post)), then_(std::move(then)) {}

  void on_prompt(wire::PromptEvent) override {}
  void on_token(wire::TokenEvent) override {}
  void on_finish(wire::FinishEvent event) override {
    post_([then = std::move(then_), event = std::move(event)] { then(event); });
  }

 private:
  const std::function<void(std::function<void()>)> post_;
  Then then_;
};

Health health_after(const wire::FinishEvent& event) {
  if (event.reason == wire::FinishReason::kStop || event.reason == wire::FinishReason::kLength) {
    return Health::kOk;
  }
  return event.reason == wire::FinishReason::kCancelled ? Health::kDraining : Health::kStalled;
}

}  // namespace

void HealthProbe::ask(Answer answer) {
  waiting_.push_back(std::move(answer));
  if (waiting_.size() == 1) submit();
}

void HealthProbe::submit() {
  const uint64_t turn = ++turn_;
  wire::GenerateRequest request;
  request.id = deps_.generator.next_id();
  const auto& ends = model_.defaults.eos_ids;
  request.prompt = {ends.empty() ? 0 : ends.front()};
  request.sampling.temperature = 0;
  request.cache.insert = false;
  request.max_tokens = 1;
  request.deadline = deps_.clock.now() + options_.probe_timeout;
  const wire::RequestId id = request.id;
  auto sink = std::make_shared<EndSink>(deps_.post, [this, turn](const wire::FinishEvent& event) {
    ended(turn, health_after(event));
  });
  if (const base::Status status = deps_.generator.submit(std::move(request), std::move(sink));
      !status) {
    // A full queue says that there is much to do; steps say whether it is done.
    const Health health =
        health_of(deps_.generator.status(), deps_.clock.now(), options_.stall_after);
    return ended(turn,
                 status.error().code == base::ErrorCode::kUnavailable ? Health::kDraining : health);
  }
  if (!deps_.post_after) return;
  // The deadline ends the request between two steps; this is for an engine that takes none.
  deps_.post_after(options_.probe_timeout, [this, turn, id] {
    if (turn != turn_ || waiting_.empty()) return;
    deps_.generator.cancel(id);
    ended(turn, Health::kStalled);
  });
}

void HealthProbe::ended(uint64_t turn, Health health) {
  if (turn != turn_) return;
  for (const Answer& answer : std::exchange(waiting_, {})) answer(health);
}

}  // namespace bulkhead::api
