#include "text/pre_tokenizer.h"

#include <string>

#include "text/unicode.h"

namespace bulkhead::text {
namespace {

size_t match_at(const Matcher& matcher, std::string_view text, size_t at) {
  return matcher(text, at);
}

size_t match_at(const ClassRun& run, std::string_view text, size_t at) {
  return run.match(text, at);
}

size_t match_at(const SplitDigits& digits, std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size()) {
    const Char c = char_at(text, end);
    if ((c.flags & kDigitFlag) == 0) break;
    end += c.length;
    if (digits.individual) break;
  }
  return end;
}

// End of the piece that starts at `at`: a match, or everything up to the next match.
template <typename Splitter>
size_t piece_end(const Splitter& splitter, std::string_view text, size_t at) {
  if (const size_t end = match_at(splitter, text, at); end != at) return end;
  do {
    at += char_at(text, at).length;
  } while (at < text.size() && match_at(splitter, text, at) == at);
  return at;
}

}  // namespace

base::Result<SplitStep> split_by_regex(std::string_view regex) {
  if (const Matcher matcher = find_pattern(regex)) return SplitStep(matcher);
  if (auto run = ClassRun::parse(regex)) return SplitStep(*std::move(run));
  return base::unsupported(
      "the pattern \"" + std::string(regex) +
      "\" is not supported; supported are the patterns of GPT-2, Llama 3 and GLM, Qwen2 and Qwen3, "
      "Qwen3.5, GPT-4o, DeepSeek-V3, and a character class with an optional class before it, such "
      "as \\s?\\p{L}+ or [0-9]{1,3}");
}

void PreTokenizer::split_from(size_t step, std::string_view text, PieceSink& sink) const {
  if (text.empty()) return;
  if (step == steps_.size()) return sink.take(text);
  const auto cut = [&](const auto& splitter) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = piece_end(splitter, text, at);
      split_from(step + 1, text.substr(at, end - at), sink);
      at = end;
    }
  };
  if (const auto* matcher = std::get_if<Matcher>(&steps_[step])) {
    cut(*matcher);
  } else if (const auto* run = std::get_if<ClassRun>(&steps_[step])) {
    cut(*run);
  } else if (const auto* digits = std::get_if<SplitDigits>(&steps_[step])) {
    cut(*digits);
  } else if (text.front() == ' ') {
    split_from(step + 1, text, sink);
  } else {
    split_from(step + 1, " " + std::string(text), sink);
  }
}

}  // namespace bulkhead::text
