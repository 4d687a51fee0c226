// Decoded weights against the values that the formats' own libraries decode
// (tools/golden/make_formats.py), bit for bit.
#include "model/formats/decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cstring>

#include "model/fields.h"
#include "model/formats/fold.h"
#include "model/model_tensors.h"
#include "model/model_weights.h"
#include "model/safetensors.h"
#include "model/testing/files.h"

namespace bulkhead::model::formats {
namespace {

constexpr std::string_view kWeight = "model.layers.0.mlp.down_proj.weight";

std::filesystem::path formats_directory() { return testing::golden_directory() / "formats"; }

struct Case {
  std::string name;
  QuantConfig config;
  TensorFiles files;
  std::vector<TensorInfo> tensors;

  const TensorInfo& named(std::string_view wanted) const {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const TensorInfo& one) { return one.name == wanted; });
    BH_CHECK(found != tensors.end(), "a golden file without its tensor");
    return *found;
  }
};

base::Result<Case> open_case(const boost::json::object& described) {
  Case out;
  const JsonFields fields("cases.json", described);
  BH_ASSIGN(out.name, fields.text_or("name", ""));
  boost::json::object config = described;
  BH_ASSIGN(out.config, take_quant_config("cases.json", config));
  BH_ASSIGN(auto source, open_file(formats_directory() / (out.name + ".safetensors")));
  BH_ASSIGN(std::vector<TensorInfo> stored, read_safetensors(*source, 0));
  out.files.add(std::move(source));
  BH_ASSIGN(out.tensors, fold_tensors(std::move(stored), out.config, out.files));
  return out;
}

std::vector<Case> all_cases() {
  std::vector<Case> out;
  const auto source = open_file(formats_directory() / "cases.json");
  EXPECT_TRUE(source.ok()) << source.error().message;
  const auto text = read_text(**source, 1u << 20);
  const auto object = parse_json_object("cases.json", "{\"cases\": " + *text + "}");
  EXPECT_TRUE(object.ok()) << object.error().message;
  for (const boost::json::value& one : object->at("cases").as_array()) {
    auto opened = open_case(one.get_object());
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    if (opened.ok()) out.push_back(std::move(*opened));
  }
  return out;
}

template <typename T>
std::vector<T> stored_values(const Case& one, std::string_view name) {
  const TensorInfo& tensor = one.named(name);
  std::vector<T> out(tensor.elements);
  EXPECT_TRUE(one.files.read(tensor, 0, std::as_writable_bytes(std::span(out))).ok());
  return out;
}

// The whole weight in steps of so many rows.
template <typename T>
std::vector<T> decoded(const Case& one, int64_t step) {
  const TensorInfo& tensor = one.named(kWeight);
  const auto rows = static_cast<int64_t>(tensor.shape[0]);
  const auto columns = static_cast<size_t>(tensor.shape[1]);
  std::vector<T> out(tensor.elements);
  DecodeWorkspace space;
  for (int64_t row = 0; row < rows; row += step) {
    const RowRange range = {.begin = row, .count = std::min(step, rows - row)};
    const auto status =
        decode_rows(one.files, tensor, range, space,
                    std::span(out).subspan(static_cast<size_t>(row) * columns,
                                           static_cast<size_t>(range.count) * columns));
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
  return out;
}

template <typename T>
void expect_same_bits(const std::vector<T>& values, const std::vector<T>& expected) {
  const auto left = std::as_bytes(std::span(values));
  const auto right = std::as_bytes(std::span(expected));
  ASSERT_EQ(left.size(), right.size());
  const auto [differs, other] = std::mismatch(left.begin(), left.end(), right.begin());
  ASSERT_EQ(differs, left.end()) << "element "
                                 << static_cast<size_t>(differs - left.begin()) / sizeof(T);
}

// C017, C019, C028: groups of 16, 32, 64 and whole rows, in order and not; scales of every float
// type.
TEST(FormatDecoders, GiveTheLibrariesValuesBitForBitWhereverRowsAreCut) {
  const std::vector<Case> cases = all_cases();
  EXPECT_EQ(cases.size(), 20u);
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const auto expected = stored_values<float>(one, "expected");
    const auto expected_bf16 = stored_values<quant::Bf16>(one, "expected_bf16");
    for (const int64_t step : {8, 16, 24, 1024}) {
      expect_same_bits(decoded<float>(one, step), expected);
      expect_same_bits(decoded<quant::Bf16>(one, step), expected_bf16);
    }
  }
}

TEST(FormatDecoders, ADescriptorSaysWhatTheConfigurationSays) {
  std::vector<std::string> described;
  for (const Case& one : all_cases()) {
    described.push_back(one.name + ": " + type_text(one.named(kWeight)));
  }
  const std::vector<std::string> expected = {"fp8_f32: FP8 e4m3 16x32",
                                             "fp8_bf16: FP8 e4m3 16x32",
                                             "fp8_f16: FP8 e4m3 16x32",
                                             "fp8_ue8m0: FP8 e4m3 16x32",
                                             "fp8_u8: FP8 e4m3 16x32",
                                             "fp8_partial: FP8 e4m3 16x32",
                                             "packed_bf16: INT4 g32 symmetric",
                                             "packed_f16: INT4 g32 symmetric",
                                             "packed_f32: INT4 g32 symmetric",
                                             "packed_i32_shape: INT4 g32 symmetric",
                                             "packed_no_shape: INT4 g32 symmetric",
                                             "packed_channel: INT4 g64 symmetric",
                                             "packed_asymmetric: INT4 g16 asymmetric",
                                             "awq: INT4 g32 AWQ",
                                             "awq_g64: INT4 g64 AWQ",
                                             "gptq: INT4 g32 GPTQ",
                                             "gptq_symmetric: INT4 g64 GPTQ",
                                             "gptq_v2: INT4 g32 GPTQ v2",
                                             "gptq_ordered: INT4 g32 GPTQ",
                                             "gptq_row: INT4 g64 GPTQ"};
  EXPECT_EQ(described, expected);
}

TEST(FormatDecoders, TheBytesOfAFoldedTensorAreThoseOfItsPartsInTurn) {
  for (const Case& one : all_cases()) {
    SCOPED_TRACE(one.name);
    const TensorInfo& tensor = one.named(kWeight);
    std::vector<std::byte> parts;
    for (const TensorInfo* part : parts_of(*tensor.quantised)) {
      const size_t at = parts.size();
      parts.resize(at + part->bytes);
      ASSERT_TRUE(one.files.read(*part, 0, std::span(parts).subspan(at)).ok());
    }
    ASSERT_EQ(parts.size(), tensor.bytes);
    std::vector<std::byte> read(parts.size());
    constexpr size_t kStep = 37;
    for (size_t at = 0; at < read.size(); at += kStep) {
      const auto piece = std::span(read).subspan(at, std::min(kStep, read.size() - at));
      ASSERT_TRUE(one.files.read(tensor, at, piece).ok());
    }
    EXPECT_EQ(read, parts);
  }
}

// The packed weights of a checkpoint in BF16, byte for byte.
std::vector<std::byte> loaded_weights(const std::filesystem::path& directory) {
  const auto checkpoint = Checkpoint::open(directory);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto match = match_tensors(*checkpoint);
  EXPECT_TRUE(match.ok()) << match.error().message;
  device::ThreadPool pool({.threads = 2});
  const auto weights =
      load_weights(*checkpoint, *match, WeightFormats(*match, WeightRecipe{}), pool, {});
  EXPECT_TRUE(weights.ok()) << weights.error().message;
  const std::byte* begin = weights->arena.data();
  return {begin, begin + weights->arena.size()};
}

TEST(FormatDecoders, AQuantisedModelLoadsToTheWeightsOfItsPlainTwin) {
  for (const std::string name : {"qwen3_fp8", "qwen3_packed", "qwen3_awq", "qwen3_gptq"}) {
    const std::vector<std::byte> plain = loaded_weights(formats_directory() / (name + "_plain"));
    const std::vector<std::byte> folded = loaded_weights(formats_directory() / name);
    ASSERT_EQ(plain.size(), folded.size()) << name;
    EXPECT_EQ(std::memcmp(plain.data(), folded.data(), plain.size()), 0) << name;
  }
}

TEST(FormatDecoders, ASummaryCountsAWeightOnceWithAllItsBytes) {
  const auto plain = Checkpoint::open(formats_directory() / "qwen3_packed_plain");
  const auto folded = Checkpoint::open(formats_directory() / "qwen3_packed");
  ASSERT_TRUE(plain.ok() && folded.ok());
  const CheckpointSummary facts = folded->describe();
  EXPECT_EQ(facts.parameters, plain->describe().parameters);
  EXPECT_EQ(facts.tensors, plain->describe().tensors);
  ASSERT_EQ(facts.types.size(), 2u);
  uint64_t bytes = 0;
  for (const auto& share : facts.types) bytes += share.bytes;
  EXPECT_EQ(bytes, facts.tensor_bytes);
  const auto int4 = std::find_if(facts.types.begin(), facts.types.end(),
                                 [](const auto& share) { return share.type != "BF16"; });
  EXPECT_EQ(int4->type, "INT4 g32 symmetric");
  EXPECT_EQ(int4->tensors, 7u);
  // Half a byte for each weight, two for each 32, and a shape of two numbers a tensor.
  const uint64_t elements = 64 * 64 * 2 + 32 * 64 * 2 + 96 * 64 * 3;
  EXPECT_EQ(int4->bytes, elements / 2 + elements / 32 * 2 + 7 * 16);
}

}  // namespace
}  // namespace bulkhead::model::formats
