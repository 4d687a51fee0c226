#include "model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing/files.h"

namespace bulkhead::model {
namespace {

using ::testing::AllOf;
using testing::FileTensor;
using ::testing::HasSubstr;

base::Result<std::vector<TensorInfo>> read(const std::string& bytes) {
  const auto source = memory_source("w.safetensors", std::as_bytes(std::span<const char>(bytes)));
  return read_safetensors(*source, 7);
}

// The error of a file with this header and `data_bytes` bytes of data.
std::string error_of(std::string_view header, size_t data_bytes) {
  const auto result = read(testing::safetensors_with_header(header, std::string(data_bytes, 'x')));
  return result.ok() ? "no error" : result.error().message;
}

std::string entry(std::string_view name, std::string_view rest) {
  return "\"" + std::string(name) + "\":{" + std::string(rest) + "}";
}

constexpr std::string_view kGood = R"("dtype":"F32","shape":[2,3],"data_offsets":[0,24])";

TEST(Safetensors, TensorsComeBackInTheOrderOfTheirDataWithOffsetsFromTheFileStart) {
  const std::vector<FileTensor> tensors = {{"b", "F32", {2, 3}, std::string(24, 'b')},
                                           {"a", "BF16", {}, std::string(2, 'a')},
                                           {"none", "I64", {0, 4}, ""},
                                           {"u\\u00e9", "U8", {5}, std::string(5, 'u')}};
  const std::string bytes = testing::safetensors_bytes(tensors);
  const auto result = read(bytes);
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_EQ(result->size(), 4u);
  const uint64_t data_begin = 8 + testing::safetensors_header(tensors).size();
  EXPECT_EQ((*result)[0].name, "b");
  EXPECT_EQ((*result)[0].offset, data_begin);
  EXPECT_EQ((*result)[0].bytes, 24u);
  EXPECT_EQ((*result)[0].elements, 6u);
  EXPECT_EQ((*result)[0].file, 7u);
  EXPECT_EQ((*result)[1].name, "a");
  EXPECT_TRUE((*result)[1].shape.empty());
  EXPECT_EQ((*result)[1].elements, 1u);
  EXPECT_EQ((*result)[2].bytes, 0u);
  EXPECT_EQ((*result)[3].name, "u\xc3\xa9");
}

TEST(Safetensors, MetadataAndTrailingSpacesAreAccepted) {
  const std::string header =
      R"({"__metadata__":{"format":"pt","a":"b\n"},)" + entry("x", kGood) + "}    ";
  EXPECT_TRUE(read(testing::safetensors_with_header(header, std::string(24, 'x'))).ok());
}

TEST(Safetensors, AFileWithoutTensorsIsValid) {
  const auto result = read(testing::safetensors_with_header("{}", ""));
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->empty());
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string whole = testing::safetensors_bytes(testing::tiny_llama_tensors());
  for (size_t length = 0; length < whole.size(); length += length < 2000 ? 1 : 37) {
    EXPECT_FALSE(read(whole.substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(read(whole + "x").ok());
}

// C212
TEST(Safetensors, AHeaderLengthBeyondTheFileIsRefusedBeforeAnythingIsRead) {
  for (const uint64_t length :
       {uint64_t{3}, uint64_t{100'000'001}, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    const auto result = read(testing::le(length) + "{}");
    ASSERT_FALSE(result.ok());
    EXPECT_THAT(result.error().message, HasSubstr("w.safetensors: byte 0: the header claims"));
  }
}

TEST(Safetensors, BrokenJsonNamesTheByte) {
  EXPECT_THAT(error_of("[]", 0), HasSubstr("byte 8: the header must begin with '{'"));
  EXPECT_THAT(error_of("{\"a\"}", 0), HasSubstr("w.safetensors: byte 12"));
  EXPECT_THAT(error_of("{} x", 0), HasSubstr("byte 11"));
  EXPECT_THAT(error_of("{\"a\":" + std::string(200, '{'), 0), HasSubstr("byte"));
  EXPECT_THAT(error_of("{", 0), HasSubstr("byte 9"));
}

TEST(Safetensors, AnEntryMustHaveExactlyItsThreeFields) {
  EXPECT_THAT(error_of("{" + entry("x", R"("dtype":"F32","shape":[2,3])") + "}", 24),
              HasSubstr("tensor \"x\": no data_offsets"));
  EXPECT_THAT(error_of("{" + entry("x", R"("shape":[2,3],"data_offsets":[0,24])") + "}", 24),
              HasSubstr("tensor \"x\": no dtype"));
  EXPECT_THAT(error_of("{" + entry("x", R"("dtype":"F32","data_offsets":[0,24])") + "}", 24),
              HasSubstr("tensor \"x\": no shape"));
  EXPECT_THAT(error_of("{" + entry("x", std::string(kGood) + R"(,"dtype":"F16")") + "}", 24),
              HasSubstr("field \"dtype\" twice"));
  EXPECT_THAT(error_of("{" + entry("x", std::string(kGood) + R"(,"strides":[1])") + "}", 24),
              HasSubstr("unknown field \"strides\""));
}

TEST(Safetensors, AValueOfTheWrongKindIsAnError) {
  for (const std::string_view rest :
       {R"("dtype":1,"shape":[2,3],"data_offsets":[0,24])",
        R"("dtype":"F33","shape":[2,3],"data_offsets":[0,24])",
        R"("dtype":"F32","shape":[2,-3],"data_offsets":[0,24])",
        R"("dtype":"F32","shape":[2,3.5],"data_offsets":[0,24])",
        R"("dtype":"F32","shape":[2,99999999999999999999999],"data_offsets":[0,24])",
        R"("dtype":"F32","shape":[[2],3],"data_offsets":[0,24])",
        R"("dtype":"F32","shape":"2,3","data_offsets":[0,24])",
        R"("dtype":"F32","shape":[2,3],"data_offsets":[0,24,24])",
        R"("dtype":"F32","shape":[2,3],"data_offsets":[24])",
        R"("dtype":"F32","shape":[2,3],"data_offsets":null)",
        R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,6],"data_offsets":[0,24])",
        R"("dtype":"F32","shape":{},"data_offsets":[0,24])"}) {
    const std::string error = error_of("{" + entry("x", rest) + "}", 24);
    EXPECT_THAT(error, AllOf(HasSubstr("w.safetensors: byte"), HasSubstr("x"))) << rest;
  }
  EXPECT_NE(error_of(R"({"x":3})", 0), "no error");
  EXPECT_NE(error_of(R"({"__metadata__":{"a":{}}})", 0), "no error");
}

// C210
TEST(Safetensors, SizesThatDoNotAgreeAreErrorsThatNameTheTensor) {
  const auto offsets = [](std::string_view shape, std::string_view range) {
    return "{" +
           entry("x", "\"dtype\":\"F32\",\"shape\":" + std::string(shape) +
                          ",\"data_offsets\":" + std::string(range)) +
           "}";
  };
  EXPECT_THAT(error_of(offsets("[2,3]", "[0,20]"), 20), HasSubstr("tensor \"x\": data_offsets"));
  EXPECT_THAT(error_of(offsets("[2,3]", "[24,0]"), 24), HasSubstr("tensor \"x\": data_offsets"));
  EXPECT_THAT(error_of(offsets("[4294967296,4294967296]", "[0,0]"), 0), HasSubstr("overflows"));
  EXPECT_THAT(error_of(offsets("[4611686018427387904]", "[0,0]"), 0), HasSubstr("overflows"));
  EXPECT_THAT(error_of(offsets("[2,3]", "[0,24]"), 20), HasSubstr("cut short"));
  EXPECT_THAT(error_of(offsets("[2,3]", "[0,24]"), 28), HasSubstr("belongs to no tensor"));
  EXPECT_THAT(error_of(offsets("[2,3]", "[4,28]"), 28), HasSubstr("there is a hole"));
  EXPECT_THAT(error_of(offsets("[1]", "[18446744073709551612,0]"), 28), HasSubstr("data_offsets"));
}

TEST(Safetensors, OverlapAndDoubleNamesAreErrors) {
  const std::string a = entry("a", R"("dtype":"U8","shape":[8],"data_offsets":[0,8])");
  const std::string b = entry("b", R"("dtype":"U8","shape":[8],"data_offsets":[4,12])");
  EXPECT_THAT(error_of("{" + a + "," + b + "}", 12),
              AllOf(HasSubstr("tensor \"b\""), HasSubstr("they overlap")));
  const std::string again = entry("a", R"("dtype":"U8","shape":[8],"data_offsets":[8,16])");
  EXPECT_THAT(error_of("{" + a + "," + again + "}", 16), HasSubstr("tensor \"a\" is listed twice"));
}

std::string index_error(std::string_view text) {
  const auto result = parse_shard_index("index.json", text);
  return result.ok() ? "no error" : result.error().message;
}

TEST(ShardIndex, FilesAreSortedAndTensorsPointAtThem) {
  const auto result = parse_shard_index("index.json",
                                        R"({"metadata":{"total_size":1.5e3,"x":[{"weight_map":{}}]},
          "weight_map":{"b":"2","a":"1","c":"2"}})");
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->files, (std::vector<std::string>{"1", "2"}));
  ASSERT_EQ(result->tensors.size(), 3u);
  EXPECT_EQ(result->tensors[0], (std::pair<std::string, uint32_t>{"a", 0}));
  EXPECT_EQ(result->tensors[2], (std::pair<std::string, uint32_t>{"c", 1}));
}

TEST(ShardIndex, ShardNamesCannotLeaveTheDirectory) {
  for (const std::string_view name :
       {"../w", "/etc/passwd", "a/b", "", ".", "..", "a\\\\b", "a\\u0000b"}) {
    EXPECT_THAT(index_error(R"({"weight_map":{"t":")" + std::string(name) + "\"}}"),
                AllOf(HasSubstr("tensor \"t\""), HasSubstr("plain file name")))
        << name;
  }
}

TEST(ShardIndex, MalformedIndexesAreErrors) {
  EXPECT_THAT(index_error("{}"), HasSubstr("no weight_map"));
  EXPECT_THAT(index_error(R"({"weight_map":{}})"), HasSubstr("no weight_map, or an empty one"));
  EXPECT_THAT(index_error(R"({"weight_map":["a"]})"), HasSubstr("no weight_map"));
  EXPECT_THAT(index_error(R"({"weight_map":{"a":1}})"), HasSubstr("must be a string"));
  EXPECT_THAT(index_error(R"({"weight_map":{"a":{}}})"), HasSubstr("must be a string"));
  EXPECT_THAT(index_error(R"({"weight_map":{"a":["f"]}})"), HasSubstr("must be a string"));
  EXPECT_THAT(index_error(R"({"weight_map":{"a":"f","a":"g"}})"),
              HasSubstr("tensor \"a\" is listed twice"));
  EXPECT_THAT(index_error(R"({"weight_map":{"a":"f"},"weight_map":{"a":"f"}})"),
              HasSubstr("weight_map twice"));
  EXPECT_THAT(index_error(R"({"weight_map":{"a":"f")"), HasSubstr("index.json: byte"));
}

}  // namespace
}  // namespace bulkhead::model
