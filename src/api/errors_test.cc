// The error table: every code that the sources can send is in docs/api.md, and none is there that
// nobody sends.
#include "api/errors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

namespace bulkhead::api {
namespace {

std::string header(const http::Response& response, std::string_view name) {
  for (const http::Header& one : response.headers) {
    if (one.name == name) return one.value;
  }
  return {};
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

void collect(const std::string& text, const std::regex& pattern, std::set<std::string>& out) {
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    out.insert((*it)[1]);
  }
}

// Codes as they are written where errors are made: ApiError{status, type, code...},
// retriable(status, type, code...), invalid_request(code...) and the HTTP layer's own.
std::set<std::string> codes_in_sources(const std::filesystem::path& root) {
  const std::regex api_error(
      R"re((?:ApiError\s*\{|retriable\()\s*\d{3},\s*(?:"\w+"|kInvalidRequest),\s*"(\w+)")re");
  const std::regex invalid(R"re(invalid_request\("(\w+)")re");
  const std::regex http_error(
      R"re((?:RequestError\s*\{|error_response\(|refuse\(|fail\()\s*\d{3},\s*"(\w+)")re");
  std::set<std::string> codes;
  // What pools and links say of themselves goes out as it is.
  collect(read_file(root / "src" / "wire" / "faults.h"),
          std::regex(R"re(string_view k\w+ = "(\w+)")re"), codes);
  for (const char* folder : {"src/api", "src/http", "src/serve"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string name = entry.path().filename().string();
      if (!name.ends_with(".cc") || name.ends_with("_test.cc")) continue;
      const std::string text = read_file(entry.path());
      collect(text, api_error, codes);
      collect(text, invalid, codes);
      collect(text, http_error, codes);
    }
  }
  return codes;
}

TEST(Errors, EveryCodeIsDocumentedAndEveryDocumentedCodeExists) {
  const char* root = std::getenv("BULKHEAD_SOURCE_DIR");
  ASSERT_NE(root, nullptr);
  const std::set<std::string> sent = codes_in_sources(root);
  for (const char* known : {"invalid_json", "queue_full", "insufficient_scope", "not_found"}) {
    EXPECT_TRUE(sent.contains(known)) << known << ": the search has lost sight of the sources";
  }
  const std::string text = read_file(std::filesystem::path(root) / "docs" / "api.md");
  std::set<std::string> documented;
  collect(text, std::regex(R"re(\n\| \d{3} \| `(\w+)` \|)re"), documented);
  for (const std::string& code : sent) {
    EXPECT_TRUE(documented.contains(code)) << "docs/api.md lacks the error code " << code;
  }
  for (const std::string& code : documented) {
    EXPECT_TRUE(sent.contains(code)) << "docs/api.md lists a code that nobody sends: " << code;
  }
}

TEST(Errors, RetriableOnesSayWhenAndTheRestThatItIsNoUse) {
  const auto full =
      error_response(from_submit({base::ErrorCode::kResourceExhausted, "8 wait", {}}), "req-1");
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(header(full, "Retry-After"), "1");
  EXPECT_EQ(header(full, "retry-after-ms"), "1000");
  EXPECT_EQ(header(full, "x-should-retry"), "true");
  const auto leaving = error_response(draining(), "req-1");
  EXPECT_EQ(leaving.status, 503);
  EXPECT_EQ(header(leaving, "x-should-retry"), "true");
  wire::FinishEvent late;
  late.reason = wire::FinishReason::kDeadline;
  const auto deadline = error_response(from_finish(late), "req-1");
  EXPECT_EQ(deadline.status, 408);
  EXPECT_EQ(header(deadline, "x-should-retry"), "false");
  const auto missing = error_response(not_implemented("not here"), "req-1");
  EXPECT_EQ(missing.status, 501);
  EXPECT_EQ(header(missing, "x-should-retry"), "false");
  EXPECT_EQ(header(missing, "Retry-After"), "");
}

}  // namespace
}  // namespace bulkhead::api
