// Stand-ins for the API's tests: a byte tokenizer, a scripted generator, a writer in memory.
//
// Threads: one test thread plays every thread. Invariant: nothing happens unless the test asks.
#pragma once

#include <boost/json/parse.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/api.h"
#include "base/check.h"
#include "http/sse.h"

namespace bulkhead::api::testing {

// Ids 0..255 are bytes; then control tokens and a few merged pieces, and from kSize on the control
// tokens that a test adds.
class ByteTokenizer final : public text::Tokenizer {
 public:
  static constexpr text::TokenId kStart = 256;      // <|im_start|>
  static constexpr text::TokenId kEnd = 257;        // <|im_end|>
  static constexpr text::TokenId kBos = 258;        // <s>
  static constexpr text::TokenId kNewlines = 259;   // "\n\n", a merge
  static constexpr text::TokenId kWord = 260;       // "word"
  static constexpr text::TokenId kHalfSmile = 261;  // the first two bytes of U+1F600
  static constexpr text::TokenId kStrip = 262;      // [strip], takes white space on both sides
  static constexpr text::TokenId kAlone = 263;      // [alone], only as a word of its own
  static constexpr int32_t kSize = 264;

  explicit ByteTokenizer(const std::vector<std::string>& more = {}) {
    for (int byte = 0; byte < 256; ++byte)
      pieces_.push_back(std::string(1, static_cast<char>(byte)));
    for (const char* piece :
         {"<|im_start|>", "<|im_end|>", "<s>", "\n\n", "word", "\xF0\x9F", "[strip]", "[alone]"}) {
      pieces_.emplace_back(piece);
    }
    added_ = {{kStart, "<|im_start|>", true}, {kEnd, "<|im_end|>", true}, {kBos, "<s>", true}};
    added_.push_back({kStrip, "[strip]", true, true, true});
    added_.push_back({kAlone, "[alone]", true, false, false, true});
    for (const std::string& control : more) {
      added_.push_back({size(), control, true});
      pieces_.push_back(control);
    }
  }

  void encode(std::string_view text, text::AddedTokens added,
              std::vector<text::TokenId>& out) const override {
    while (!text.empty()) {
      text::TokenId best = static_cast<unsigned char>(text.front());
      size_t length = 1;
      for (text::TokenId id = kStart; id < size(); ++id) {
        const bool control = id < kNewlines || id >= kStrip;
        if (control && added == text::AddedTokens::kAsText) continue;
        if (id == kHalfSmile || !text.starts_with(piece_of(id))) continue;
        best = id;
        length = piece_of(id).size();
      }
      out.push_back(best);
      text.remove_prefix(length);
    }
  }
  std::span<const text::TokenId> prefix_ids() const override { return prefix_; }
  std::span<const text::TokenId> suffix_ids() const override { return {}; }
  std::string_view token_bytes(text::TokenId id) const override {
    return id < 0 || id >= size() ? std::string_view() : std::string_view(piece_of(id));
  }
  bool is_special(text::TokenId id) const override {
    return (id >= kStart && id <= kBos) || id >= kStrip;
  }
  std::optional<text::TokenId> find(std::string_view piece) const override {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (pieces_[i] == piece) return static_cast<text::TokenId>(i);
    }
    return std::nullopt;
  }
  std::span<const text::AddedToken> added_tokens() const override { return added_; }
  size_t vocabulary_size() const override { return pieces_.size(); }

 private:
  text::TokenId size() const { return static_cast<text::TokenId>(pieces_.size()); }
  const std::string& piece_of(text::TokenId id) const { return pieces_[static_cast<size_t>(id)]; }

  std::vector<std::string> pieces_;
  std::vector<text::AddedToken> added_;
  std::vector<text::TokenId> prefix_ = {kBos};
};

// Keeps what is submitted; the test plays the step thread.
class ScriptedGenerator final : public wire::Generator {
 public:
  struct Running {
    wire::GenerateRequest request;
    std::shared_ptr<wire::EventSink> sink;
    int32_t tokens = 0;
    bool cancelled = false;
  };

  ScriptedGenerator() {
    limits_.context_tokens = 512;
    limits_.cache_tokens = 4096;
    limits_.vocabulary_size = ByteTokenizer::kSize;
    limits_.running_max = 8;
    limits_.queued_max = 8;
  }

  const wire::GenerateLimits& limits() const override { return limits_; }
  wire::GeneratorStatus status() const override { return status_; }
  wire::RequestId next_id() override { return ++last_id_; }
  base::Status submit_all(std::vector<wire::Submission> batch) override {
    if (refusal) return *refusal;
    for (wire::Submission& one : batch) {
      submitted.push_back({std::move(one.request), std::move(one.sink), 0, false});
    }
    return {};
  }
  void flush_cache() override { ++flushes; }
  void cancel(wire::RequestId id) override {
    for (Running& one : submitted) {
      if (one.request.id == id) one.cancelled = true;
    }
  }

  Running& last() { return submitted.back(); }

  void token(Running& one, wire::TokenId id) {
    wire::TokenEvent event;
    event.id = one.request.id;
    event.token = id;
    event.logprob = -0.5f;
    for (int32_t i = 0; i < one.request.sampling.top_logprobs; ++i) {
      event.top_logprobs.push_back(
          {static_cast<wire::TokenId>('a' + i), -0.25f * static_cast<float>(i + 1)});
    }
    ++one.tokens;
    one.sink->on_token(std::move(event));
  }
  void text(Running& one, std::string_view bytes) {
    for (const char c : bytes) token(one, static_cast<unsigned char>(c));
  }
  void finish(Running& one, wire::FinishReason reason, std::optional<base::Error> error = {},
              wire::TokenId stop_id = ByteTokenizer::kEnd) {
    wire::FinishEvent event;
    event.id = one.request.id;
    event.reason = reason;
    event.stop_id = reason == wire::FinishReason::kStop ? stop_id : -1;
    event.prompt_tokens = static_cast<int32_t>(one.request.prompt.size());
    event.cached_tokens = 1;
    event.completion_tokens = one.tokens;
    event.prefill_time = std::chrono::microseconds(1500);
    event.decode_time = std::chrono::microseconds(2500);
    event.error = std::move(error);
    auto sink = std::move(one.sink);
    sink->on_finish(std::move(event));
  }

  wire::GenerateLimits limits_;
  wire::GeneratorStatus status_;
  std::optional<base::Error> refusal;
  int flushes = 0;
  std::deque<Running> submitted;

 private:
  wire::RequestId last_id_ = 0;
};

// Keeps what is to be compiled; the test plays the compiler's thread.
class ScriptedConstraints final : public wire::ConstraintCompiler {
 public:
  class Nothing final : public wire::Constraint {
   public:
    std::unique_ptr<wire::ConstraintState> start() const override { return nullptr; }
    size_t bytes() const override { return 0; }
  };
  struct Asked {
    wire::ConstraintSpec spec;
    Done done;
  };

  void compile(wire::ConstraintSpec spec, Done done) override {
    asked.push_back({std::move(spec), std::move(done)});
  }
  // Answers the oldest question.
  void succeed() { answer(std::shared_ptr<const wire::Constraint>(compiled)); }
  void refuse(base::Error error) { answer(std::move(error)); }

  const std::shared_ptr<const Nothing> compiled = std::make_shared<Nothing>();
  std::deque<Asked> asked;

 private:
  void answer(base::Result<std::shared_ptr<const wire::Constraint>> result) {
    Asked one = std::move(asked.front());
    asked.pop_front();
    one.done(std::move(result));
  }
};

// Says what the test says; remembers what was ordered.
class ScriptedIntegrity final : public wire::IntegrityPort {
 public:
  wire::IntegrityMode mode() const override { return now; }
  std::vector<wire::IntegrityPool> report() const override { return pools; }
  wire::InjectedFaults injected() const override { return faults; }
  base::Status inject(std::string_view fault, std::string_view pool) override {
    if (!faults.enabled) return base::unsupported("without --inject-faults");
    if (fault != "tag_flip") return base::invalid_argument("fault", "there is no such fault");
    ordered.emplace_back(pool);
    return {};
  }

  wire::IntegrityMode now = wire::IntegrityMode::kAbort;
  std::vector<wire::IntegrityPool> pools;
  wire::InjectedFaults faults;
  std::vector<std::string> ordered;
};

class MemoryWriter final : public http::ResponseWriter {
 public:
  void send(http::Response response) override {
    ++answers;
    sent = std::move(response);
  }
  void start_stream(http::Response head) override {
    ++answers;
    stream_head = std::move(head);
  }
  bool write(std::string piece) override {
    if (!open) return false;
    streamed += piece;
    writes.push_back(std::move(piece));
    return true;
  }
  void finish() override { finished = true; }
  void on_abort(std::function<void()> callback) override {
    if (!open) {
      callback();
    } else {
      abort_callback = std::move(callback);
    }
  }
  // The client goes away.
  void abort() {
    open = false;
    if (auto callback = std::exchange(abort_callback, nullptr)) callback();
  }

  boost::json::object body() const {
    boost::json::error_code error;
    boost::json::value value = boost::json::parse(sent->body, error);
    return error ? boost::json::object() : value.as_object();
  }
  // Data of every event of the stream.
  std::vector<std::string> events() const {
    http::SseParser parser;
    return parser.push(streamed);
  }
  std::string header(std::string_view name) const {
    const http::Response& head = sent ? *sent : *stream_head;
    for (const http::Header& one : head.headers) {
      if (one.name == name) return one.value;
    }
    return {};
  }

  int answers = 0;
  bool open = true;
  bool finished = false;
  std::optional<http::Response> sent;
  std::optional<http::Response> stream_head;
  std::string streamed;
  std::vector<std::string> writes;
  std::function<void()> abort_callback;
};

inline constexpr std::string_view kChatTemplate =
    "{% if tools %}{{ 'tools:' }}{{ tools | length }}{% endif %}"
    "{% for message in messages %}"
    "{% if message['role'] == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

// What a test's model has of its own.
struct ModelSetup {
  std::string chat_template = std::string(kChatTemplate);
  chat::ToolFormat tools = chat::ToolFormat::kNone;
  chat::ReasoningFormat reasoning = chat::ReasoningFormat::kNone;
  std::vector<std::string> control_tokens;
};

// An Api with its surroundings.
class ApiWorld {
 public:
  explicit ApiWorld(ApiOptions options = {}, const ModelSetup& model = {},
                    wire::IntegrityPort* integrity = nullptr,
                    std::function<std::vector<wire::IntegrityWorker>()> workers = {})
      : tokenizer(model.control_tokens) {
    auto compiled = chat::ChatTemplate::compile(model.chat_template);
    BH_CHECK(compiled.ok(), "the test's template compiles");
    chat_template.emplace(std::move(compiled).value());
    generator.limits_.vocabulary_size = static_cast<int32_t>(tokenizer.vocabulary_size());
    ModelCard card;
    card.chat_template = model.chat_template;
    card.tool_format = model.tools;
    card.reasoning_format = model.reasoning;
    card.id = "tiny";
    card.root = "org/tiny";
    card.created = 1700000000;
    card.parameters = 42;
    card.defaults.eos_ids = {ByteTokenizer::kEnd};
    card.defaults.temperature = 0.6;
    card.defaults.top_k = 40;
    options.version = "0.1.0";
    ApiDeps deps{generator,
                 tokenizer,
                 &*chat_template,
                 registry,
                 logger,
                 clock,
                 [this](std::function<void()> task) { tasks.push_back(std::move(task)); },
                 [] { return int64_t{1700000001}; },
                 [this] { return ++entropy; }};
    deps.constraints = &constraints;
    deps.integrity = integrity;
    deps.workers = std::move(workers);
    api.emplace(std::move(deps), std::move(card), std::move(options));
  }

  std::shared_ptr<MemoryWriter> send(http::Request request) {
    auto writer = std::make_shared<MemoryWriter>();
    api->handler()(std::move(request), writer);
    return writer;
  }
  std::shared_ptr<MemoryWriter> get(std::string path) {
    http::Request request;
    request.method = "GET";
    request.path = std::move(path);
    return send(std::move(request));
  }
  std::shared_ptr<MemoryWriter> post(std::string path, std::string body,
                                     std::vector<http::Header> headers = {}) {
    http::Request request;
    request.method = "POST";
    request.path = std::move(path);
    request.headers = std::move(headers);
    request.headers.push_back({"Content-Type", "application/json"});
    request.body = std::move(body);
    return send(std::move(request));
  }
  std::shared_ptr<MemoryWriter> chat(const std::string& extra_fields) {
    return post("/v1/chat/completions",
                R"({"messages":[{"role":"user","content":"hi"}])" + extra_fields + "}");
  }
  std::shared_ptr<MemoryWriter> complete(const std::string& extra_fields) {
    return post("/v1/completions", R"({"prompt":"hi")" + extra_fields + "}");
  }
  // Runs what was posted to the I/O thread.
  void pump() {
    while (!tasks.empty()) {
      auto task = std::move(tasks.front());
      tasks.pop_front();
      task();
    }
  }

  ByteTokenizer tokenizer;
  ScriptedGenerator generator;
  ScriptedConstraints constraints;
  std::optional<chat::ChatTemplate> chat_template;
  telemetry::Registry registry{{{"model_name", "tiny"}}};
  std::ostringstream log;
  base::Logger logger{log, base::LogFormat::kText, base::LogLevel::kInfo};
  base::ManualClock clock;
  std::deque<std::function<void()>> tasks;
  uint64_t entropy = 0;
  std::optional<Api> api;
};

}  // namespace bulkhead::api::testing
