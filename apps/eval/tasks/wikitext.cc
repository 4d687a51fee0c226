#include "apps/eval/tasks/wikitext.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "apps/eval/tasks/data_files.h"
#include "apps/eval/text_tools.h"

namespace bulkhead::apps::eval {
namespace {

constexpr Source kSource{"wikitext-2's test.txt as text/wikitext-2-test.txt",
                         "pytorch/examples (word_language_model/data/wikitext-2)"};

// " = Title = " and not " = = Section = = "; a formula that looks like one is taken for one, as
// lm-eval's set of pages has it.
bool is_title(std::string_view line) {
  const std::string joined = replaced(replaced(line, "= = =", "==="), "= =", "==");
  const std::string_view bare = stripped(joined);
  return bare.rfind("= ", 0) == 0 && bare.ends_with(" =");
}

// What is enclosed loses the white space at its ends, pair by pair from the left.
std::string tight(std::string_view text, char open, char close) {
  std::string out;
  out.reserve(text.size());
  for (;;) {
    const size_t begin = text.find(open);
    const size_t end = begin == std::string_view::npos ? begin : text.find(close, begin + 1);
    if (end == std::string_view::npos) return out.append(text);
    out += text.substr(0, begin + 1);
    out += stripped(text.substr(begin + 1, end - begin - 1));
    out += close;
    text.remove_prefix(end + 1);
  }
}

// lm-eval means to join "/' 5/" and writes its pattern's own text instead: so do we.
std::string slashed_years(std::string_view text) {
  constexpr std::string_view kBegin = "/' ";
  std::string out;
  for (;;) {
    const size_t at = text.find(kBegin);
    if (at == std::string_view::npos || at + 5 > text.size()) return out.append(text);
    const char digit = text[at + 3];
    if (digit >= '0' && digit <= '9' && text[at + 4] == '/') {
      out.append(text.substr(0, at)).append("/'[0-9]/");
      text.remove_prefix(at + 5);
    } else {
      out.append(text.substr(0, at + 1));
      text.remove_prefix(at + 1);
    }
  }
}

std::string replaced_all(std::string text,
                         std::initializer_list<std::pair<const char*, const char*>> pairs) {
  for (const auto& [from, to] : pairs) text = replaced(text, from, to);
  return text;
}

Verdict judge(const Reply& reply, double words, double bytes) {
  const double score = reply.scores.empty() ? 0.0 : reply.scores[0].value_or(0.0);
  return {fmt::format("{:.4f}", score),
          {{"loglikelihood", score}, {"words", words}, {"bytes", bytes}}};
}

}  // namespace

std::vector<std::string> pages_of(std::string_view text) {
  std::vector<std::string> pages;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    if (pages.empty() || is_title(line)) {
      if (pages.empty() && stripped(line).empty()) continue;
      pages.emplace_back();
    }
    pages.back() += line;
  }
  return pages;
}

std::string rejoined(std::string_view page) {
  std::string text = slashed_years(replaced(page, "s '", "s'"));
  text = replaced_all(std::move(text), {{" @-@ ", "-"},
                                        {" @,@ ", ","},
                                        {" @.@ ", "."},
                                        {" : ", ": "},
                                        {" ; ", "; "},
                                        {" . ", ". "},
                                        {" ! ", "! "},
                                        {" ? ", "? "},
                                        {" , ", ", "}});
  for (const auto& [open, close] : {std::pair('(', ')'), std::pair('[', ']'), std::pair('{', '}'),
                                    std::pair('"', '"'), std::pair('\'', '\'')}) {
    text = tight(text, open, close);
  }
  return replaced_all(std::move(text), {{"= = = =", "===="},
                                        {"= = =", "==="},
                                        {"= =", "=="},
                                        {" \xC2\xB0 ", "\xC2\xB0"},
                                        {" \n", "\n"},
                                        {"\n ", "\n"},
                                        {" N ", " 1 "},
                                        {" 's", "'s"}});
}

base::Result<Task> load_wikitext(const LoadOptions& options) {
  if (options.shots > 0) {
    return base::invalid_argument("--shots", "wikitext has no examples; leave --shots out");
  }
  BH_ASSIGN(const std::string text, read_data(options.data + "/text/wikitext-2-test.txt", kSource));
  Task task;
  task.name = "wikitext";
  task.scoring = Scoring::kPerplexity;
  for (const std::string& page : pages_of(text)) {
    const auto words = static_cast<double>(split_count(page));
    const auto bytes = static_cast<double>(page.size());
    task.questions.push_back(
        {fmt::format("wikitext/{}", task.questions.size()), "", RollingAsk{rejoined(page)}, "",
         [words, bytes](const Reply& reply) { return judge(reply, words, bytes); }});
  }
  if (task.questions.empty()) return base::corrupt("wikitext-2-test.txt has no page");
  return task;
}

}  // namespace bulkhead::apps::eval
