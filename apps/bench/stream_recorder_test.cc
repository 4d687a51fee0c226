#include "apps/bench/stream_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bulkhead::apps {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

base::Result<http::ClientResponse> answered(int status) {
  http::ClientResponse response;
  response.status = status;
  return response;
}

std::string text(std::string_view token) {
  return http::sse_event("{\"choices\":[{\"text\":\"" + std::string(token) +
                         "\",\"finish_reason\":null}],\"usage\":null}");
}
const std::string kFinish =
    http::sse_event("{\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}");
const std::string kUsage = http::sse_event(
    "{\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":4,"
    "\"prompt_tokens_details\":{\"cached_tokens\":8}}}");
const std::string kDone = http::sse_event("[DONE]");

TEST(StreamRecorder, TimesAreThoseOfTheChunksWithText) {
  StreamRecorder recorder(100ms);
  recorder.piece(text("a"), 150ms);
  recorder.piece(text("b"), 160ms);
  recorder.piece(text("c") + text("d"), 190ms);
  recorder.piece(kFinish, 195ms);
  recorder.piece(kUsage, 196ms);
  recorder.piece(kDone, 200ms);
  const RequestRecord record = recorder.finish(answered(200), 230ms);
  EXPECT_EQ(record.failure, "");
  EXPECT_NEAR(record.ttft_s, 0.050, 1e-12);
  EXPECT_NEAR(record.e2e_s, 0.100, 1e-12);
  EXPECT_NEAR(record.tpot_s, 0.040 / 3, 1e-12);
  EXPECT_THAT(record.itl_s, ElementsAre(DoubleNear(0.010, 1e-12), DoubleNear(0.030, 1e-12),
                                        DoubleNear(0, 1e-12)));
  EXPECT_TRUE(record.usage);
  EXPECT_EQ(record.input_tokens, 12);
  EXPECT_EQ(record.output_tokens, 4);
  EXPECT_EQ(record.cached_tokens, 8);
  EXPECT_EQ(record.finish_reason, "length");
}

TEST(StreamRecorder, AnEventCountsWhenItsLastByteCame) {
  StreamRecorder recorder(0ms);
  const std::string event = text("a");
  recorder.piece(event.substr(0, 10), 10ms);
  recorder.piece(event.substr(10, event.size() - 11), 20ms);
  recorder.piece(event.substr(event.size() - 1), 30ms);
  recorder.piece(kDone, 40ms);
  EXPECT_NEAR(recorder.finish(answered(200), 40ms).ttft_s, 0.030, 1e-12);
}

TEST(StreamRecorder, ARoleIsNoToken) {
  StreamRecorder recorder(0ms);
  recorder.piece(
      http::sse_event("{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}"),
      1ms);
  recorder.piece(http::sse_event("{\"choices\":[{\"delta\":{\"reasoning_content\":\"so\"}}]}"),
                 7ms);
  recorder.piece(http::sse_event("{\"choices\":[{\"delta\":{\"content\":\"yes\"}}]}"), 9ms);
  recorder.piece(kDone, 10ms);
  const RequestRecord record = recorder.finish(answered(200), 10ms);
  EXPECT_NEAR(record.ttft_s, 0.007, 1e-12);
  EXPECT_EQ(record.itl_s.size(), 1u);
}

TEST(StreamRecorder, WithoutUsageChunksAreCounted) {
  StreamRecorder recorder(0ms);
  recorder.piece(text("a") + text("b") + kFinish + kDone, 5ms);
  const RequestRecord record = recorder.finish(answered(200), 5ms);
  EXPECT_FALSE(record.usage);
  EXPECT_EQ(record.output_tokens, 2);
  EXPECT_EQ(record.failure, "");
}

TEST(StreamRecorder, CommentsAndWhatFollowsTheEndAreIgnored) {
  StreamRecorder recorder(0ms);
  recorder.piece(": keep-alive\n\n" + text("a") + kDone + text("late"), 5ms);
  const RequestRecord record = recorder.finish(answered(200), 9ms);
  EXPECT_EQ(record.failure, "");
  EXPECT_EQ(record.output_tokens, 1);
  EXPECT_NEAR(record.e2e_s, 0.005, 1e-12);
}

TEST(StreamRecorder, TokensWithoutTextAreAnAnswer) {
  StreamRecorder recorder(0ms);
  recorder.piece(kFinish + kUsage + kDone, 5ms);
  const RequestRecord record = recorder.finish(answered(200), 5ms);
  EXPECT_EQ(record.failure, "");
  EXPECT_EQ(record.output_tokens, 4);
  EXPECT_NEAR(record.ttft_s, 0.005, 1e-12);
}

std::string failure_after(std::string_view bytes, const base::Result<http::ClientResponse>& end) {
  StreamRecorder recorder(0ms);
  recorder.piece(bytes, 5ms);
  const RequestRecord record = recorder.finish(end, 9ms);
  EXPECT_NE(record.failure_text, "");
  return record.failure;
}

TEST(StreamRecorder, EveryWayToFailHasItsName) {
  const auto broke = [](base::ErrorCode code) {
    return base::Result<http::ClientResponse>(base::Error{code, "why", {}});
  };
  EXPECT_EQ(failure_after("", broke(base::ErrorCode::kUnavailable)), "connect");
  EXPECT_EQ(failure_after(text("a"), broke(base::ErrorCode::kCancelled)), "timeout");
  EXPECT_EQ(failure_after(text("a"), broke(base::ErrorCode::kIo)), "broken_stream");
  EXPECT_EQ(failure_after("", broke(base::ErrorCode::kCorruptData)), "bad_answer");
  EXPECT_EQ(failure_after("{}", answered(429)), "http_429");
  EXPECT_EQ(failure_after(text("a") + kFinish, answered(200)), "broken_stream");
  EXPECT_EQ(failure_after(kDone, answered(200)), "no_tokens");
  EXPECT_EQ(failure_after("data: nonsense\n\n" + text("a") + kDone, answered(200)), "bad_answer");
  EXPECT_EQ(failure_after(
                text("a") + http::sse_event("{\"error\":{\"message\":\"no capacity\"}}") + kDone,
                answered(200)),
            "error_event");
}

TEST(StreamRecorder, ARefusalKeepsItsMessage) {
  StreamRecorder recorder(0ms);
  recorder.piece("{\"error\": {\"message\": \"too many requests", 1ms);
  recorder.piece(" wait\"}}", 2ms);
  EXPECT_EQ(recorder.finish(answered(429), 2ms).failure_text, "too many requests wait");
  StreamRecorder plain(0ms);
  plain.piece("<html>Bad Gateway</html>", 1ms);
  EXPECT_THAT(plain.finish(answered(502), 2ms).failure_text, HasSubstr("Bad Gateway"));
}

}  // namespace
}  // namespace bulkhead::apps
