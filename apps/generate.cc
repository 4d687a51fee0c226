#include <fmt/format.h>

#include <boost/json.hpp>
#include <condition_variable>
#include <iostream>
#include <iterator>
#include <mutex>

#include "api/request/prompt_encoder.h"
#include "commands.h"
#include "serve/plan.h"
#include "serve/runtime.h"
#include "serve/text_loading.h"
#include "text/detokenizer.h"

namespace bulkhead::apps {
namespace {

// Prints tokens as they come and lets the main thread wait for the end.
class Printer final : public wire::EventSink {
 public:
  explicit Printer(const text::Tokenizer& tokenizer) : detokenizer_(tokenizer, true) {}

  void on_prompt(wire::PromptEvent) override {}  // never asked for
  void on_token(wire::TokenEvent event) override {
    std::cout << detokenizer_.push(event.token) << std::flush;
  }
  void on_finish(wire::FinishEvent event) override {
    std::cout << detokenizer_.flush() << std::endl;
    std::lock_guard lock(mutex_);
    finish_ = std::move(event);
    done_.notify_all();
  }
  wire::FinishEvent wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return finish_.has_value(); });
    return *finish_;
  }

 private:
  text::Detokenizer detokenizer_;
  std::mutex mutex_;
  std::condition_variable done_;
  std::optional<wire::FinishEvent> finish_;
};

std::string read_prompt(const std::string& option) {
  if (option != "-") return option;
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

base::Result<std::vector<wire::TokenId>> encode(const GenerateOptions& options,
                                                const model::Checkpoint& checkpoint,
                                                const serve::TextSide& text) {
  const std::string prompt = read_prompt(options.prompt);
  const api::PromptEncoder encoder(*text.tokenizer);
  if (!options.chat) return encoder.encode_plain(prompt);
  if (!text.chat_template) {
    return base::invalid_argument("--chat",
                                  "this checkpoint has no chat template; leave --chat out");
  }
  chat::RenderInput input;
  input.messages = boost::json::array{{{"role", "user"}, {"content", prompt}}};
  input.bos_token = checkpoint.text().bos_token;
  input.eos_token = checkpoint.text().eos_token;
  BH_ASSIGN(const chat::Prompt rendered, text.chat_template->render(input));
  return encoder.encode(rendered);
}

wire::GenerateRequest request_of(const GenerateOptions& options, std::vector<wire::TokenId> prompt,
                                 const model::GenerationDefaults& defaults, int32_t context) {
  wire::GenerateRequest request;
  const auto room = context - static_cast<int32_t>(prompt.size());
  request.prompt = std::move(prompt);
  request.sampling.temperature = static_cast<float>(options.temperature);
  request.sampling.seed = options.seed;
  request.max_tokens = std::min(options.max_tokens, room);
  request.stop_ids = defaults.eos_ids;
  return request;
}

void print_stats(const wire::FinishEvent& finish) {
  const auto rate = [](int32_t tokens, std::chrono::nanoseconds time) {
    return static_cast<double>(tokens) / std::max(1e-9, base::to_seconds(time));
  };
  std::cerr << fmt::format(
      "prompt {} tokens, {:.1f} tok/s; answer {} tokens, {:.1f} tok/s; {}\n", finish.prompt_tokens,
      rate(finish.prompt_tokens, finish.prefill_time), finish.completion_tokens,
      rate(finish.completion_tokens - 1, finish.decode_time), wire::to_string(finish.reason));
}

base::Status generate(const GenerateOptions& options) {
  const base::SteadyClock clock;
  BH_ASSIGN(const model::Checkpoint checkpoint, model::Checkpoint::open(options.model.model_path));
  const device::CpuFacts cpu = device::detect_cpu();
  BH_ASSIGN(const serve::Plan plan, serve::make_plan(options.model, checkpoint, cpu));
  BH_ASSIGN(const kernels::KernelSet kernels, kernels::select_kernels(cpu, plan.isa));
  BH_ASSIGN(const serve::TextSide text,
            serve::load_text(checkpoint, options.model.chat_template_path));
  BH_ASSIGN(std::vector<wire::TokenId> prompt, encode(options, checkpoint, text));
  if (prompt.empty()) return base::invalid_argument("--prompt", "the prompt is empty");
  if (prompt.size() >= static_cast<size_t>(plan.context_tokens)) {
    return base::invalid_argument(
        "--prompt", fmt::format("the prompt has {} tokens and the context holds {}", prompt.size(),
                                plan.context_tokens));
  }
  telemetry::Registry registry;
  BH_ASSIGN(const std::unique_ptr<serve::Runtime> runtime,
            serve::Runtime::start(plan, kernels, checkpoint, clock, registry, nullptr, {}));
  const auto printer = std::make_shared<Printer>(*text.tokenizer);
  wire::GenerateRequest request =
      request_of(options, std::move(prompt), checkpoint.generation(), plan.context_tokens);
  request.id = runtime->generator().next_id();
  BH_TRY(runtime->generator().submit(std::move(request), printer));
  const wire::FinishEvent finish = printer->wait();
  runtime->stop();
  if (options.stats) print_stats(finish);
  if (finish.error) return *finish.error;
  return {};
}

}  // namespace

int run_generate(const GenerateOptions& options) {
  const base::Status status = generate(options);
  if (status.ok()) return 0;
  std::cerr << "error: " << status.error().message << '\n';
  return status.error().code == base::ErrorCode::kInvalidArgument ? 2 : 1;
}

}  // namespace bulkhead::apps
