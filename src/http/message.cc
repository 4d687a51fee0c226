#include "http/message.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <ctime>
#include <iterator>

#include "base/json_writer.h"

namespace bulkhead::http {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

void append_clean(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += (byte < 0x20 || byte == 0x7f) ? ' ' : c;
  }
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  append_clean(out, name);
  out += ": ";
  append_clean(out, value);
  out += "\r\n";
}

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, section 5.6.7); strftime would follow the locale.
void append_date(std::string& out) {
  static constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed",
                                                       "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  fmt::format_to(std::back_inserter(out), "Date: {}, {:02} {} {} {:02}:{:02}:{:02} GMT\r\n",
                 kDays[static_cast<size_t>(utc.tm_wday) % 7], utc.tm_mday,
                 kMonths[static_cast<size_t>(utc.tm_mon) % 12], utc.tm_year + 1900, utc.tm_hour,
                 utc.tm_min, utc.tm_sec);
}

std::string_view error_type(int status) {
  if (status == 503) return "overloaded_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

std::string_view Request::header(std::string_view name) const {
  for (const Header& h : headers) {
    if (equals_ignoring_case(h.name, name)) return h.value;
  }
  return {};
}

size_t Request::header_count(std::string_view name) const {
  size_t count = 0;
  for (const Header& h : headers) count += equals_ignoring_case(h.name, name) ? 1 : 0;
  return count;
}

std::string_view reason_phrase(int status) {
  struct Row {
    int status;
    std::string_view text;
  };
  static constexpr Row kRows[] = {
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {402, "Payment Required"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {406, "Not Acceptable"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {411, "Length Required"},
      {413, "Content Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {417, "Expectation Failed"},
      {422, "Unprocessable Content"},
      {424, "Failed Dependency"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {499, "Client Closed Request"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {502, "Bad Gateway"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
      {507, "Insufficient Storage"},
  };
  for (const Row& row : kRows) {
    if (row.status == status) return row.text;
  }
  return "Unknown";
}

Response error_response(int status, std::string_view code, std::string_view message) {
  base::JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.key("message").value(message);
  json.key("type").value(error_type(status));
  json.key("param").null();
  json.key("code").value(code);
  json.end_object().end_object();
  Response response;
  response.status = status;
  response.body = std::move(json).take();
  return response;
}

bool status_has_no_body(int status) {
  return (status >= 100 && status < 200) || status == 204 || status == 304;
}

void append_head(std::string& out, const Response& response, HeadOptions options) {
  out += "HTTP/1.1 ";
  fmt::format_to(std::back_inserter(out), "{} ", response.status);
  out += reason_phrase(response.status);
  out += "\r\n";
  append_date(out);
  if (!status_has_no_body(response.status)) {
    if (!response.content_type.empty()) append_header(out, "Content-Type", response.content_type);
    if (options.framing == Framing::kContentLength) {
      fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", response.body.size());
    } else if (options.framing == Framing::kChunked) {
      out += "Transfer-Encoding: chunked\r\n";
    }
  }
  if (options.close) {
    out += "Connection: close\r\n";
  } else if (options.http_1_0) {
    out += "Connection: keep-alive\r\n";
  }
  for (const Header& header : response.headers) append_header(out, header.name, header.value);
  out += "\r\n";
}

void append_chunk(std::string& out, std::string_view piece) {
  std::array<char, 16> size_text{};
  const auto end =
      std::to_chars(size_text.data(), size_text.data() + size_text.size(), piece.size(), 16);
  out.append(size_text.data(), end.ptr);
  out += "\r\n";
  out += piece;
  out += "\r\n";
}

}  // namespace bulkhead::http
