// Quantised weights whose parts do not fit each other, or hold what no writer means.
#include "model/formats/fold.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/checkpoint.h"
#include "model/loader.h"
#include "model/model_tensors.h"
#include "model/safetensors.h"
#include "model/testing/files.h"

namespace bulkhead::model::formats {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FileTensor;
using ::testing::HasSubstr;
using testing::le;
using testing::TemporaryDirectory;

constexpr std::string_view kGate = "model.layers.0.mlp.gate_proj";  // [32, 16]
constexpr const char* kFp8 =
    R"({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [16, 16]})";
constexpr const char* kPacked = R"({"quant_method": "compressed-tensors",
    "format": "pack-quantized", "config_groups": {"group_0": {"weights": {"num_bits": 4,
    "type": "int", "symmetric": true, "strategy": "group", "group_size": 8}}}})";
constexpr const char* kAwq = R"({"quant_method": "awq", "bits": 4, "group_size": 8})";
constexpr const char* kGptq = R"({"quant_method": "gptq", "bits": 4, "group_size": 8})";

template <typename T>
std::string repeated(T value, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += le(value);
  return out;
}

std::string at(std::string_view suffix) { return std::string(kGate) + std::string(suffix); }

// The gate of the tiny llama in each format; every weight is 0.5 in the first two, 1 in the others.
std::vector<FileTensor> fp8_parts() {
  return {{at(".weight"), "F8_E4M3", {32, 16}, std::string(512, '\x38')},
          {at(".weight_scale_inv"), "F32", {2, 1}, repeated(0.5f, 2)}};
}
std::vector<FileTensor> packed_parts() {
  return {{at(".weight_packed"), "I32", {32, 2}, std::string(256, '\x99')},
          {at(".weight_scale"), "BF16", {32, 2}, repeated(uint16_t{0x3f00}, 64)},
          {at(".weight_shape"), "I64", {2}, le(int64_t{32}) + le(int64_t{16})}};
}
std::vector<FileTensor> awq_parts() {
  return {{at(".qweight"), "I32", {16, 4}, std::string(256, '\x99')},
          {at(".qzeros"), "I32", {2, 4}, std::string(32, '\x88')},
          {at(".scales"), "F16", {2, 32}, repeated(uint16_t{0x3c00}, 64)}};
}
std::vector<FileTensor> gptq_parts() {
  std::string groups;
  for (int32_t k = 0; k < 16; ++k) groups += le(int32_t{k / 8});
  return {{at(".qweight"), "I32", {2, 32}, std::string(256, '\x99')},
          {at(".qzeros"), "I32", {2, 4}, std::string(32, '\x77')},
          {at(".scales"), "F16", {2, 32}, repeated(uint16_t{0x3c00}, 64)},
          {at(".g_idx"), "I32", {16}, groups}};
}

struct Format {
  const char* config;
  std::vector<FileTensor> (*parts)();
  const char* text;
};
constexpr Format kFormats[] = {{kFp8, fp8_parts, "FP8 e4m3 16x16"},
                               {kPacked, packed_parts, "INT4 g8 symmetric"},
                               {kAwq, awq_parts, "INT4 g8 AWQ"},
                               {kGptq, gptq_parts, "INT4 g8 GPTQ"}};

// The tiny llama with its gate replaced by `parts`.
void write_model(const TemporaryDirectory& directory, const char* config,
                 const std::vector<FileTensor>& parts) {
  std::vector<FileTensor> tensors = testing::tiny_llama_tensors();
  std::erase_if(tensors, [](const FileTensor& one) { return one.name == at(".weight"); });
  tensors.insert(tensors.end(), parts.begin(), parts.end());
  std::string text = testing::tiny_llama_config();
  if (config != nullptr) {
    text.insert(text.find('{') + 1, fmt::format("\"quantization_config\": {},", config));
  }
  directory.write("config.json", text);
  directory.write("model.safetensors", testing::safetensors_bytes(tensors));
}

base::Status load(const std::filesystem::path& path) {
  BH_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(path));
  device::ThreadPool pool({.threads = 2});
  BH_ASSIGN(const auto kernels, kernels::select_kernels(device::detect_cpu(), device::Isa::kRef));
  auto decoder = load_decoder(checkpoint, {}, kernels, pool, {.rows_max = 4}, {});
  if (!decoder.ok()) return std::move(decoder).error();
  return {};
}

std::string load_error(const char* config, const std::vector<FileTensor>& parts) {
  const TemporaryDirectory directory;
  write_model(directory, config, parts);
  const base::Status status = load(directory.path());
  return status.ok() ? "no error" : status.error().message;
}

std::vector<FileTensor> without(std::vector<FileTensor> parts, std::string_view suffix) {
  std::erase_if(parts, [&](const FileTensor& one) { return one.name.ends_with(suffix); });
  return parts;
}

std::vector<FileTensor> with(std::vector<FileTensor> parts, const FileTensor& changed) {
  for (FileTensor& one : parts) {
    if (one.name == changed.name) {
      one = changed;
      return parts;
    }
  }
  parts.push_back(changed);
  return parts;
}

TEST(Fold, AGoodWeightOfEveryFormatLoads) {
  for (const Format& format : kFormats) {
    const TemporaryDirectory directory;
    write_model(directory, format.config, format.parts());
    const base::Status status = load(directory.path());
    EXPECT_TRUE(status.ok()) << status.error().message;
    const auto checkpoint = Checkpoint::open(directory.path());
    ASSERT_TRUE(checkpoint.ok());
    const TensorInfo* gate = checkpoint->find(at(".weight"));
    ASSERT_NE(gate, nullptr);
    EXPECT_EQ(type_text(*gate), format.text);
    EXPECT_THAT(gate->shape, ElementsAre(32u, 16u));
    EXPECT_EQ(checkpoint->tensors().size(), testing::tiny_llama_tensors().size());
  }
}

// compressed-tensors: FP8 blocks, alone and beside four-bit weights.
TEST(Fold, Fp8BlocksOfCompressedTensorsStandBesidePackedWeights) {
  constexpr const char* kBlocks = R"("weights": {"num_bits": 8, "type": "float",
      "symmetric": true, "strategy": "block", "block_structure": [16, 16]})";
  constexpr const char* kGroups = R"("format": "pack-quantized", "weights": {"num_bits": 4,
      "type": "int", "symmetric": true, "strategy": "group", "group_size": 8})";
  const std::string alone = fmt::format(R"({{"quant_method": "compressed-tensors",
      "format": "float-quantized", "config_groups": {{"group_0": {{{}}}}}}})",
                                        kBlocks);
  const std::string mixed = fmt::format(R"({{"quant_method": "compressed-tensors",
      "format": "mixed-precision", "config_groups": {{"group_0": {{{}}},
      "group_1": {{"format": "float-quantized", {}}}}}}})",
                                        kGroups, kBlocks);
  std::vector<FileTensor> blocks = fp8_parts();
  blocks[1].name = at(".weight_scale");
  EXPECT_EQ(load_error(alone.c_str(), blocks), "no error");
  EXPECT_EQ(load_error(mixed.c_str(), blocks), "no error");
  EXPECT_EQ(load_error(mixed.c_str(), packed_parts()), "no error");
  EXPECT_THAT(load_error(alone.c_str(), packed_parts()), HasSubstr("fits no configured group"));
  EXPECT_THAT(load_error(kPacked, blocks), HasSubstr("is F8_E4M3, which a checkpoint with"));
  EXPECT_THAT(load_error(mixed.c_str(), fp8_parts()), HasSubstr("weight_scale\" is missing"));
}

TEST(Fold, NamesDecideByTheirEndsUnderAnyPrefixAndAcrossFiles) {
  std::vector<FileTensor> first = packed_parts();
  for (FileTensor& one : first) one.name = "language_model." + one.name;
  const std::string scales = testing::safetensors_bytes({first[1]});
  first.erase(first.begin() + 1);
  first.push_back({"vision_tower.norm.weight", "BF16", {4}, std::string(8, '\0')});
  const std::string rest = testing::safetensors_bytes(first);
  TensorFiles files;
  std::vector<TensorInfo> stored;
  for (const std::string* bytes : {&rest, &scales}) {
    auto source = memory_source(fmt::format("file{}", files.size()),
                                std::as_bytes(std::span<const char>(*bytes)));
    const auto tensors = read_safetensors(*source, static_cast<uint32_t>(files.size()));
    ASSERT_TRUE(tensors.ok());
    stored.insert(stored.end(), tensors->begin(), tensors->end());
    files.add(std::move(source));
  }
  const auto config = parse_quant_config(
      "config.json", fmt::format(R"({{"text_config": {{"quantization_config": {}}}}})", kPacked));
  ASSERT_TRUE(config.ok()) << config.error().message;
  const auto folded = fold_tensors(stored, *config, files);
  ASSERT_TRUE(folded.ok()) << folded.error().message;
  ASSERT_EQ(folded->size(), 2u);
  EXPECT_EQ((*folded)[0].name, "language_model." + at(".weight"));
  EXPECT_EQ((*folded)[0].quantised->scales.file, 1u);
  EXPECT_EQ((*folded)[1].name, "vision_tower.norm.weight");
}

// The experts of Kimi K2.5 alone are 60 layers of 384 with three matrices of three parts.
TEST(Fold, AsManyTensorsAsALargeModelHasAreNoFault) {
  constexpr size_t kExperts = 60 * 384 * 3;
  std::string header = "{";
  size_t end = 0;
  const auto add = [&](std::string_view name, std::string_view type, std::string_view shape,
                       size_t bytes) {
    header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
                          end > 0 ? "," : "", name, type, shape, end, end + bytes);
    end += bytes;
  };
  for (size_t expert = 0; expert < kExperts; ++expert) {
    add(fmt::format("e.{}.weight_packed", expert), "I32", "[1,1]", 4);
    add(fmt::format("e.{}.weight_scale", expert), "BF16", "[1,1]", 2);
    add(fmt::format("e.{}.weight_shape", expert), "I64", "[2]", 16);
  }
  header += "}";
  const std::string bytes = testing::safetensors_with_header(header, std::string(end, '\0'));
  TensorFiles files;
  files.add(memory_source("w", std::as_bytes(std::span<const char>(bytes))));
  const auto stored = read_safetensors(files[0], 0);
  ASSERT_TRUE(stored.ok()) << stored.error().message;
  const auto config =
      parse_quant_config("config.json", fmt::format(R"({{"quantization_config": {}}})", kPacked));
  const auto folded = fold_tensors(*stored, *config, files);
  ASSERT_TRUE(folded.ok()) << folded.error().message;
  EXPECT_EQ(folded->size(), kExperts);
}

// C020: an absent part, a part without its codes.
TEST(Fold, AMissingPartIsNamedWithItsWeight) {
  for (const Format& format : kFormats) {
    const std::vector<FileTensor> parts = format.parts();
    for (size_t i = 1; i < parts.size(); ++i) {
      const std::string& name = parts[i].name;
      if (name.ends_with(".weight_shape") || name.ends_with(".g_idx")) continue;
      const std::string wanted =
          name.ends_with(".weight_scale_inv") ? at(".scale") : name;  // the second spelling
      EXPECT_THAT(load_error(format.config, without(parts, name)),
                  AllOf(HasSubstr("model.safetensors: tensor \"" + parts[0].name + "\""),
                        HasSubstr("\"" + wanted + "\" is missing")));
    }
    EXPECT_THAT(load_error(format.config, without(parts, parts[0].name)),
                AllOf(HasSubstr("model.safetensors: tensor \"" + std::string(kGate)),
                      HasSubstr("belongs to \"" + parts[0].name + "\"")));
  }
}

TEST(Fold, PartsThatMayBeAbsentMayBeAbsent) {
  EXPECT_EQ(load_error(kPacked, without(packed_parts(), ".weight_shape")), "no error");
  EXPECT_EQ(load_error(kPacked, with(packed_parts(), {at(".weight_shape"), "I64", {0}, ""})),
            "no error");
  EXPECT_EQ(load_error(kGptq, without(gptq_parts(), ".g_idx")), "no error");
  const char* ordered = R"({"quant_method": "gptq", "bits": 4, "group_size": 8, "desc_act": true})";
  EXPECT_EQ(load_error(ordered, gptq_parts()), "no error");
  EXPECT_THAT(load_error(ordered, without(gptq_parts(), ".g_idx")),
              HasSubstr("\"model.layers.0.mlp.gate_proj.g_idx\" is missing"));
}

// C017
TEST(Fold, APartOfAnotherShapeIsNamedWithTheShapeItShouldHave) {
  EXPECT_THAT(load_error(kFp8, with(fp8_parts(),
                                    {at(".weight_scale_inv"), "F32", {1, 2}, repeated(0.5f, 2)})),
              AllOf(HasSubstr(at(".weight_scale_inv") + "\" has shape [1, 2]"),
                    HasSubstr("of [32, 16] needs [2, 1]")));
  EXPECT_THAT(
      load_error(kPacked,
                 with(packed_parts(),
                      {at(".weight_scale"), "BF16", {32, 1}, repeated(uint16_t{0x3f00}, 32)})),
      AllOf(HasSubstr(at(".weight_scale") + "\" has shape [32, 1]"),
            HasSubstr("fits no configured group (8 symmetric) of 16 columns")));
  EXPECT_THAT(
      load_error(kPacked,
                 with(packed_parts(),
                      {at(".weight_scale"), "BF16", {31, 2}, repeated(uint16_t{0x3f00}, 62)})),
      HasSubstr("needs [32, 2]"));
  EXPECT_THAT(
      load_error(kPacked, with(packed_parts(),
                               {at(".weight_zero_point"), "I32", {4, 2}, std::string(32, '\x88')})),
      HasSubstr("fits no configured group (8 symmetric) of 16 columns with zero points"));
  EXPECT_THAT(load_error(kPacked, with(packed_parts(),
                                       {at(".weight_shape"), "I64", {3}, std::string(24, '\0')})),
              HasSubstr("needs [2]"));
  for (const auto& [config, parts] :
       {std::pair(kAwq, awq_parts()), std::pair(kGptq, gptq_parts())}) {
    EXPECT_THAT(
        load_error(config,
                   with(parts, {at(".scales"), "F16", {1, 32}, repeated(uint16_t{0x3c00}, 32)})),
        AllOf(HasSubstr(at(".scales") + "\" has shape [1, 32]"), HasSubstr("[2, 32]")));
    EXPECT_THAT(
        load_error(config, with(parts, {at(".qzeros"), "I32", {2, 2}, std::string(16, '\x77')})),
        AllOf(HasSubstr(at(".qzeros") + "\" has shape [2, 2]"), HasSubstr("[2, 4]")));
  }
  EXPECT_THAT(
      load_error(kGptq, with(gptq_parts(), {at(".g_idx"), "I32", {8}, std::string(32, '\0')})),
      HasSubstr("needs [16]"));
  // Codes of another shape make a weight of another shape, which the model has no place for.
  EXPECT_THAT(
      load_error(kPacked, {{at(".weight_packed"), "I32", {32, 3}, std::string(384, '\x99')},
                           {at(".weight_scale"), "BF16", {32, 3}, repeated(uint16_t{0x3f00}, 96)}}),
      HasSubstr("has shape [32, 24], the configuration wants [32, 16]"));
  EXPECT_THAT(load_error(kFp8, {{at(".weight"), "F8_E4M3", {2, 16, 16}, std::string(512, '8')},
                                {at(".weight_scale_inv"), "F32", {2, 1}, repeated(0.5f, 2)}}),
              HasSubstr("has shape [2, 16, 16]; quantised weights are matrices"));
}

// C028: what a scale may be is stated for each role.
TEST(Fold, APartOfAnotherTypeIsNamedWithTheTypesItCanHave) {
  EXPECT_THAT(load_error(kFp8, with(fp8_parts(),
                                    {at(".weight_scale_inv"), "F64", {2, 1}, repeated(0.5, 2)})),
              AllOf(HasSubstr(at(".weight_scale_inv")),
                    HasSubstr("is F64; here it can be F32, BF16, F16, F8_E8M0, U8")));
  EXPECT_THAT(
      load_error(kFp8,
                 with(fp8_parts(), {at(".weight"), "F8_E5M2", {32, 16}, std::string(512, '\x38')})),
      HasSubstr("is F8_E5M2"));
  EXPECT_THAT(
      load_error(kPacked, with(packed_parts(),
                               {at(".weight_packed"), "F32", {32, 2}, std::string(256, '\0')})),
      HasSubstr("is F32; here it can be I32, U32"));
  EXPECT_THAT(
      load_error(kAwq, with(awq_parts(), {at(".scales"), "I16", {2, 32}, std::string(128, '\1')})),
      HasSubstr("is I16; here it can be BF16, F16, F32"));
  EXPECT_EQ(
      load_error(kFp8,
                 with(fp8_parts(),
                      {at(".weight_scale_inv"), "F16", {2, 1}, repeated(uint16_t{0x3800}, 2)})),
      "no error");
  EXPECT_EQ(
      load_error(kFp8, with(fp8_parts(),
                            {at(".weight_scale_inv"), "F8_E8M0", {2, 1}, std::string(2, '\x7e')})),
      "no error");
}

TEST(Fold, CodesThatTheConfigurationDoesNotMentionAreAnErrorOfTheirTensor) {
  EXPECT_THAT(load_error(nullptr, fp8_parts()),
              AllOf(HasSubstr(at(".weight")), HasSubstr("quant_method \"none\"")));
  EXPECT_THAT(load_error(nullptr, packed_parts()),
              AllOf(HasSubstr(at(".weight_packed")), HasSubstr("quant_method is \"none\"")));
  EXPECT_THAT(load_error(kAwq, packed_parts()), HasSubstr("quant_method is \"awq\""));
  EXPECT_THAT(load_error(kFp8, gptq_parts()), HasSubstr("quant_method is \"fp8\""));
  EXPECT_THAT(load_error(kPacked, with(packed_parts(),
                                       {at(".weight"), "BF16", {32, 16}, std::string(1024, '\0')})),
              HasSubstr("is there beside a plain"));
  EXPECT_THAT(load_error(kPacked, with(packed_parts(),
                                       {at(".weight_g_idx"), "I32", {16}, std::string(64, '\0')})),
              HasSubstr("groups ordered by activation cannot be loaded"));
}

// C020: zero, negative and not finite scales in every float type.
TEST(Fold, AScaleThatIsNoPositiveFiniteNumberIsNamedWithItsByte) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {0.0f, -0.5f, infinity, std::nanf("")}) {
    EXPECT_THAT(
        load_error(kFp8,
                   with(fp8_parts(), {at(".weight_scale_inv"), "F32", {2, 1}, le(0.5f) + le(bad)})),
        AllOf(HasSubstr("model.safetensors: byte "), HasSubstr(at(".weight_scale_inv")),
              HasSubstr("element 1 is"), HasSubstr("a finite number above zero")));
    const uint16_t narrow = static_cast<uint16_t>(std::bit_cast<uint32_t>(bad) >> 16);
    EXPECT_THAT(
        load_error(kPacked, with(packed_parts(), {at(".weight_scale"),
                                                  "BF16",
                                                  {32, 2},
                                                  repeated(uint16_t{0x3f00}, 41) + le(narrow) +
                                                      repeated(uint16_t{0x3f00}, 22)})),
        AllOf(HasSubstr(at(".weight_scale") + "\": element 41 is")));
  }
  for (const uint16_t bad : {uint16_t{0}, uint16_t{0x8001}, uint16_t{0x7c00}, uint16_t{0x7e00}}) {
    for (const auto& [config, parts] :
         {std::pair(kAwq, awq_parts()), std::pair(kGptq, gptq_parts())}) {
      EXPECT_THAT(
          load_error(
              config,
              with(parts,
                   {at(".scales"), "F16", {2, 32}, repeated(uint16_t{0x3c00}, 63) + le(bad)})),
          HasSubstr(at(".scales") + "\": element 63 is"));
    }
  }
  EXPECT_THAT(
      load_error(kFp8, with(fp8_parts(),
                            {at(".weight_scale_inv"), "U8", {2, 1}, std::string("\x7f\xff")})),
      HasSubstr("element 1 is nan"));
}

TEST(Fold, AValueThatIsNotFiniteIsNamedWithTheByteOfItsCode) {
  std::vector<FileTensor> parts = fp8_parts();
  parts[0].data[37] = '\x7f';
  EXPECT_THAT(load_error(kFp8, parts),
              AllOf(HasSubstr("model.safetensors: byte "),
                    HasSubstr(at(".weight") + "\": element 37 is not finite in BF16")));
  EXPECT_THAT(
      load_error(kFp8, with(fp8_parts(),
                            {at(".weight_scale_inv"), "F32", {2, 1}, le(0.5f) + le(3.4e38f)})),
      HasSubstr("element 256 is not finite"))
      << "no error";
  parts = packed_parts();
  parts[0].data[5] = '\x0f';  // -8 and 7 times nearly the largest BF16
  parts[1].data.replace(2, 2, le(uint16_t{0x7f7f}));
  EXPECT_THAT(load_error(kPacked, parts),
              HasSubstr(at(".weight_packed") + "\": element 10 is not finite in BF16"));
  EXPECT_THAT(load_error(kAwq, with(awq_parts(),
                                    {at(".qweight"), "I32", {16, 4}, std::string(256, '\xff')})),
              "no error");
}

TEST(Fold, AWrittenShapeThatContradictsThePackedCodesIsAnError) {
  for (const auto& [type, data] : {std::pair("I64", le(int64_t{32}) + le(int64_t{15})),
                                   std::pair("I32", le(int32_t{32}) + le(int32_t{-16}))}) {
    EXPECT_THAT(load_error(kPacked, with(packed_parts(), {at(".weight_shape"), type, {2}, data})),
                AllOf(HasSubstr("model.safetensors: byte "), HasSubstr(at(".weight_shape")),
                      HasSubstr("element 1 is"), HasSubstr("holds a weight of [32, 16]")));
  }
}

// C019
TEST(Fold, AGroupIndexOutsideTheGroupsIsAnError) {
  for (const int32_t bad : {2, -1, 1 << 30}) {
    std::string groups = repeated(int32_t{1}, 15) + le(bad);
    EXPECT_THAT(load_error(kGptq, with(gptq_parts(), {at(".g_idx"), "I32", {16}, groups})),
                AllOf(HasSubstr(at(".g_idx") + "\": element 15 is " + std::to_string(bad)),
                      HasSubstr("there are 2 groups")));
  }
}

// C215: the head and the embedding in every pairing; they are one only when they say the same.
TEST(Fold, ATiedModelMayHaveAQuantisedHead) {
  const auto quantised = [](const std::string& module, char code) {
    return std::vector<FileTensor>{
        {module + ".weight", "F8_E4M3", {20, 16}, std::string(320, code)},
        {module + ".weight_scale_inv", "F32", {2, 1}, repeated(0.5f, 2)}};
  };
  const auto tied = [](const std::vector<FileTensor>& ends) {
    const TemporaryDirectory directory;
    std::vector<FileTensor> tensors = testing::tiny_llama_tensors();
    for (const FileTensor& end : ends) tensors = with(tensors, end);
    std::string text = testing::tiny_llama_config();
    const std::string untied = "\"tie_word_embeddings\": false";
    text.replace(text.find(untied), untied.size(),
                 fmt::format("\"tie_word_embeddings\": true, \"quantization_config\": {}", kFp8));
    directory.write("config.json", text);
    directory.write("model.safetensors", testing::safetensors_bytes(tensors));
    const auto checkpoint = Checkpoint::open(directory.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    const auto match = match_tensors(*checkpoint);
    EXPECT_TRUE(match.ok()) << match.error().message;
    return match->tied;
  };
  const std::vector<FileTensor> head = quantised("lm_head", '\x38');
  EXPECT_FALSE(tied(head));
  for (const char code : {'\x38', '\x30'}) {
    std::vector<FileTensor> both = quantised("model.embed_tokens", code);
    both.insert(both.end(), head.begin(), head.end());
    EXPECT_EQ(tied(both), code == '\x38');
  }
}

}  // namespace
}  // namespace bulkhead::model::formats
