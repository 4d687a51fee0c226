#include "apps/eval/precision/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/drill/json_members.h"
#include "apps/eval/ask/completion.h"
#include "apps/eval/statistics.h"
#include "base/json_writer.h"

namespace bulkhead::apps::eval {
namespace {

namespace json = boost::json;

constexpr int64_t kFormat = 1;
constexpr size_t kStretchBytes = 8192;  // 512 tokens of up to 16 bytes on average
constexpr double kRounding = 1e-6;      // sums of probabilities are no better than this
constexpr std::string_view kIdPrefix = "token_id:";

// Whether a character goes on here.
bool is_inside(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

bool likelier(const LikelyToken& a, const LikelyToken& b) {
  return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
}

base::Result<Likely> likely_of(const json::value& tops, size_t position) {
  const base::Error bad = base::corrupt(fmt::format(
      "logprobs.top_logprobs[{}] has no log-probabilities by token id; the server must know echo, "
      "logprobs and return_tokens_as_token_ids",
      position));
  if (!tops.is_object() || tops.as_object().empty()) return bad;
  Likely out;
  out.reserve(tops.as_object().size());
  for (const auto& [name, number] : tops.as_object()) {
    const std::string_view text(name);
    if (text.substr(0, kIdPrefix.size()) != kIdPrefix || !number.is_number()) return bad;
    boost::system::error_code failed;
    const json::value id = json::parse(text.substr(kIdPrefix.size()), failed);
    if (failed || !id.is_int64()) return bad;
    out.push_back({id.as_int64(), number.to_number<double>()});
  }
  std::sort(out.begin(), out.end(), likelier);
  return out;
}

// The probabilities of one token in two precisions.
struct TwoOdds {
  double before = 0.0, after = 0.0;
};

// The tokens that both name, and last everything else.
std::vector<TwoOdds> outcomes_of(const Likely& before, const Likely& after) {
  std::vector<TwoOdds> out;
  TwoOdds rest{1.0, 1.0};
  for (const LikelyToken& was : before) {
    const auto is = std::find_if(after.begin(), after.end(),
                                 [&was](const LikelyToken& one) { return one.id == was.id; });
    if (is == after.end()) continue;
    out.push_back({std::exp(was.logprob), std::exp(is->logprob)});
    rest.before -= out.back().before;
    rest.after -= out.back().after;
  }
  out.push_back(rest);
  return out;
}

struct Sums {
  double divergence = 0.0, named = 0.0;
  uint64_t same_first = 0;
};

Sums sums_over(const std::vector<Likely>& before, const std::vector<Likely>& after, size_t begin) {
  Sums sums;
  for (size_t i = begin; i < begin + kDriftBucket; ++i) {
    sums.divergence += divergence_bound(before[i], after[i]);
    sums.named += 1.0 - std::max(0.0, outcomes_of(before[i], after[i]).back().before);
    sums.same_first += before[i].front().id == after[i].front().id ? 1 : 0;
  }
  return sums;
}

// Ids and log-probabilities in turn; six digits are more than a float of this size has.
void write_window(base::JsonWriter& out, const std::vector<Likely>& window) {
  out.begin_array();
  for (const Likely& likely : window) {
    out.begin_array();
    for (const LikelyToken& token : likely) {
      out.value(token.id).raw(fmt::format("{:.6f}", token.logprob));
    }
    out.end_array();
  }
  out.end_array();
}

base::Result<std::vector<Likely>> read_window(const json::value& value) {
  std::vector<Likely> window;
  const base::Error bad = base::corrupt("a window is no list of 512 lists of ids and numbers");
  window.reserve(kForcedTokens);
  for (const json::value& position : elements_of(&value)) {
    const json::array& numbers = elements_of(&position);
    if (numbers.empty() || numbers.size() % 2 != 0) return bad;
    Likely likely;
    likely.reserve(numbers.size() / 2);
    for (size_t i = 0; i < numbers.size(); i += 2) {
      if (!numbers[i].is_int64() || !numbers[i + 1].is_number()) return bad;
      likely.push_back({numbers[i].as_int64(), numbers[i + 1].to_number<double>()});
    }
    window.push_back(std::move(likely));
  }
  if (window.size() != kForcedTokens) return bad;
  return window;
}

}  // namespace

double divergence_bound(const Likely& before, const Likely& after) {
  std::vector<TwoOdds> outcomes = outcomes_of(before, after);
  // A rest that rounding may have made is put to the last token: coarser still, and a bound still.
  const TwoOdds rest = outcomes.back();
  if (outcomes.size() > 1 && (rest.before < kRounding || rest.after < kRounding)) {
    outcomes.pop_back();
    outcomes.back().before += rest.before;
    outcomes.back().after += rest.after;
  }
  double sum = 0.0;
  for (const TwoOdds& one : outcomes) {
    if (one.before > 0.0 && one.after > 0.0) sum += one.before * std::log(one.before / one.after);
  }
  return std::max(0.0, sum);
}

std::vector<DriftBucket> drift_between(const LikelySample& before, const LikelySample& after) {
  BH_CHECK(before.windows.size() == after.windows.size(), "samples of different windows");
  std::vector<DriftBucket> buckets(kDriftBuckets);
  for (size_t bucket = 0; bucket < kDriftBuckets; ++bucket) {
    DriftBucket& out = buckets[bucket];
    std::vector<double> means;
    for (size_t i = 0; i < before.windows.size(); ++i) {
      const Sums sums = sums_over(before.windows[i], after.windows[i], bucket * kDriftBucket);
      means.push_back(sums.divergence / static_cast<double>(kDriftBucket));
      out.positions += kDriftBucket;
      out.divergence += sums.divergence;
      out.named += sums.named;
      out.same_first += sums.same_first;
    }
    if (out.positions == 0) continue;
    out.divergence /= static_cast<double>(out.positions);
    out.named /= static_cast<double>(out.positions);
    out.divergence_error = standard_error(means);
  }
  return buckets;
}

std::vector<std::string> stretches_of(std::string_view text, size_t count) {
  const size_t most = std::min(count, std::max<size_t>(1, text.size() / kStretchBytes));
  std::vector<std::string> out;
  for (size_t i = 0; i < most; ++i) {
    size_t begin = i * text.size() / most;
    if (begin > 0) {
      const size_t line = text.find('\n', begin);
      // Where lines are long, a stretch begins anywhere.
      if (line != std::string_view::npos && line - begin < kStretchBytes / 2) begin = line + 1;
    }
    size_t end = std::min(text.size(), begin + kStretchBytes);
    while (begin < end && is_inside(text, begin)) ++begin;
    while (end > begin && is_inside(text, end)) --end;
    out.emplace_back(text.substr(begin, end - begin));
  }
  return out;
}

base::Result<std::vector<Likely>> window_of(const json::value& choice) {
  // The first token has nothing before it; the one that was generated behind them does not count.
  const json::array& tops = elements_of(member(member(&choice, "logprobs"), "top_logprobs"));
  if (tops.size() < kForcedTokens + 1) {
    return base::corrupt(fmt::format("logprobs.top_logprobs has {} entries for a prompt of {}",
                                     tops.size(), kForcedTokens + 1));
  }
  std::vector<Likely> window;
  window.reserve(kForcedTokens);
  for (size_t i = 1; i <= kForcedTokens; ++i) {
    BH_ASSIGN(Likely likely, likely_of(tops[i], i));
    window.push_back(std::move(likely));
  }
  return window;
}

base::Result<std::vector<std::vector<Likely>>> measure_likely(
    Server& server, const ServerFacts& facts, const std::vector<std::string>& stretches,
    const std::function<void(size_t)>& on_window) {
  if (!facts.tokenizes) return base::unsupported("drift needs a server with /tokenize");
  std::vector<std::vector<Likely>> windows;
  windows.reserve(stretches.size());
  for (const std::string& text : stretches) {
    BH_ASSIGN(TokenIds ids, tokenize(server, facts.model, text));
    if (ids.size() <= kForcedTokens) {
      return base::invalid_argument(
          "--text", fmt::format("a stretch of the text has {} tokens, and drift needs {}; name a "
                                "longer text with --text",
                                ids.size(), kForcedTokens + 1));
    }
    ids.resize(kForcedTokens + 1);
    const json::object body = {{"model", facts.model},
                               {"prompt", json::array(ids.begin(), ids.end())},
                               {"max_tokens", 1},
                               {"temperature", 0},
                               {"echo", true},
                               {"logprobs", facts.top_max},
                               {"return_tokens_as_token_ids", true}};
    BH_ASSIGN(const json::value answer, server.post("/v1/completions", json::serialize(body)));
    BH_ASSIGN(const auto choice, choices_of(answer, 1));
    BH_ASSIGN(std::vector<Likely> window, window_of(*choice[0]));
    windows.push_back(std::move(window));
    on_window(windows.size());
  }
  return windows;
}

std::string likely_json(const LikelySample& sample) {
  base::JsonWriter out;
  out.begin_object().key("bulkhead_likely").value(kFormat);
  out.key("identity").value(sample.identity).key("banner").begin_array();
  for (const std::string& line : sample.banner) out.value(line);
  out.end_array().key("windows").begin_array();
  for (const std::vector<Likely>& window : sample.windows) write_window(out, window);
  out.end_array().end_object();
  return std::move(out).take() + "\n";
}

base::Result<LikelySample> read_likely(const std::string& text) {
  boost::system::error_code bad;
  const json::value value = json::parse(text, bad);
  const json::value* format = bad ? nullptr : member(&value, "bulkhead_likely");
  if (format == nullptr || !format->is_int64() || format->as_int64() != kFormat) {
    return base::corrupt(
        fmt::format("these are no likely tokens (\"bulkhead_likely\": {} is missing)", kFormat));
  }
  LikelySample sample;
  sample.identity = text_of(member(&value, "identity"));
  for (const json::value& line : elements_of(member(&value, "banner"))) {
    sample.banner.push_back(text_of(&line));
  }
  for (const json::value& window : elements_of(member(&value, "windows"))) {
    BH_ASSIGN(std::vector<Likely> read, read_window(window));
    sample.windows.push_back(std::move(read));
  }
  if (sample.windows.empty()) return base::corrupt("there is no window");
  return sample;
}

}  // namespace bulkhead::apps::eval
