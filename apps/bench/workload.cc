#include "apps/bench/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <fstream>

#include "base/json_writer.h"
#include "base/rng.h"

namespace bulkhead::apps {
namespace {

namespace json = boost::json;

constexpr int64_t kVocabularyMax = int64_t{1} << 24;
constexpr uint64_t kPrefixStream = 1;
constexpr uint64_t kLengthStream = 2;
constexpr uint64_t kPromptStream = 3;  // one for each request from here on

// The fields that every request carries after its prompt.
void write_common(base::JsonWriter& body, const BenchServeOptions& options,
                  const std::string& model, std::string_view limit_name, int64_t output_tokens) {
  body.key("model").value(model);
  body.key(limit_name).value(output_tokens);
  body.key("temperature").value(options.temperature);
  body.key("stream").value(true);
  body.key("stream_options").begin_object().key("include_usage").value(true).end_object();
  if (!options.stop_at_eos) body.key("ignore_eos").value(true);
}

// `prompt` is JSON: a text or token ids, or the messages of a chat.
BenchRequest request_of(const BenchServeOptions& options, const std::string& model,
                        const json::value& prompt, bool is_messages, int64_t output_tokens) {
  const bool chat = is_messages || options.endpoint == BenchEndpoint::kChat;
  base::JsonWriter body;
  body.begin_object();
  if (is_messages) {
    body.key("messages").raw(json::serialize(prompt));
  } else if (chat) {
    body.key("messages").begin_array().begin_object();
    body.key("role").value("user").key("content").raw(json::serialize(prompt));
    body.end_object().end_array();
  } else {
    body.key("prompt").raw(json::serialize(prompt));
  }
  write_common(body, options, model, chat ? "max_completion_tokens" : "max_tokens", output_tokens);
  body.end_object();
  BenchRequest request;
  request.target = chat ? "/v1/chat/completions" : "/v1/completions";
  request.body = std::move(body).take();
  request.input_tokens =
      prompt.is_array() && !is_messages ? static_cast<int64_t>(prompt.as_array().size()) : 0;
  request.output_tokens = output_tokens;
  return request;
}

class RandomPrompts {
 public:
  RandomPrompts(const BenchServeOptions& options, std::string model, int64_t vocabulary)
      : options_(options),
        model_(std::move(model)),
        range_(drawable_tokens(vocabulary)),
        lengths_(options.seed, kLengthStream) {
    base::Rng prefixes(options.seed, kPrefixStream);
    prefixes_.resize(std::max<uint64_t>(1, options.prefix_groups));
    for (PromptTokens& prefix : prefixes_) append(prefixes, options.prefix_tokens, prefix);
  }

  BenchRequest next() {
    const uint64_t number = drawn_++;
    base::Rng random(options_.seed, kPromptStream + number);
    PromptTokens prompt = prefixes_[number % prefixes_.size()];
    append(random, length(options_.input_tokens), prompt);
    return completion_of(options_, model_, prompt, length(options_.output_tokens));
  }

  // Short, and of a prefix that no later request shares.
  BenchRequest warmup(uint64_t number) const {
    base::Rng random(base::mix64(options_.seed), kPromptStream + number);
    PromptTokens prompt;
    append(random, options_.input_tokens + options_.prefix_tokens, prompt);
    return completion_of(options_, model_, prompt, std::min<int64_t>(options_.output_tokens, 8));
  }

 private:
  void append(base::Rng& random, int64_t count, PromptTokens& prompt) const {
    for (int64_t i = 0; i < count; ++i) {
      prompt.push_back(range_.low + static_cast<int32_t>(random.below(range_.span)));
    }
  }
  // Uniform from mean (1 - ratio) to mean (1 + ratio), at least 1.
  int64_t length(int64_t mean) {
    const auto spread =
        static_cast<int64_t>(std::floor(static_cast<double>(mean) * options_.range_ratio));
    const auto off =
        static_cast<int64_t>(lengths_.below(static_cast<uint64_t>(2 * spread + 1))) - spread;
    return std::max<int64_t>(1, mean + off);
  }

  const BenchServeOptions& options_;
  const std::string model_;
  const TokenRange range_;
  std::vector<PromptTokens> prefixes_;
  base::Rng lengths_;
  uint64_t drawn_ = 0;
};

base::Result<BenchRequest> parse_line(const std::string& line, const BenchServeOptions& options,
                                      const std::string& model) {
  boost::system::error_code bad;
  const json::value value = json::parse(line, bad);
  if (bad || !value.is_object()) return base::corrupt("is not a JSON object");
  const json::object& object = value.as_object();
  const json::value* messages = object.if_contains("messages");
  const json::value* prompt = object.if_contains("prompt");
  if ((messages == nullptr) == (prompt == nullptr)) {
    return base::corrupt("needs either \"prompt\" or \"messages\"");
  }
  if (messages != nullptr && !messages->is_array()) {
    return base::corrupt("\"messages\" is not an array");
  }
  if (prompt != nullptr && !prompt->is_string() &&
      !(prompt->is_array() && options.endpoint == BenchEndpoint::kCompletions)) {
    return base::corrupt("\"prompt\" is neither a text nor token ids for the completions endpoint");
  }
  int64_t output_tokens = options.output_tokens;
  for (const char* name : {"output_tokens", "max_tokens"}) {
    const json::value* given = object.if_contains(name);
    if (given == nullptr) continue;
    if (!given->is_int64() || given->as_int64() < 1) {
      return base::corrupt(fmt::format("\"{}\" is not a positive number", name));
    }
    output_tokens = given->as_int64();
  }
  return request_of(options, model, messages != nullptr ? *messages : *prompt, messages != nullptr,
                    output_tokens);
}

base::Result<Workload> read_dataset(const BenchServeOptions& options, const std::string& model) {
  std::ifstream file(options.dataset);
  if (!file) {
    return base::Error{base::ErrorCode::kNotFound, "cannot read " + options.dataset, "--dataset"};
  }
  std::vector<BenchRequest> lines;
  uint64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    base::Result<BenchRequest> request = parse_line(line, options, model);
    if (!request.ok()) {
      return std::move(request).error().within(fmt::format("{} line {}", options.dataset, number));
    }
    lines.push_back(std::move(request).value());
  }
  if (lines.empty()) return base::corrupt(options.dataset + " holds no prompt");
  Workload workload;
  for (uint64_t i = 0; i < options.warmup; ++i) workload.warmup.push_back(lines[i % lines.size()]);
  for (uint64_t i = 0; i < options.requests; ++i) {
    workload.requests.push_back(lines[i % lines.size()]);
  }
  return workload;
}

}  // namespace

TokenRange drawable_tokens(int64_t vocabulary) {
  const int64_t all = std::clamp(vocabulary, int64_t{1}, kVocabularyMax);
  const int64_t edge = std::min<int64_t>(300, all / 4);
  return {static_cast<int32_t>(edge), static_cast<uint32_t>(std::max<int64_t>(1, all - 2 * edge))};
}

BenchRequest completion_of(const BenchServeOptions& options, const std::string& model,
                           const PromptTokens& prompt, int64_t output_tokens) {
  base::JsonWriter body;
  body.begin_object().key("prompt").begin_array();
  for (const int32_t token : prompt) body.value(token);
  body.end_array();
  write_common(body, options, model, "max_tokens", output_tokens);
  body.end_object();
  return {"/v1/completions", std::move(body).take(), static_cast<int64_t>(prompt.size()),
          output_tokens};
}

base::Result<Workload> make_workload(const BenchServeOptions& options, const std::string& model,
                                     int64_t vocabulary) {
  if (!options.dataset.empty()) return read_dataset(options, model);
  if (options.endpoint == BenchEndpoint::kChat) {
    return base::invalid_argument(
        "--endpoint", "random prompts are token ids, which chat does not take: give --dataset");
  }
  RandomPrompts prompts(options, model, vocabulary);
  Workload workload;
  for (uint64_t i = 0; i < options.warmup; ++i) workload.warmup.push_back(prompts.warmup(i));
  for (uint64_t i = 0; i < options.requests; ++i) workload.requests.push_back(prompts.next());
  return workload;
}

}  // namespace bulkhead::apps
