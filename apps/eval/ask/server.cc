#include "apps/eval/ask/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "apps/drill/json_members.h"

namespace bulkhead::apps::eval {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr milliseconds kFirstWait{500};
constexpr milliseconds kWaitMax{30'000};
constexpr size_t kQuoteMax = 300;

bool may_pass(int status) { return status == 408 || status == 429 || status >= 500; }

bool is_header(std::string_view name, std::string_view lower) {
  return std::equal(name.begin(), name.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

// What Retry-After asks for, in seconds; longer than a person waits is not waited.
std::optional<milliseconds> asked_wait(const http::ClientResponse& response) {
  for (const http::Header& header : response.headers) {
    if (!is_header(header.name, "retry-after")) continue;
    unsigned seconds = 0;
    const char* end = header.value.data() + header.value.size();
    const auto [rest, error] = std::from_chars(header.value.data(), end, seconds);
    if (error == std::errc() && rest == end) {
      return std::min(kWaitMax, milliseconds(1000) * std::min(seconds, 3600u));
    }
  }
  return std::nullopt;
}

// The message of an error body, or its beginning where it has another form.
std::string refusal_text(const std::string& body) {
  boost::system::error_code bad;
  const json::value value = json::parse(body, bad);
  const std::string message = bad ? "" : text_of(member(member(&value, "error"), "message"));
  return message.empty() ? body.substr(0, kQuoteMax) : message.substr(0, kQuoteMax);
}

base::Result<json::value> parsed(const std::string& target, const std::string& body) {
  boost::system::error_code bad;
  json::value value = json::parse(body, bad);
  if (bad || !value.is_object()) {
    return base::corrupt(
        fmt::format("{} answered no JSON object: {}", target, body.substr(0, kQuoteMax)));
  }
  return value;
}

}  // namespace

base::Result<json::value> Server::post(const std::string& target, const std::string& body) {
  return send("POST", target, body);
}

base::Result<json::value> Server::get(const std::string& target) { return send("GET", target, ""); }

base::Result<json::value> Server::send(const std::string& method, const std::string& target,
                                       const std::string& body) {
  milliseconds pause = kFirstWait;
  for (unsigned attempt = 0;; ++attempt) {
    const base::Result<http::ClientResponse> result = transport_(method, target, body);
    if (result.ok() && result->status == 200) return parsed(target, result->body);
    std::string told = result.ok() ? fmt::format("{} answered {}: {}", target, result->status,
                                                 refusal_text(result->body))
                                   : result.error().message;
    if (result.ok() && !may_pass(result->status)) {
      return base::invalid_argument(target, std::move(told));
    }
    milliseconds wait = pause;
    if (result.ok()) wait = asked_wait(*result).value_or(pause);
    if (attempt == patience_.retries || !patience_.wait(wait)) {
      return base::Error{base::ErrorCode::kUnavailable,
                         fmt::format("{} (tried {} times)", told, attempt + 1), target};
    }
    pause = std::min(kWaitMax, 2 * pause);
  }
}

}  // namespace bulkhead::apps::eval
