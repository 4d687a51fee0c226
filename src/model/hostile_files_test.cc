// Checkpoint files as they were seen in the wild or made to hurt: sizes at the edge of a buffer,
// products that wrap, nesting without end, directories that disagree with their index.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/checkpoint.h"
#include "model/families/family.h"
#include "model/gguf.h"
#include "model/safetensors.h"
#include "model/side_files.h"
#include "model/testing/files.h"

namespace bulkhead::model {
namespace {

using ::testing::AllOf;
using testing::GgufBuilder;
using ::testing::HasSubstr;
using testing::le;
using testing::TemporaryDirectory;

template <typename Read>
auto read_bytes(const std::string& bytes, Read read) {
  const auto source = memory_source("w", std::as_bytes(std::span<const char>(bytes)));
  return read(*source);
}

// A safetensors file whose header has exactly `size` bytes and ends with its one tensor, so that a
// header cut short by a byte loses it.
void expect_whole_header(size_t size) {
  const std::string tensor = R"("x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  std::string header = R"({"__metadata__":{"a":")";
  ASSERT_GE(size, header.size() + tensor.size() + 3);
  header += std::string(size - header.size() - tensor.size() - 3, 'm') + "\"}," + tensor;
  ASSERT_EQ(header.size(), size);
  const auto tensors =
      read_bytes(testing::safetensors_with_header(header, "wxyz"),
                 [](const ByteSource& source) { return read_safetensors(source, 0); });
  ASSERT_TRUE(tensors.ok()) << size << ": " << tensors.error().message;
  ASSERT_EQ(tensors->size(), 1u) << size;
  EXPECT_EQ(tensors->front().offset, 8 + size);
}

// C209
TEST(HostileFiles, AHeaderOfAnySizeAroundABufferIsReadWhole) {
  for (size_t power = 128; power <= (1u << 20); power *= 2) {
    for (size_t size = power - 8; size <= power + 8; ++size) {
      ASSERT_NO_FATAL_FAILURE(expect_whole_header(size));
    }
  }
  for (size_t size = 99'990; size <= 100'010; ++size) {
    ASSERT_NO_FATAL_FAILURE(expect_whole_header(size));
  }
}

base::Result<GgufFile> read_gguf_bytes(const std::string& bytes) {
  return read_bytes(bytes, [](const ByteSource& source) { return read_gguf(source, 0); });
}

// C210
TEST(HostileFiles, DimensionsWhoseProductWrapsAreRefusedByTheirTensor) {
  constexpr uint64_t kTop = uint64_t{1} << 63;
  const std::vector<uint64_t> shapes[] = {
      {kTop - 1, 2},
      {kTop, 2},
      {(uint64_t{1} << 42) + 1, uint64_t{1} << 42},
      {uint64_t{1} << 32, uint64_t{1} << 32},
      {uint64_t{1} << 21, uint64_t{1} << 21, uint64_t{1} << 21, 2},
      {~uint64_t{0}},
      {~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}},
      {4, 0, ~uint64_t{0}},
      {0}};
  for (const std::vector<uint64_t>& dims : shapes) {
    for (const uint32_t type : {0u, 1u, 2u, 12u, 30u}) {
      for (const uint64_t offset : {uint64_t{0}, ~uint64_t{31}}) {
        const auto file =
            read_gguf_bytes(GgufBuilder().raw_tensor("t", dims, type, offset).bytes());
        ASSERT_FALSE(file.ok() && !file->tensors.empty() && file->tensors[0].bytes != 0);
        if (!file.ok()) {
          EXPECT_THAT(file.error().message, HasSubstr("tensor \"t\""));
        }
      }
    }
  }
}

// C211
TEST(HostileFiles, ANumberOfDimensionsIsHeldToItsRangeBeforeOneIsRead) {
  const std::string good = GgufBuilder().tensor("t", {2, 2}, 0, std::string(16, 'x')).bytes();
  ASSERT_TRUE(read_gguf_bytes(good).ok());
  const size_t at = good.find(testing::gguf_string("t")) + 9;
  for (const uint32_t count : {0u, 3u, 4u, 5u, 8u, 9u, 255u, 1u << 31, ~0u}) {
    std::string bytes = good;
    bytes.replace(at, 4, le(count));
    const auto file = read_gguf_bytes(bytes);
    ASSERT_FALSE(file.ok()) << count;
    if (count == 0 || count > 4) {
      EXPECT_THAT(file.error().message, HasSubstr(fmt::format("{} dimensions", count)));
    }
    for (size_t length = at; length < at + 24; ++length) {
      EXPECT_FALSE(read_gguf_bytes(bytes.substr(0, length)).ok());
    }
  }
}

std::string nested(size_t depth, std::string_view open, std::string_view close) {
  std::string out;
  for (size_t i = 0; i < depth; ++i) out += open;
  out += "1";
  for (size_t i = 0; i < depth; ++i) out += close;
  return out;
}

// C145
TEST(HostileFiles, NestingInAnyJsonFileIsBounded) {
  const auto refused = [](const std::string& value) {
    const std::string text = "{\"x\": " + value + "}";
    GenerationDefaults generation;
    TextSource source;
    EXPECT_FALSE(parse_config(text, generation).ok());
    EXPECT_FALSE(parse_generation_config(text, 20, generation).ok());
    EXPECT_FALSE(parse_tokenizer_config(text, source).ok());
    EXPECT_FALSE(parse_shard_index("index.json", text).ok());
    EXPECT_FALSE(parse_shard_index("index.json", "{\"metadata\": " + value + "}").ok());
    EXPECT_FALSE(read_bytes(testing::safetensors_with_header(text, ""), [](const ByteSource& s) {
                   return read_safetensors(s, 0);
                 }).ok());
  };
  for (const size_t depth : {size_t{1'000}, size_t{100'000}}) {
    refused(nested(depth, "[", "]"));
    refused(nested(depth, "{\"a\":", "}"));
    refused(nested(depth, "[{\"a\":[", "]}]"));
  }
  GenerationDefaults generation;
  EXPECT_TRUE(parse_generation_config("{\"x\": " + nested(10, "[", "]") + "}", 20, generation).ok())
      << "ordinary depth is no fault";
}

// C033
TEST(HostileFiles, ARopeFactorDoesNotStretchTheContextThatTheFileStates) {
  for (const std::string_view type : {"llama3", "yarn", "linear"}) {
    std::string config = testing::tiny_llama_config();
    const std::string stated = "\"max_position_embeddings\": 64";
    config.replace(config.find(stated), stated.size(),
                   fmt::format(R"("max_position_embeddings": 1024, "rope_scaling": {{
                                  "rope_type": "{}", "factor": 8.0, "low_freq_factor": 1.0,
                                  "high_freq_factor": 4.0,
                                  "original_max_position_embeddings": 128}})",
                               type));
    GenerationDefaults generation;
    const auto parsed = parse_config(config, generation);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(parsed->context, 1024) << type;
  }
}

// A directory with a good model in one file or in two shards, and then `extra`.
std::string directory_error(bool sharded, const std::vector<std::string>& extra) {
  const TemporaryDirectory directory;
  const std::vector<testing::FileTensor> tensors = testing::tiny_llama_tensors();
  directory.write("config.json", testing::tiny_llama_config());
  if (sharded) {
    const auto middle = tensors.begin() + 5;
    std::string map;
    for (size_t i = 0; i < tensors.size(); ++i) {
      map += fmt::format("{}\"{}\": \"model-0000{}-of-00002.safetensors\"", i > 0 ? ", " : "",
                         tensors[i].name, i < 5 ? 1 : 2);
    }
    directory.write("model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
    directory.write("model-00001-of-00002.safetensors",
                    testing::safetensors_bytes({tensors.begin(), middle}));
    directory.write("model-00002-of-00002.safetensors",
                    testing::safetensors_bytes({middle, tensors.end()}));
  } else {
    directory.write("model.safetensors", testing::safetensors_bytes(tensors));
  }
  for (const std::string& name : extra) {
    directory.write(name, name.ends_with(".json")
                              ? R"({"weight_map": {"x": "model-00001-of-00009.safetensors"}})"
                              : testing::safetensors_bytes(tensors));
  }
  const auto checkpoint = Checkpoint::open(directory.path());
  return checkpoint.ok() ? "no error" : checkpoint.error().message;
}

// C207
TEST(HostileFiles, WeightsThatNoIndexNamesAreAnErrorThatNamesTheFiles) {
  EXPECT_EQ(directory_error(true, {}), "no error");
  EXPECT_EQ(directory_error(false, {}), "no error");
  // Another quantisation's shard, forgotten in the folder.
  EXPECT_THAT(directory_error(true, {"model-00003-of-00003.safetensors"}),
              AllOf(HasSubstr("model-00003-of-00003.safetensors"),
                    HasSubstr("model.safetensors.index.json does not name it")));
  // The weights were put into one file and the old index was left behind, or the other way round.
  for (const bool sharded : {false, true}) {
    EXPECT_THAT(
        directory_error(sharded, {sharded ? "model.safetensors" : "model.safetensors.index.json"}),
        HasSubstr("/model.safetensors: model.safetensors.index.json does not name it"));
  }
  EXPECT_THAT(directory_error(false, {"model-00001-of-00002.safetensors"}),
              AllOf(HasSubstr("model-00001-of-00002.safetensors"),
                    HasSubstr("model.safetensors is here too")));
  // Files that are not this model's shards by name are nobody's business.
  EXPECT_EQ(directory_error(true, {"consolidated.safetensors", "adapter_model.safetensors"}),
            "no error");
}

// C206
TEST(HostileFiles, BytesBehindTheLastTensorAreRefusedInEveryFormat) {
  const TemporaryDirectory directory;
  directory.write("config.json", testing::tiny_llama_config());
  const std::string weights = testing::safetensors_bytes(testing::tiny_llama_tensors());
  const std::string gguf = testing::tiny_llama_gguf().bytes();
  for (const size_t surplus : {size_t{0}, size_t{1}, size_t{64}, size_t{4096}}) {
    directory.write("model.safetensors", weights + std::string(surplus, '\0'));
    EXPECT_EQ(Checkpoint::open(directory.path()).ok(), surplus == 0) << surplus;
    if (surplus == 1) continue;  // a GGUF file may be padded to its alignment
    directory.write("w.gguf", gguf + std::string(surplus, '\0'));
    EXPECT_EQ(Checkpoint::open(directory.path() / "w.gguf").ok(), surplus == 0) << surplus;
  }
}

}  // namespace
}  // namespace bulkhead::model
