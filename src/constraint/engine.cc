// The one translation unit that includes XGrammar.
#include "constraint/engine.h"

#include <fmt/format.h>
#include <support/logging.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "base/check.h"
#include "constraint/literal.h"
#include "constraint/structural_tag.h"

namespace xgrammar {
namespace {

// What the engine warned of on this thread while somebody listens: parts of a schema that it would
// pass over.
thread_local std::string* warnings = nullptr;

}  // namespace

void LogFatalImpl(const std::string& file, int line, const std::string& message) {
  throw LogFatalError(file, line, message);
}

void LogMessageImpl(const std::string&, int, int level, const std::string& message) {
  if (level >= XGRAMMAR_LOG_LEVEL_WARNING && warnings != nullptr && warnings->empty()) {
    *warnings = message;
  }
}

}  // namespace xgrammar

namespace bulkhead::constraint {
namespace {

constexpr int kRecursionMax = 2000;
constexpr char kSurrogateLead = '\xED';

using Words = std::vector<uint32_t>;

// Collects warnings for as long as it lives.
class Listening {
 public:
  Listening() { xgrammar::warnings = &heard_; }
  ~Listening() { xgrammar::warnings = nullptr; }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  const std::string& heard() const { return heard_; }

 private:
  std::string heard_;
};

// The engine's own check prefixes its messages with the place in its source.
std::string plain(const std::exception& error) {
  const auto* fatal = dynamic_cast<const xgrammar::LogFatalError*>(&error);
  return fatal == nullptr ? error.what() : fatal->std::runtime_error::what();
}

// Text that no grammar over characters can ask for: a byte that UTF-8 does not have.
std::string private_spelling(size_t id) { return fmt::format("\xFF{}", id); }

// Control tokens that the engine's own forms of arguments spell in letters: a grammar may take the
// token where it takes the letters.
bool is_argument_markup(const std::string& spelling) {
  constexpr std::string_view kMarkup[] = {"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
                                          "\uFF5CDSML\uFF5C"};
  return std::find(std::begin(kMarkup), std::end(kMarkup), spelling) != std::end(kMarkup);
}

xgrammar::TokenizerInfo tokenizer_info(const Vocabulary& vocabulary) {
  std::vector<std::string> tokens = vocabulary.tokens;
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (vocabulary.control[id] && !is_argument_markup(tokens[id])) {
      tokens[id] = private_spelling(id);
    }
  }
  for (const wire::TokenId id : vocabulary.end_ids) {
    tokens[static_cast<size_t>(id)] = private_spelling(static_cast<size_t>(id));
  }
  return xgrammar::TokenizerInfo(tokens, xgrammar::VocabType::RAW, vocabulary.width,
                                 std::vector<int32_t>{});
}

bool is_surrogate_tail(char c) { return (static_cast<unsigned char>(c) & 0xE0) == 0xA0; }

// UTF-8 has no surrogates, but the engine's character classes do: a byte 0xED and then 0xA0..0xBF.
bool holds_surrogate(const std::string& bytes) {
  for (size_t i = 0; i + 1 < bytes.size(); ++i) {
    if (bytes[i] == kSurrogateLead && is_surrogate_tail(bytes[i + 1])) return true;
  }
  return false;
}

void clear(Words& words, size_t id) { words[id / 32] &= ~(1u << (id % 32)); }

// Ids that may be part of an answer at all.
Words possible_tokens(const Vocabulary& vocabulary) {
  Words words(wire::mask_words(static_cast<size_t>(vocabulary.width)), 0);
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& bytes = vocabulary.tokens[id];
    if (!bytes.empty() && !holds_surrogate(bytes)) words[id / 32] |= 1u << (id % 32);
  }
  for (const wire::TokenId id : vocabulary.end_ids) clear(words, static_cast<size_t>(id));
  return words;
}

// JSON has no control characters in its strings, but the engine's strings of limited length do.
// Between its parts line breaks and spaces are white space enough.
bool has_control_character(const std::string& bytes) {
  return std::any_of(bytes.begin(), bytes.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r';
  });
}

Words possible_in_json(const Vocabulary& vocabulary, Words words) {
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& bytes = vocabulary.tokens[id];
    const bool markup = vocabulary.control[id] && is_argument_markup(bytes);
    if (markup || has_control_character(bytes)) clear(words, id);
  }
  return words;
}

// Those that may follow a byte 0xED.
Words possible_after_lead(const Vocabulary& vocabulary, Words words) {
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& bytes = vocabulary.tokens[id];
    if (!bytes.empty() && is_surrogate_tail(bytes[0])) clear(words, id);
  }
  return words;
}

}  // namespace

struct Engine::Core {
  explicit Core(Vocabulary the_vocabulary, telemetry::Histogram* histogram)
      : vocabulary(std::move(the_vocabulary)),
        fill_seconds(histogram),
        possible(possible_tokens(vocabulary)),
        in_json(possible_in_json(vocabulary, possible)),
        after_lead(possible_after_lead(vocabulary, possible)),
        compiler(tokenizer_info(vocabulary), /*max_threads=*/1, /*cache_enabled=*/false) {}

  const Vocabulary vocabulary;
  telemetry::Histogram* const fill_seconds;
  const Words possible;
  const Words in_json;
  const Words after_lead;
  mutable xgrammar::GrammarCompiler compiler;
};

namespace {

// What a sequence waits for before the grammar begins, and what may happen meanwhile.
struct Wait {
  Literal until;
  bool may_stop = false;
};

// Everything that the states of one specification share.
class Compiled final : public wire::Constraint, public std::enable_shared_from_this<Compiled> {
 public:
  Compiled(std::shared_ptr<const Engine::Core> core, xgrammar::CompiledGrammar grammar,
           std::vector<Wait> waits, bool json_only);
  std::unique_ptr<wire::ConstraintState> start() const override;
  size_t bytes() const override { return grammar_.MemorySizeBytes(); }

  const Engine::Core& core() const { return *core_; }
  const xgrammar::CompiledGrammar& grammar() const { return grammar_; }
  const std::vector<Wait>& waits() const { return waits_; }
  // Every value in it is spelled as JSON.
  bool json_only() const { return json_only_; }

 private:
  const std::shared_ptr<const Engine::Core> core_;
  const xgrammar::CompiledGrammar grammar_;
  const std::vector<Wait> waits_;
  const bool json_only_;
};

class State final : public wire::ConstraintState {
 public:
  explicit State(std::shared_ptr<const Compiled> compiled)
      : compiled_(std::move(compiled)), matcher_(compiled_->grammar()) {}

  size_t accepted() const override { return accepted_; }
  bool accept(wire::TokenId token) override;
  void fill_mask(std::span<uint32_t> mask) override;
  bool can_stop() const override;

 private:
  bool waiting() const { return wait_ < compiled_->waits().size(); }
  bool accept_waiting(wire::TokenId token);
  void fill_waiting(std::span<uint32_t> mask) const;
  void fill_from_grammar(std::span<uint32_t> mask);

  const std::shared_ptr<const Compiled> compiled_;
  xgrammar::GrammarMatcher matcher_;
  size_t accepted_ = 0;
  size_t wait_ = 0;     // index of what is waited for
  size_t matched_ = 0;  // of its text
  bool lead_ = false;   // the last byte may begin a surrogate
};

bool State::accept(wire::TokenId token) {
  bool taken = false;
  try {
    taken = waiting() ? accept_waiting(token) : matcher_.AcceptToken(token);
  } catch (const std::exception&) {
    taken = false;
  }
  if (!taken) return false;
  ++accepted_;
  const std::string& bytes = compiled_->core().vocabulary.bytes(token);
  lead_ = !bytes.empty() && bytes.back() == kSurrogateLead;
  return true;
}

bool State::accept_waiting(wire::TokenId token) {
  const Literal& until = compiled_->waits()[wait_].until;
  const auto matched = until.advance(matched_, compiled_->core().vocabulary.bytes(token));
  if (!matched) return false;
  matched_ = *matched;
  if (matched_ == until.size()) {
    ++wait_;
    matched_ = 0;
  }
  return true;
}

void State::fill_mask(std::span<uint32_t> mask) {
  const auto begin = std::chrono::steady_clock::now();
  const Words& possible = compiled_->core().possible;
  BH_CHECK(mask.size() == possible.size(), "a mask of the vocabulary's width");
  if (waiting()) {
    fill_waiting(mask);
  } else {
    fill_from_grammar(mask);
  }
  if (telemetry::Histogram* histogram = compiled_->core().fill_seconds) {
    histogram->observe(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
}

void State::fill_waiting(std::span<uint32_t> mask) const {
  const Words& possible = compiled_->core().possible;
  std::copy(possible.begin(), possible.end(), mask.begin());
  for (const wire::TokenId id : compiled_->waits()[wait_].until.blocked(matched_)) {
    mask[static_cast<size_t>(id) / 32] &= ~(1u << (static_cast<size_t>(id) % 32));
  }
}

void State::fill_from_grammar(std::span<uint32_t> mask) {
  auto shape = static_cast<int64_t>(mask.size());
  DLTensor tensor{};
  tensor.data = mask.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = xgrammar::GetBitmaskDLType();
  tensor.shape = &shape;
  const Engine::Core& core = compiled_->core();
  try {
    // False: everything is allowed, and the mask was not written.
    if (!matcher_.FillNextTokenBitmask(&tensor)) std::fill(mask.begin(), mask.end(), ~0u);
  } catch (const std::exception&) {
    std::fill(mask.begin(), mask.end(), 0u);  // the sampler reports a row without a token
  }
  const Words& possible = compiled_->json_only() ? core.in_json : core.possible;
  for (size_t i = 0; i < mask.size(); ++i) mask[i] &= possible[i];
  if (!lead_) return;
  for (size_t i = 0; i < mask.size(); ++i) mask[i] &= core.after_lead[i];
}

bool State::can_stop() const {
  return waiting() ? compiled_->waits()[wait_].may_stop : matcher_.IsCompleted();
}

Compiled::Compiled(std::shared_ptr<const Engine::Core> core, xgrammar::CompiledGrammar grammar,
                   std::vector<Wait> waits, bool json_only)
    : core_(std::move(core)),
      grammar_(std::move(grammar)),
      waits_(std::move(waits)),
      json_only_(json_only) {}

bool is_json_only(const wire::ConstraintSpec& spec) {
  if (!spec.tool_calls) return true;
  const auto& tools = spec.tool_calls->tools;
  return std::all_of(tools.begin(), tools.end(), [](const wire::ToolGrammar& tool) {
    return tool.style == wire::ArgumentStyle::kJson;
  });
}

std::unique_ptr<wire::ConstraintState> Compiled::start() const {
  return std::make_unique<State>(shared_from_this());
}

}  // namespace

Engine::~Engine() = default;

base::Result<std::unique_ptr<Engine>> Engine::create(Vocabulary vocabulary,
                                                     telemetry::Histogram* fill_seconds) {
  BH_CHECK(vocabulary.control.size() == vocabulary.tokens.size(), "a flag for each token");
  for (const wire::TokenId id : vocabulary.end_ids) {
    BH_CHECK(id >= 0 && static_cast<size_t>(id) < vocabulary.tokens.size(), "end ids are tokens");
  }
  try {
    xgrammar::SetMaxRecursionDepth(kRecursionMax);
    return std::unique_ptr<Engine>(
        new Engine(std::make_shared<const Core>(std::move(vocabulary), fill_seconds)));
  } catch (const std::exception& error) {
    return base::unsupported("the vocabulary does not suit the grammar engine: " + plain(error));
  }
}

base::Result<std::shared_ptr<const wire::Constraint>> Engine::compile(
    const wire::ConstraintSpec& spec) const {
  BH_ASSIGN(const std::string tag, structural_tag(spec, core_->vocabulary));
  std::vector<Wait> waits;
  if (!spec.free_until.empty()) {
    waits.push_back({Literal(spec.free_until, core_->vocabulary), false});
  }
  if (spec.tool_calls && spec.tool_calls->text_before) {
    waits.push_back(
        {Literal(spec.tool_calls->section_begin, core_->vocabulary), !spec.tool_calls->required});
  }
  try {
    const Listening listening;
    xgrammar::CompiledGrammar grammar = core_->compiler.CompileStructuralTag(tag);
    if (!listening.heard().empty()) {
      return base::Error{base::ErrorCode::kUnsupported,
                         "part of it cannot be enforced: " + listening.heard(), "schema"};
    }
    if (grammar.MemorySizeBytes() > kConstraintBytesMax) {
      return base::invalid_argument(
          "schema", fmt::format("its grammar takes {} MB; the limit is {} MB",
                                grammar.MemorySizeBytes() >> 20, kConstraintBytesMax >> 20));
    }
    std::shared_ptr<const wire::Constraint> constraint = std::make_shared<const Compiled>(
        core_, std::move(grammar), std::move(waits), is_json_only(spec));
    return constraint;
  } catch (const std::exception& error) {
    return base::invalid_argument("schema", "it cannot be made a grammar: " + plain(error));
  }
}

}  // namespace bulkhead::constraint
