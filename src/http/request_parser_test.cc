#include "http/request_parser.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace bulkhead::http {
namespace {

struct Outcome {
  RequestParser::State state;
  std::optional<Request> request;
  int status = 0;
  std::string code;
  std::string rest;  // not taken
};

// Feeds `bytes` in pieces of `step`, presenting again what was not taken.
Outcome parse(std::string_view bytes, size_t step = SIZE_MAX, RequestLimits limits = {}) {
  RequestParser parser(limits);
  std::string in;
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, step);
    bytes.remove_prefix(piece.size());
    in += piece;
    in.erase(0, parser.feed(in));
  }
  Outcome outcome{parser.state(), {}, 0, {}, in};
  if (parser.state() == RequestParser::State::kDone) outcome.request = parser.take();
  if (parser.state() == RequestParser::State::kFailed) {
    outcome.status = parser.error().status;
    outcome.code = std::string(parser.error().code);
    EXPECT_FALSE(parser.error().message.empty());
  }
  return outcome;
}

TEST(RequestParser, ReadsTheSameRequestFromAnySplit) {
  const std::string bytes =
      "POST /v1/chat%20x?a=%41 HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nx-one:  two \r\n"
      "Content-Length: 5\r\n\r\nhelloGET";
  for (const size_t step : {1u, 2u, 3u, 7u, 50u, 1000u}) {
    const Outcome outcome = parse(bytes, step);
    ASSERT_EQ(outcome.state, RequestParser::State::kDone) << step;
    const Request& request = *outcome.request;
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/v1/chat x");
    EXPECT_EQ(request.query, "a=%41");
    EXPECT_EQ(request.body, "hello");
    EXPECT_EQ(request.header("X-ONE"), "1");
    EXPECT_EQ(request.header_count("X-One"), 2u);
    EXPECT_EQ(request.headers[2].value, "two");
    EXPECT_EQ(request.header("absent"), "");
    EXPECT_EQ(outcome.rest, "GET") << "bytes of the next request are not taken";
  }
}

TEST(RequestParser, JoinsChunksAndIgnoresTrailers) {
  const std::string bytes =
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\nA;name=\"x y\"\r\n0123456789\r\n0\r\nAuthorization: Bearer x\r\nContent-Length: "
      "3\r\n\r\nrest";
  for (const size_t step : {1u, 2u, 5u, 1000u}) {
    const Outcome outcome = parse(bytes, step);
    ASSERT_EQ(outcome.state, RequestParser::State::kDone) << step;
    EXPECT_EQ(outcome.request->body, "abc0123456789");
    EXPECT_EQ(outcome.request->header_count("authorization"), 0u);
    EXPECT_EQ(outcome.rest, "rest");
  }
}

TEST(RequestParser, EndsAnExtensionAtItsLineEvenInsideAQuote) {
  const std::string bytes =
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;a=\"b\r\nab\"\r\n0\r\n\r\n";
  for (const size_t step : {1u, 2u, 5u, 1000u}) {
    const Outcome outcome = parse(bytes, step);
    ASSERT_EQ(outcome.state, RequestParser::State::kDone) << step;
    EXPECT_EQ(outcome.request->body, "ab\"");
  }
}

TEST(RequestParser, AcceptsTheAbsoluteForm) {
  const Outcome outcome = parse("GET http://user@host:1/a/b?c HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_EQ(outcome.state, RequestParser::State::kDone);
  EXPECT_EQ(outcome.request->path, "/a/b");
  EXPECT_EQ(outcome.request->query, "c");
  EXPECT_EQ(parse("GET HTTPS://host HTTP/1.1\r\nHost: x\r\n\r\n").request->path, "/");
  EXPECT_EQ(parse("GET http://host?q HTTP/1.1\r\nHost: x\r\n\r\n").request->query, "q");
}

TEST(RequestParser, SkipsOneEmptyLineBeforeARequest) {
  EXPECT_EQ(parse("\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", 1).state, RequestParser::State::kDone);
  EXPECT_EQ(parse("\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", 1).status, 400);
}

TEST(RequestParser, KnowsWhenTheConnectionMayBeKept) {
  const auto keeps = [](std::string_view head) {
    RequestParser parser(RequestLimits{});
    parser.feed(head);
    EXPECT_EQ(parser.state(), RequestParser::State::kDone) << head;
    return parser.keep_alive();
  };
  EXPECT_TRUE(keeps("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.1\r\nHost: x\r\nConnection: a, Close\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST(RequestParser, AsksForTheBodyOnlyWhenTheClientWaits) {
  RequestParser parser(RequestLimits{});
  parser.feed("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-Continue\r\n\r\n");
  EXPECT_EQ(parser.state(), RequestParser::State::kBody);
  EXPECT_TRUE(parser.waits_for_continue());
  parser.feed("a");
  EXPECT_FALSE(parser.waits_for_continue());
}

TEST(RequestParser, RefusesABodyOverTheLimitBeforeReadingIt) {
  RequestLimits limits;
  limits.body_bytes_max = 10;
  EXPECT_EQ(parse("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n", 7, limits).status,
            413);
  EXPECT_EQ(
      parse("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n0123456789", 7, limits).state,
      RequestParser::State::kDone);
  const std::string chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(parse(chunked + "a\r\n0123456789\r\n0\r\n\r\n", 3, limits).state,
            RequestParser::State::kDone);
  EXPECT_EQ(parse(chunked + "a\r\n0123456789\r\n1\r\n", 3, limits).status, 413);
  EXPECT_EQ(parse(chunked + "ffffffffffffffff\r\n", 3, limits).status, 413);
  EXPECT_EQ(
      parse("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\n", 9).status,
      413);
}

TEST(RequestParser, HoldsItsHeaderLimitsForAnySplit) {
  RequestLimits limits;
  limits.header_bytes_max = 200;
  limits.target_bytes_max = 100;
  limits.header_count_max = 4;
  const std::string line = "GET / HTTP/1.1\r\nHost: x\r\n";
  for (const size_t step : {1u, 13u, 100'000u}) {
    EXPECT_EQ(parse(line + "A: " + std::string(300, 'a') + "\r\n\r\n", step, limits).status, 431);
    EXPECT_EQ(parse(line + "A: " + std::string(300, 'a'), step, limits).status, 431);
    EXPECT_EQ(parse(line + "A: 1\r\nB: 1\r\nC: 1\r\nD: 1\r\n\r\n", step, limits).status, 431);
    EXPECT_EQ(parse(line + "A: 1\r\nB: 1\r\nC: 1\r\n\r\n", step, limits).state,
              RequestParser::State::kDone);
    EXPECT_EQ(parse("GET /" + std::string(300, 'a'), step, limits).status, 414);
    EXPECT_EQ(parse("GET /" + std::string(101, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", step, limits)
                  .status,
              414);
    EXPECT_EQ(
        parse("GET /" + std::string(99, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", step, limits).state,
        RequestParser::State::kDone);
  }
  // Exactly at the limit: the lines, the empty one and the end of the request line not counted.
  const std::string exact = "GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(186, 'a') + "\r\n\r\n";
  for (const size_t step : {1u, 5u, 1000u}) {
    EXPECT_EQ(parse(exact, step, limits).state, RequestParser::State::kDone);
  }
  EXPECT_EQ(
      parse("GET / HTTP/1.1\r\nHost: xx\r\nA: " + std::string(186, 'a') + "\r\n\r\n", 5, limits)
          .status,
      431);
}

TEST(RequestParser, EndsAChunkedBodyThatIsMostlyFraming) {
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(parse(head + "1;" + std::string(100'000, 'a'), 999).status, 400);
  EXPECT_EQ(parse(head + "0\r\nA: " + std::string(100'000, 'a'), 999).status, 400);
  std::string extensions = head;
  for (int i = 0; i < 100; ++i) extensions += "1;a=" + std::string(1000, 'b') + "\r\nx\r\n";
  EXPECT_EQ(parse(extensions, 999).status, 400);
  std::string bytewise = head;
  for (int i = 0; i < 5000; ++i) bytewise += "1\r\nx\r\n";
  EXPECT_EQ(parse(bytewise + "0\r\n\r\n", 999).state, RequestParser::State::kDone);
}

struct BadRequest {
  const char* name;
  std::string bytes;
  int status;
  const char* code;
};

class RequestParserRefuses : public ::testing::TestWithParam<BadRequest> {};

TEST_P(RequestParserRefuses, WithTheSameAnswerForAnySplit) {
  for (const size_t step : {1u, 4u, 100'000u}) {
    const Outcome outcome = parse(GetParam().bytes, step);
    EXPECT_EQ(outcome.state, RequestParser::State::kFailed) << GetParam().name;
    EXPECT_EQ(outcome.status, GetParam().status) << GetParam().name;
    EXPECT_EQ(outcome.code, GetParam().code) << GetParam().name;
  }
}

std::vector<BadRequest> bad_headers() {
  const std::string line = "POST / HTTP/1.1\r\nHost: x\r\n";
  const char* invalid = "invalid_request";
  return {
      {"TwoHosts", line + "host: y\r\n\r\n", 400, invalid},
      {"TwoLengths", line + "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400, invalid},
      {"UnequalLengths", line + "Content-Length: 1\r\nContent-Length: 2\r\n\r\na", 400, invalid},
      {"LengthList", line + "Content-Length: 1, 1\r\n\r\na", 400, invalid},
      {"NegativeLength", line + "Content-Length: -1\r\n\r\n", 400, invalid},
      {"PlusLength", line + "Content-Length: +1\r\n\r\na", 400, invalid},
      {"HexLength", line + "Content-Length: 0x1\r\n\r\na", 400, invalid},
      {"EmptyLength", line + "Content-Length: \r\n\r\n", 400, invalid},
      {"HugeLength", line + "Content-Length: 99999999999999999999\r\n\r\n", 400, invalid},
      {"LengthThenChunked",
       line + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, invalid},
      {"ChunkedThenLength",
       line + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400, invalid},
      {"UnknownCodingAndLength",
       line + "Transfer-Encoding: xchunked\r\nContent-Length: 3\r\n\r\nabc", 400, invalid},
      {"GzipChunked", line + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501,
       "unsupported_transfer_encoding"},
      {"Identity", line + "Transfer-Encoding: identity\r\n\r\n", 501,
       "unsupported_transfer_encoding"},
      {"ChunkedTwice", line + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
       400, invalid},
      {"ChunkedNotLast", line + "Transfer-Encoding: chunked, gzip\r\n\r\n", 501,
       "unsupported_transfer_encoding"},
      {"VerticalTabCoding",
       line + "Transfer-Encoding: \x0b"
              "chunked\r\n\r\n",
       400, invalid},
      {"ChunkedOverHttp10", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
       invalid},
      {"BlankBeforeColon", line + "Content-Length : 3\r\n\r\nabc", 400, invalid},
      {"NoColon", line + "Content-Length\r\n\r\n", 400, invalid},
      {"EmptyName", line + ": x\r\n\r\n", 400, invalid},
      {"Folded", line + "A: b\r\n c\r\n\r\n", 400, invalid},
      {"FoldedEmpty", line + "A:\r\n b\r\n\r\n", 400, invalid},
      {"FoldedCoding", line + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400, invalid},
      {"FoldedFirstLine", "GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400, invalid},
      {"NulInValue", line + "A: b" + std::string(1, '\0') + "c\r\n\r\n", 400, invalid},
      {"BareCr", line + "A: b\rc\r\n\r\n", 400, invalid},
      {"BareLf", line + "A: b\nB: c\r\n\r\n", 400, invalid},
      {"Gzip", line + "Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\na", 415,
       "unsupported_content_encoding"},
      {"SecondGzip", line + "Content-Encoding: identity\r\nContent-Encoding: br\r\n\r\n", 415,
       "unsupported_content_encoding"},
      {"OddExpect", line + "Expect: 200-ok\r\nContent-Length: 1\r\n\r\na", 417,
       "expectation_failed"},
  };
}

std::vector<BadRequest> bad_lines_and_chunks() {
  const char* invalid = "invalid_request";
  const auto target = [](const std::string& t) {
    return "GET " + t + " HTTP/1.1\r\nHost: x\r\n\r\n";
  };
  const std::string chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  return {
      {"TlsHello", std::string("\x16\x03\x01\x02\x00", 5), 400, invalid},
      {"Nul", std::string("\0", 1), 400, invalid},
      {"NoHost", "GET / HTTP/1.1\r\n\r\n", 400, invalid},
      {"Http2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "http_version_not_supported"},
      {"Http20", "GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505, "http_version_not_supported"},
      {"Http09", "GET / HTTP/0.9\r\nHost: x\r\n\r\n", 505, "http_version_not_supported"},
      {"NoVersion", "GET /\r\nHost: x\r\n\r\n", 400, invalid},
      {"OddVersion", "GET / HTTP/1.1x\r\nHost: x\r\n\r\n", 400, invalid},
      {"TwoBlanks", "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400, invalid},
      {"BlankInTarget", target("/a b"), 400, invalid},
      {"LongMethod", std::string(40, 'A') + " / HTTP/1.1\r\nHost: x\r\n\r\n", 400, invalid},
      {"NoSlash", target("path"), 400, invalid},
      {"Authority", target("host:443"), 400, invalid},
      {"Asterisk", target("*"), 400, invalid},
      {"OtherScheme", target("ftp://host/a"), 400, invalid},
      {"NoAuthority", target("http:///a"), 400, invalid},
      {"EncodedNul", target("/a%00b"), 400, invalid},
      {"EncodedLineBreak", target("/a%0d%0ab"), 400, invalid},
      {"HalfEscape", target("/a%4"), 400, invalid},
      {"EscapeAtEnd", target("/a%"), 400, invalid},
      {"OddEscape", target("/a%zz"), 400, invalid},
      {"Fragment", target("/a#b"), 400, invalid},
      {"RawUtf8", target("/\xc3\xa4"), 400, invalid},
      {"Delete", target("/\x7f"), 400, invalid},
      {"OddChunkSize", chunked + "xyz\r\n", 400, invalid},
      {"NegativeChunk", chunked + "-1\r\n", 400, invalid},
      {"HexPrefixChunk", chunked + "0x1\r\na\r\n0\r\n\r\n", 400, invalid},
      {"OverflowingChunk", chunked + "10000000000000000\r\n", 400, invalid},
      {"ChunkWithoutEnd", chunked + "1\r\nabcdef\r\n", 400, invalid},
      {"BareLfChunk", chunked + "1\na\r\n0\r\n\r\n", 400, invalid},
      {"EmptyChunkLine", chunked + "\r\n", 400, invalid},
      {"BlankInChunkSize", chunked + "1 \r\na\r\n0\r\n\r\n", 400, invalid},
      {"ControlInExtension", chunked + "1;a=\"\n\"\r\na\r\n0\r\n\r\n", 400, invalid},
      {"CrInExtension", chunked + "1;a=\"\r\"\r\na\r\n0\r\n\r\n", 400, invalid},
      {"BareLfInTrailer", chunked + "0\r\nA: b\n\r\n", 400, invalid},
  };
}

const auto row_name = [](const auto& row) { return std::string(row.param.name); };
INSTANTIATE_TEST_SUITE_P(Headers, RequestParserRefuses, ::testing::ValuesIn(bad_headers()),
                         row_name);
INSTANTIATE_TEST_SUITE_P(LinesAndChunks, RequestParserRefuses,
                         ::testing::ValuesIn(bad_lines_and_chunks()), row_name);

}  // namespace
}  // namespace bulkhead::http
