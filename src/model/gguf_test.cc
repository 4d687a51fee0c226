#include "model/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing/files.h"

namespace bulkhead::model {
namespace {

using ::testing::AllOf;
using testing::GgufBuilder;
using ::testing::HasSubstr;
using testing::le;

base::Result<GgufFile> read(const std::string& bytes) {
  const auto source = memory_source("w.gguf", std::as_bytes(std::span<const char>(bytes)));
  return read_gguf(*source, 0);
}

std::string error_of(const GgufBuilder& builder) {
  const auto result = read(builder.bytes());
  return result.ok() ? "no error" : result.error().message;
}

TEST(Gguf, ValuesOfEveryTypeAreRead) {
  GgufBuilder builder;
  builder.raw("u8", 0, le(uint8_t{200})).raw("i8", 1, le(int8_t{-5}));
  builder.raw("u16", 2, le(uint16_t{60000})).raw("i16", 3, le(int16_t{-300}));
  builder.raw("i32", 5, le(int32_t{-70000})).raw("u64", 10, le(uint64_t{1} << 40));
  builder.raw("i64", 11, le(int64_t{-1})).raw("f64", 12, le(0.5)).f32("f32", 0.25f);
  builder.u32("u32", 4000000000u).boolean("yes", 1).text("text", "a\nb").texts("list", {"", "x"});
  builder.raw("ints", 9, le(uint32_t{5}) + le(uint64_t{2}) + le(int32_t{7}) + le(int32_t{-7}));
  const auto file = read(builder.bytes());
  ASSERT_TRUE(file.ok()) << file.error().message;
  const GgufMetadata& metadata = file->metadata;
  const auto whole = [&](const char* key) { return std::get<int64_t>(metadata.find(key)); };
  EXPECT_EQ(whole("u8"), 200);
  EXPECT_EQ(whole("i8"), -5);
  EXPECT_EQ(whole("u16"), 60000);
  EXPECT_EQ(whole("i16"), -300);
  EXPECT_EQ(whole("u32"), 4000000000);
  EXPECT_EQ(whole("i32"), -70000);
  EXPECT_EQ(whole("u64"), int64_t{1} << 40);
  EXPECT_EQ(whole("i64"), -1);
  EXPECT_EQ(std::get<double>(metadata.find("f64")), 0.5);
  EXPECT_EQ(std::get<double>(metadata.find("f32")), 0.25);
  EXPECT_TRUE(std::get<bool>(metadata.find("yes")));
  EXPECT_EQ(std::get<std::string_view>(metadata.find("text")), "a\nb");
  EXPECT_EQ(*metadata.strings("list"), (std::vector<std::string>{"", "x"}));
  EXPECT_EQ(*metadata.integers("ints"), (std::vector<int64_t>{7, -7}));
  EXPECT_EQ(metadata.strings("ints"), nullptr);
}

TEST(Gguf, TensorsHaveTheirShapeReversedAndOffsetsFromTheFileStart) {
  GgufBuilder builder;
  builder.tensor("a", {4, 3}, 0, std::string(48, 'a'))
      .tensor("b", {32, 2}, 2, std::string(36, 'b'));
  const std::string bytes = builder.bytes();
  const auto file = read(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file->tensors.size(), 2u);
  EXPECT_EQ(file->tensors[0].shape, (std::vector<uint64_t>{3, 4}));
  EXPECT_EQ(file->tensors[0].bytes, 48u);
  EXPECT_EQ(bytes.substr(file->tensors[0].offset, 48), std::string(48, 'a'));
  EXPECT_EQ(file->tensors[1].type, TensorType::kQ4_0);
  EXPECT_EQ(file->tensors[1].elements, 64u);
  EXPECT_EQ(bytes.substr(file->tensors[1].offset, 36), std::string(36, 'b'));
}

// C211
TEST(Gguf, EveryTruncationIsAnErrorAndNeverAValue) {
  const std::string whole = testing::tiny_llama_gguf().bytes();
  ASSERT_TRUE(read(whole).ok());
  for (size_t length = 0; length < whole.size(); ++length) {
    ASSERT_FALSE(read(whole.substr(0, length)).ok()) << length;
  }
}

TEST(Gguf, ThePreambleIsChecked) {
  EXPECT_THAT(read("GGUX" + std::string(20, '\0')).error().message,
              HasSubstr("w.gguf: byte 0: not a GGUF file"));
  GgufBuilder builder;
  builder.preamble = {{"version", 2}};
  EXPECT_THAT(error_of(builder), HasSubstr("GGUF version 2"));
  builder.preamble = {{"tensors", 500'001}};
  EXPECT_THAT(error_of(builder), HasSubstr("500001 tensors"));
  builder.preamble = {{"tensors", ~uint64_t{0}}};
  EXPECT_THAT(error_of(builder), HasSubstr("tensors, at most"));
  builder.preamble = {{"keys", ~uint64_t{0}}};
  EXPECT_THAT(error_of(builder), HasSubstr("keys, at most"));
  builder.preamble = {{"keys", 1}};
  EXPECT_THAT(error_of(builder), HasSubstr("byte 24: 8 bytes are needed, 0 are left"));
}

// C212
TEST(Gguf, LengthsBeyondTheFileAreRefusedBeforeAllocation) {
  constexpr uint64_t kHuge = uint64_t{1} << 40;
  EXPECT_THAT(error_of(GgufBuilder().raw("k", 8, le(kHuge) + "x")),
              AllOf(HasSubstr("key \"k\""), HasSubstr("a string of 1099511627776 bytes")));
  for (const uint32_t type : {0u, 5u, 6u, 7u, 8u, 12u}) {
    EXPECT_THAT(error_of(GgufBuilder().raw("k", 9, le(type) + le(kHuge) + "x")),
                HasSubstr("an array of 1099511627776 elements"));
  }
  EXPECT_THAT(error_of(GgufBuilder().raw("k", 9, le(uint32_t{0}) + le(~uint64_t{0}))),
              HasSubstr("an array of"));
  EXPECT_THAT(error_of(GgufBuilder().raw("k", 9, le(uint32_t{8}) + le(uint64_t{1}) + le(kHuge))),
              HasSubstr("a string of"));
}

TEST(Gguf, OddValuesAreErrors) {
  EXPECT_THAT(error_of(GgufBuilder().raw("k", 13, "")), HasSubstr("unknown value type 13"));
  EXPECT_THAT(error_of(GgufBuilder().boolean("k", 2)), HasSubstr("neither 0 nor 1"));
  EXPECT_THAT(error_of(GgufBuilder().raw("k", 10, le(~uint64_t{0}))), HasSubstr("beyond 2^63"));
  EXPECT_THAT(error_of(GgufBuilder().raw("k", 9, le(uint32_t{9}) + le(uint64_t{0}))),
              HasSubstr("an array of value type 9 is not supported"));
  EXPECT_THAT(error_of(GgufBuilder().u32("k", 1).u32("k", 2)), HasSubstr("\"k\" appears twice"));
  EXPECT_THAT(error_of(GgufBuilder().u32("\xff", 1)), HasSubstr("not UTF-8"));
}

// C212
TEST(Gguf, TheAlignmentIsAPowerOfTwo) {
  for (const uint32_t alignment : {0u, 3u, 48u, 1u << 31}) {
    EXPECT_THAT(error_of(GgufBuilder().u32("general.alignment", alignment)),
                HasSubstr("general.alignment: must be a power of two"));
  }
  EXPECT_THAT(error_of(GgufBuilder().text("general.alignment", "32")),
              HasSubstr("general.alignment"));
  GgufBuilder builder;
  builder.alignment = 64;
  builder.u32("general.alignment", 64).tensor("a", {4}, 0, std::string(16, 'a'));
  builder.tensor("b", {4}, 0, std::string(16, 'b'));
  EXPECT_EQ(error_of(builder), "no error");
}

// C210
TEST(Gguf, ImpossibleTensorsAreErrorsThatNameThem) {
  const auto error = [](const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    return error_of(GgufBuilder().raw_tensor("t", dims, type, offset));
  };
  EXPECT_THAT(error({}, 0, 0), AllOf(HasSubstr("tensor \"t\""), HasSubstr("0 dimensions")));
  EXPECT_THAT(error({1, 1, 1, 1, 1}, 0, 0), HasSubstr("5 dimensions"));
  EXPECT_THAT(error({(uint64_t{1} << 63) - 1, 3}, 0, 0), HasSubstr("overflows"));
  EXPECT_THAT(error({uint64_t{1} << 62}, 0, 0), HasSubstr("overflows"));
  EXPECT_THAT(error({uint64_t{1} << 40}, 0, 0), HasSubstr("but the file ends at byte"));
  EXPECT_THAT(error({31}, 2, 0), HasSubstr("rows of 31 elements are not whole Q4_0 blocks"));
  EXPECT_THAT(error({128}, 12, 0), HasSubstr("not whole Q4_K blocks"));
  EXPECT_THAT(error({4}, 255, 0), HasSubstr("type 255 is not supported"));
  EXPECT_THAT(error({4}, 4, 0), HasSubstr("type 4 is not supported"));
  EXPECT_THAT(error({4}, 0, 5), HasSubstr("offset 5 is not a multiple of 32"));
  EXPECT_THAT(error({4}, 0, 32), HasSubstr("there is a hole"));
  EXPECT_THAT(error({4}, 0, ~uint64_t{31}), HasSubstr("tensor \"t\""));
}

TEST(Gguf, TensorsMustFollowEachOther) {
  GgufBuilder overlap;
  overlap.tensor("a", {16}, 0, std::string(64, 'a')).raw_tensor("b", {4}, 0, 32);
  EXPECT_THAT(error_of(overlap), AllOf(HasSubstr("tensor \"b\""), HasSubstr("they overlap")));
  GgufBuilder twice;
  twice.tensor("a", {8}, 0, std::string(32, 'a')).tensor("a", {8}, 0, std::string(32, 'a'));
  EXPECT_THAT(error_of(twice), HasSubstr("tensor \"a\" is listed twice"));
  GgufBuilder tail;
  tail.tensor("a", {8}, 0, std::string(32 + 33, 'a'));
  EXPECT_THAT(error_of(tail), HasSubstr("after the last tensor belong to none"));
}

}  // namespace
}  // namespace bulkhead::model
