#include "base/halt.h"

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace bulkhead::base {
namespace {

struct Halt {
  std::string step;  // empty: never
  std::atomic<int64_t> left{1};

  explicit Halt(std::string_view text) {
    const size_t colon = text.find(':');
    step = text.substr(0, colon);
    if (colon == std::string_view::npos) return;
    const std::string_view count = text.substr(colon + 1);
    int64_t n = 1;
    std::from_chars(count.data(), count.data() + count.size(), n);
    left = n;
  }
  bool is(std::string_view verb, std::string_view what) const {
    return step.size() == verb.size() + 1 + what.size() && step[verb.size()] == '-' &&
           step.starts_with(verb) && step.ends_with(what);
  }
};

Halt& halt() {
  static Halt from_environment([] {
    const char* text = std::getenv("BULKHEAD_HALT_AT");
    return std::string_view(text == nullptr ? "" : text);
  }());
  return from_environment;
}

}  // namespace

void halt_at(std::string_view verb, std::string_view what) {
  Halt& wanted = halt();
  if (wanted.step.empty() || !wanted.is(verb, what)) return;
  if (wanted.left.fetch_sub(1) == 1) raise(SIGSTOP);
}

}  // namespace bulkhead::base
