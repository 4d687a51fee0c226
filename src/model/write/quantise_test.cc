#include "model/write/quantise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <fstream>
#include <iterator>
#include <map>

#include "model/formats/decode.h"
#include "model/model_tensors.h"
#include "model/testing/files.h"
#include "model/weight_sizes.h"
#include "model/write/config_writer.h"
#include "model/write/json_text.h"
#include "model/write/progress_file.h"
#include "model/write/row_source.h"
#include "quant/fp8_blocks.h"
#include "quant/int4_groups.h"

namespace bulkhead::model::write {
namespace {

namespace fs = std::filesystem;
using kernels::WeightFormat;
using quant::ScaleRule;
using ::testing::HasSubstr;

std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

fs::path model_path(const std::string& name) {
  return testing::golden_directory() / "models" / name;
}

struct Written {
  std::vector<TensorError> errors;
  WritePlan plan;
};

// Writes the model at `source`; ends the run after `tensors_max` tensors.
base::Result<Written> write_model(const fs::path& source, const fs::path& out,
                                  const QuantiseOptions& options, unsigned threads = 2,
                                  size_t tensors_max = SIZE_MAX) {
  BH_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(source));
  BH_ASSIGN(WritePlan plan, build_plan(checkpoint, options));
  device::ThreadPool pool({.threads = threads, .scratch_bytes = 0});
  const SideFiles side = {.config = read_all(source / "config.json"),
                          .files = {{"tokenizer.json", "{}"}}};
  BH_ASSIGN(std::vector<TensorError> errors,
            quantise(checkpoint, plan, side, out, pool, [&](const QuantiseProgress& counts) {
              return counts.tensors_done < tensors_max;
            }));
  // Jobs point into the checkpoint, which ends here.
  for (TensorJob& job : plan.jobs) job.source = nullptr;
  return Written{std::move(errors), std::move(plan)};
}

QuantiseOptions options_of(const char* recipe, ScaleRule rule = ScaleRule::kSearch,
                           uint64_t shard_bytes = uint64_t{5} << 30) {
  return {.recipe = *parse_recipe(recipe), .rule = rule, .shard_bytes = shard_bytes};
}

std::vector<float> values_of(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  std::vector<float> values(tensor.elements);
  RowSource rows(checkpoint);
  const auto count = static_cast<int64_t>(tensor.elements / tensor.shape.back());
  const auto status = rows.read(tensor, {.begin = 0, .count = count}, 0, values);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return values;
}

// What a reader must get for a matrix of `columns` that was quantised in one format.
std::vector<float> through_format(const std::vector<float>& values, int64_t columns,
                                  WeightFormat format, ScaleRule rule) {
  std::vector<float> out = values;
  const auto rows = static_cast<int64_t>(values.size()) / columns;
  if (format == WeightFormat::kInt4) {
    for (size_t at = 0; at < values.size(); at += quant::kInt4Group) {
      std::array<uint8_t, quant::kInt4Group> codes{};
      const float scale = quant::bf16_to_float(quant::quantise_int4_group(
          std::span(values).subspan(at, quant::kInt4Group), rule, codes.data()));
      for (size_t i = 0; i < codes.size(); ++i) {
        const float product = static_cast<float>(codes[i] - quant::kInt4Zero) * scale;
        out[at + i] = quant::bf16_to_float(quant::float_to_bf16(product));
      }
    }
  } else if (format == WeightFormat::kFp8) {
    std::vector<quant::Fp8> codes(values.size());
    for (int64_t row = 0; row < rows; row += 128) {
      for (int64_t column = 0; column < columns; column += 128) {
        const int64_t height = std::min<int64_t>(128, rows - row);
        const int64_t width = std::min<int64_t>(128, columns - column);
        const int64_t at = row * columns + column;
        const float scale = quant::quantise_fp8_block(values.data() + at, columns, height, width,
                                                      rule, codes.data() + at, columns);
        for (int64_t r = 0; r < height; ++r) {
          for (int64_t c = 0; c < width; ++c) {
            const auto place = static_cast<size_t>(at + r * columns + c);
            out[place] = quant::e4m3_to_float(codes[place]) * scale;
          }
        }
      }
    }
  }
  return out;
}

class EveryRecipe : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(EveryRecipe, IsReadBackAsTheNumbersThatTheQuantisersGive) {
  const auto [model, recipe] = GetParam();
  const testing::TemporaryDirectory out;
  const auto written = write_model(model_path(model), out.path() / "out", options_of(recipe));
  ASSERT_TRUE(written.ok()) << written.error().message;
  const auto source = Checkpoint::open(model_path(model));
  const auto result = Checkpoint::open(out.path() / "out");
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_TRUE(match_tensors(*result).ok());
  ASSERT_EQ(result->tensors().size(), source->tensors().size());
  for (const TensorJob& job : written->plan.jobs) {
    const TensorInfo* before = source->find(job.name);
    const TensorInfo* after = result->find(job.name);
    ASSERT_TRUE(before != nullptr && after != nullptr) << job.name;
    EXPECT_EQ(after->shape, before->shape);
    EXPECT_EQ(after->type, job.format == WeightFormat::kInt4  ? TensorType::kInt4
                           : job.format == WeightFormat::kFp8 ? TensorType::kFp8
                                                              : before->type);
    EXPECT_EQ(values_of(*result, *after), through_format(values_of(*source, *before),
                                                         static_cast<int64_t>(before->shape.back()),
                                                         job.format, ScaleRule::kSearch))
        << job.name;
  }
  EXPECT_EQ(read_all(out.path() / "out" / "tokenizer.json"), "{}");
  EXPECT_FALSE(fs::exists(out.path() / "out" / kProgressName));
}

INSTANTIATE_TEST_SUITE_P(
    Families, EveryRecipe,
    ::testing::Combine(::testing::Values("qwen3_moe", "glm4_moe", "deepseek_v3", "glm_moe_dsa",
                                         "kimi_k25"),
                       ::testing::Values("fp8", "int4", "kimi", "kimi-fp8", "bf16",
                                         "experts=fp8,mlp=int4,head=fp8")),
    [](const auto& param) {
      std::string name = std::string(std::get<0>(param.param)) + "_" + std::get<1>(param.param);
      std::ranges::replace_if(name, [](char c) { return c == '-' || c == '=' || c == ','; }, '_');
      return name;
    });

TEST(Quantise, TheSizesThatAConfigurationTellsAreThoseOfTheFiles) {
  for (const char* model : {"qwen3_moe", "glm_moe_dsa", "deepseek_v3"}) {
    const auto checkpoint = Checkpoint::open(model_path(model));
    ASSERT_TRUE(checkpoint.ok());
    ModelConfig config = checkpoint->config();
    config.prediction_layers = 0;  // the small models are saved without them
    for (const char* recipe : {"bf16", "fp8", "kimi", "kimi-fp8"}) {
      const auto plan = build_plan(*checkpoint, options_of(recipe));
      ASSERT_TRUE(plan.ok());
      uint64_t bytes = 0;
      for (const ShardPlan& shard : plan->shards) {
        for (const StoredTensor& tensor : shard.tensors) {
          if (tensor.name.ends_with(".weight_shape")) continue;
          // Published checkpoints have it in FP32, the small models in BF16.
          bytes += tensor.bytes() * (tensor.name.ends_with("e_score_correction_bias") ? 2 : 1);
        }
      }
      EXPECT_EQ(bytes, sizes_of(config, *parse_recipe(recipe)).bytes()) << model << " " << recipe;
    }
  }
}

// The bytes of every file in a directory, by name.
std::map<std::string, std::string> files_of(const fs::path& directory) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::directory_iterator(directory)) {
    out[entry.path().filename().string()] = read_all(entry.path());
  }
  return out;
}

TEST(Quantise, TheBytesDoNotDependOnThreads) {
  const testing::TemporaryDirectory out;
  const QuantiseOptions options = options_of("kimi-fp8", ScaleRule::kSearch, 20'000);
  ASSERT_TRUE(write_model(model_path("glm4_moe"), out.path() / "one", options, 1).ok());
  ASSERT_TRUE(write_model(model_path("glm4_moe"), out.path() / "three", options, 3).ok());
  const auto one = files_of(out.path() / "one");
  EXPECT_GT(one.size(), 6u);
  EXPECT_TRUE(one == files_of(out.path() / "three"));
  EXPECT_TRUE(one.contains("model.safetensors.index.json"));
  EXPECT_TRUE(one.contains("quantize-report.json"));
}

TEST(Quantise, ARunThatWasInterruptedAnywhereEndsWithTheSameBytes) {
  const testing::TemporaryDirectory out;
  const QuantiseOptions options = options_of("kimi-fp8", ScaleRule::kSearch, 20'000);
  const fs::path source = model_path("glm4_moe");
  ASSERT_TRUE(write_model(source, out.path() / "whole", options).ok());
  const auto whole = files_of(out.path() / "whole");
  const fs::path part = out.path() / "part";
  size_t stops = 0;
  // Each run gets a little further before it is ended.
  for (size_t tensors = 1; tensors < 400; tensors += 7) {
    const auto run = write_model(source, part, options, 2, tensors);
    if (run.ok()) break;
    ASSERT_EQ(run.error().code, base::ErrorCode::kCancelled) << run.error().message;
    ASSERT_FALSE(fs::exists(part / "config.json"));
    ++stops;
  }
  const auto last = write_model(source, part, options);
  EXPECT_TRUE(last.ok() || fs::exists(part / "config.json"));
  EXPECT_GT(stops, 3u);
  const auto files = files_of(part);
  ASSERT_EQ(files.size(), whole.size());
  for (const auto& [name, bytes] : whole) EXPECT_TRUE(files.at(name) == bytes) << name;
}

TEST(Quantise, FinishedFilesAreNotWrittenAgain) {
  const testing::TemporaryDirectory out;
  const QuantiseOptions options = options_of("int4", ScaleRule::kAmax, 20'000);
  const fs::path source = model_path("glm4_moe");
  ASSERT_FALSE(write_model(source, out.path() / "out", options, 2, 30).ok());
  const auto progress = read_progress(out.path() / "out");
  ASSERT_TRUE(progress.ok() && progress->has_value());
  ASSERT_GT((*progress)->shards, 0u);
  const auto checkpoint = Checkpoint::open(source);
  const auto plan = build_plan(*checkpoint, options);
  const fs::path first = out.path() / "out" / plan->shards[0].file;
  const auto time = fs::last_write_time(first);
  const auto left = bytes_left(*plan, out.path() / "out");
  ASSERT_TRUE(left.ok());
  EXPECT_LT(*left, plan->file_bytes());
  ASSERT_TRUE(write_model(source, out.path() / "out", options).ok());
  EXPECT_EQ(fs::last_write_time(first), time);
}

TEST(Quantise, ADirectoryThatIsNotThisRunsIsRefusedWithTheCure) {
  const testing::TemporaryDirectory out;
  const fs::path source = model_path("glm4_moe");
  const fs::path part = out.path() / "part";
  const QuantiseOptions options = options_of("int4", ScaleRule::kAmax, 20'000);
  ASSERT_FALSE(write_model(source, part, options, 2, 30).ok());
  const auto refusal = [&](const fs::path& from, const QuantiseOptions& wanted) {
    const auto result = write_model(from, part, wanted);
    return result.ok() ? std::string() : result.error().message;
  };
  EXPECT_THAT(refusal(source, options_of("fp8", ScaleRule::kAmax, 20'000)),
              HasSubstr("unfinished run of recipe \"int4\""));
  EXPECT_THAT(refusal(source, options_of("int4", ScaleRule::kSearch, 20'000)),
              HasSubstr("unfinished run"));
  EXPECT_THAT(refusal(source, options_of("int4", ScaleRule::kAmax, 30'000)),
              HasSubstr("unfinished run"));
  EXPECT_THAT(refusal(model_path("deepseek_v3"), options), HasSubstr("unfinished run"));
  // A file that was finished and is not whole any more.
  const auto progress = read_progress(part);
  ASSERT_GT((*progress)->shards, 0u);
  for (const auto& entry : fs::directory_iterator(part)) {
    if (entry.path().filename().string().starts_with("model-00001")) fs::resize_file(entry, 100);
  }
  EXPECT_THAT(refusal(source, options), HasSubstr("not as the unfinished run left it"));
  // One that somebody uses for something else, and one that is finished.
  out.write("other", "");
  EXPECT_THAT(write_model(source, out.path(), options).error().message,
              HasSubstr("is not empty and holds no unfinished run"));
}

TEST(Quantise, ABrokenProgressFileIsAnErrorAndNotAFreshStart) {
  const testing::TemporaryDirectory out;
  for (const char* text : {"", "{}", "[]", R"({"digest": "x", "shards": -1, "errors": []})",
                           R"({"digest": "x", "shards": 1, "errors": [1]})",
                           R"({"digest": "x", "shards": 1, "errors": [{"squares": "a"}]})"}) {
    out.write(kProgressName, text);
    EXPECT_FALSE(read_progress(out.path()).ok()) << text;
  }
}

TEST(Quantise, CodesThatHaveTheWantedFormatAreCopied) {
  const testing::TemporaryDirectory out;
  for (const char* recipe : {"fp8", "int4", "kimi-fp8"}) {
    const fs::path first = out.path() / recipe;
    const fs::path again = out.path() / (std::string(recipe) + "-again");
    ASSERT_TRUE(write_model(model_path("qwen3_moe"), first, options_of(recipe)).ok());
    const auto written = write_model(first, again, options_of(recipe, ScaleRule::kAmax));
    ASSERT_TRUE(written.ok()) << written.error().message;
    EXPECT_EQ(read_all(first / "model.safetensors"), read_all(again / "model.safetensors"));
    EXPECT_EQ(read_all(first / "config.json"), read_all(again / "config.json"));
    EXPECT_TRUE(std::ranges::none_of(written->plan.jobs, [](const TensorJob& job) {
      return job.action == Action::kFp8 || job.action == Action::kInt4;
    }));
  }
}

TEST(Quantise, AQuantisedCheckpointBecomesBf16AgainAndAnotherFormat) {
  const testing::TemporaryDirectory out;
  ASSERT_TRUE(write_model(model_path("qwen3_moe"), out.path() / "fp8", options_of("fp8")).ok());
  ASSERT_TRUE(write_model(out.path() / "fp8", out.path() / "bf16", options_of("bf16")).ok());
  ASSERT_TRUE(write_model(out.path() / "fp8", out.path() / "int4", options_of("int4")).ok());
  const auto plain = Checkpoint::open(out.path() / "bf16");
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  EXPECT_THAT(read_all(out.path() / "bf16" / "config.json"),
              ::testing::Not(HasSubstr("quantization_config")));
  for (const TensorInfo& tensor : plain->tensors()) EXPECT_EQ(tensor.quantised, nullptr);
  EXPECT_TRUE(Checkpoint::open(out.path() / "int4").ok());
}

TEST(Quantise, ReportsErrorsThatTheSearchMakesSmaller) {
  const testing::TemporaryDirectory out;
  const auto searched =
      write_model(model_path("glm4_moe"), out.path() / "search", options_of("int4"));
  const auto plain = write_model(model_path("glm4_moe"), out.path() / "amax",
                                 options_of("int4", ScaleRule::kAmax));
  ASSERT_TRUE(searched.ok() && plain.ok());
  TensorError sum;
  for (size_t i = 0; i < searched->errors.size(); ++i) {
    const TensorError& error = searched->errors[i];
    EXPECT_NEAR(error.amax_squared, plain->errors[i].squared, 1e-12);
    EXPECT_LE(error.squared, error.amax_squared);
    sum.add(error);
  }
  EXPECT_GT(sum.gain(), 0.03);
  EXPECT_GT(sum.relative_rms(), 0.05);
  EXPECT_LT(sum.relative_rms(), 0.12);
}

TEST(Quantise, WhatCannotBeWrittenIsRefusedByName) {
  const auto refusal = [](const std::string& model, const char* recipe) {
    const auto checkpoint = Checkpoint::open(model_path(model));
    const auto plan = build_plan(*checkpoint, options_of(recipe));
    return plan.ok() ? std::string() : plan.error().message;
  };
  EXPECT_THAT(refusal("qwen3", "fp8,head=fp8"), HasSubstr("head is the embedding table here"));
  EXPECT_THAT(refusal("qwen3", "fp8,embedding=int4"), HasSubstr("leave embedding=int4 out"));
  EXPECT_THAT(refusal("qwen3", "kimi"), HasSubstr("changes nothing"));
  EXPECT_EQ(refusal("qwen3", "bf16"), "");
}

TEST(Quantise, AValueThatIsNotFiniteIsAnErrorThatNamesIt) {
  const testing::TemporaryDirectory source;
  auto tensors = testing::tiny_llama_tensors();
  for (testing::FileTensor& tensor : tensors) {
    if (tensor.name.ends_with("o_proj.weight")) tensor.data.replace(2 * 18, 2, "\x80\x7f");
  }
  source.write("model.safetensors", testing::safetensors_bytes(tensors));
  source.write("config.json", testing::tiny_llama_config());
  const testing::TemporaryDirectory out;
  const auto result = write_model(source.path(), out.path() / "out", options_of("fp8"));
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("o_proj.weight\": row 1, column 2 is not finite"));
}

// A tiny llama in `out`/source with one number of a matrix, at row 0, column 0, replaced.
fs::path llama_with(const testing::TemporaryDirectory& out, std::string_view tensor,
                    std::string_view number) {
  auto tensors = testing::tiny_llama_tensors();
  for (testing::FileTensor& one : tensors) {
    if (one.name.ends_with(tensor)) one.data.replace(0, number.size(), number);
  }
  fs::create_directories(out.path() / "source");
  out.write("source/model.safetensors", testing::safetensors_bytes(tensors));
  out.write("source/config.json", testing::tiny_llama_config());
  return out.path() / "source";
}

std::string refusal_of(const fs::path& source, const fs::path& out, const char* recipe) {
  const auto result = write_model(source, out, options_of(recipe, ScaleRule::kAmax));
  return result.ok() ? std::string() : result.error().message;
}

TEST(Quantise, ValuesThatAReaderOfTheFormatWouldRefuseAreErrors) {
  constexpr std::string_view kLargest("\x7f\x7f", 2);  // of BF16
  const testing::TemporaryDirectory out;
  const fs::path source = llama_with(out, "down_proj.weight", kLargest);
  EXPECT_THAT(refusal_of(source, out.path() / "fp8", "fp8"),
              HasSubstr("down_proj.weight\": rows 0 to 16 have values that are too large for FP8"));
  // 7 times its scale is beyond BF16.
  EXPECT_THAT(refusal_of(source, out.path() / "int4", "int4"),
              HasSubstr("down_proj.weight\": row 0, column 0 is not finite in BF16"));
}

// One part of a quantised tiny llama with bytes replaced, and what writing it anew says.
std::string refusal_with(const char* recipe, const char* to, bool in_codes, size_t at,
                         std::string_view bytes, bool shape = false) {
  const testing::TemporaryDirectory out;
  const fs::path source = llama_with(out, "no tensor", "");
  EXPECT_TRUE(write_model(source, out.path() / "first", options_of(recipe)).ok());
  const auto checkpoint = Checkpoint::open(out.path() / "first");
  const QuantisedWeight& weight =
      *checkpoint->find("model.layers.0.mlp.down_proj.weight")->quantised;
  const TensorInfo& part = shape ? *weight.shape : in_codes ? weight.codes : weight.scales;
  for (size_t i = 0; i < bytes.size(); ++i) {
    out.patch("first/model.safetensors", part.offset + at + i, bytes[i]);
  }
  return refusal_of(out.path() / "first", out.path() / "again", to);
}

TEST(Quantise, CodesAndScalesThatAreCopiedAreCheckedAsAReaderDoes) {
  const auto scale = [](float value) { return testing::le(value); };
  EXPECT_EQ(refusal_with("fp8", "fp8", true, 40, "\x7e"), "");
  EXPECT_THAT(refusal_with("fp8", "fp8", true, 40, "\xff"), HasSubstr("element 40 is not finite"));
  EXPECT_THAT(refusal_with("fp8", "fp8", false, 0, scale(0.0f)), HasSubstr("above zero"));
  EXPECT_THAT(refusal_with("fp8", "fp8", false, 0, scale(-1.0f)), HasSubstr("above zero"));
  EXPECT_THAT(refusal_with("fp8", "fp8", false, 0, scale(INFINITY)), HasSubstr("above zero"));
  EXPECT_THAT(refusal_with("fp8", "fp8", false, 0, scale(0x1p65f)), HasSubstr("larger than FP8"));
  constexpr std::string_view kZero("\0\0", 2);
  constexpr std::string_view kInfinite("\x80\x7f", 2);
  EXPECT_EQ(refusal_with("int4", "int4", false, 2, "\x80\x3f"), "");
  EXPECT_THAT(refusal_with("int4", "int4", false, 2, kZero), HasSubstr("above zero"));
  EXPECT_THAT(refusal_with("int4", "int4", false, 2, "\x80\xbf"), HasSubstr("above zero"));
  EXPECT_THAT(refusal_with("int4", "int4", false, 2, kInfinite), HasSubstr("above zero"));
  EXPECT_THAT(refusal_with("int4", "int4", false, 0, "\x08", true), HasSubstr("is 8, but"));
}

TEST(Quantise, ValuesThatAreInfiniteInBf16AreErrorsWhereTheyAreWidened) {
  // In FP32 448 times it is below the largest number, and above all of BF16.
  const std::string message = refusal_with("fp8", "bf16", false, 0, testing::le(0x1.2471p119f));
  EXPECT_THAT(message, HasSubstr("is not finite in BF16"));
}

TEST(Quantise, AConfigurationThatCannotBeRewrittenEndsTheRunBeforeItWrites) {
  const testing::TemporaryDirectory out;
  const auto checkpoint = Checkpoint::open(model_path("glm4_moe"));
  const auto plan = build_plan(*checkpoint, options_of("kimi"));
  ASSERT_TRUE(plan.ok());
  device::ThreadPool pool({.threads = 1, .scratch_bytes = 0});
  const SideFiles side = {.config = "{", .files = {}};
  const auto result = quantise(*checkpoint, *plan, side, out.path() / "out", pool, {});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("config.json"));
  EXPECT_FALSE(fs::exists(out.path() / "out"));
}

TEST(QuantisedConfig, KeepsWhatTheSourceSaysAndReplacesItsQuantisation) {
  const auto checkpoint = Checkpoint::open(model_path("kimi_k25"));
  const auto plan = build_plan(*checkpoint, options_of("kimi-fp8"));
  ASSERT_TRUE(plan.ok());
  const auto text = quantised_config(
      R"({"z": 1e-05, "a": [1, 2.70], "quantization_config": {"old": "}"},
          "text_config": {"quantization_config": {"older": [true]}, "b": "c" }, "e": "\"{" })",
      *plan);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, ::testing::StartsWith(R"({"z": 1e-05, "a": [1, 2.70], "text_config": {"b": "c",
    "quantization_config": {
      "quant_method": "compressed-tensors",)"));
  EXPECT_THAT(*text, ::testing::EndsWith(R"( }, "e": "\"{" })"));
  EXPECT_THAT(*text, ::testing::Not(HasSubstr("old")));
  EXPECT_THAT(*text, HasSubstr("mixed-precision"));
  EXPECT_THAT(
      *text,
      HasSubstr(
          R"("re:.*language_model\\.model\\.layers\\.\\d+\\.mlp\\.experts\\.\\d+\\.up_proj$")"));
  EXPECT_THAT(*text, HasSubstr(R"(mlp\\.shared_[a-z]+\\.up_proj$")"));
}

TEST(JsonText, MembersAreTakenOutAndPutInWhereverTheyStand) {
  EXPECT_EQ(without_member(R"({"a": 1, "b": [2, "x]"], "c": 3})", "", "b"), R"({"a": 1, "c": 3})");
  EXPECT_EQ(without_member(R"({"a": 1, "c": 3 })", "", "c"), R"({"a": 1 })");
  EXPECT_EQ(without_member(R"({ "a": {"a": 2} })", "", "a"), R"({  })");
  EXPECT_EQ(without_member(R"({"t": {"a": {}}})", "t", "a"), R"({"t": {}})");
  EXPECT_EQ(without_member(R"({"t": 1})", "t", "a"), R"({"t": 1})");
  EXPECT_EQ(*with_member("{}", "", "n", 5), "{\n  \"n\": 5\n}");
  EXPECT_EQ(*with_member(R"({"a": 1})", "", "n", 0.00001), "{\"a\": 1,\n  \"n\": 1e-05}");
  EXPECT_EQ(*with_member(R"({"t": {"a": "\\"}})", "t", "n", true),
            "{\"t\": {\"a\": \"\\\\\",\n    \"n\": true}}");
}

TEST(JsonText, ANameIsWhatItsEscapesStandForAndTheLastOfSeveralCounts) {
  EXPECT_EQ(without_member(R"({"\u0061": 1, "c": 3, "a": "2", "d": 4})", "", "a"),
            R"({"c": 3, "d": 4})");
  EXPECT_EQ(without_member(R"({"a": 1, "a": 2 })", "", "a"), R"({ })");
  EXPECT_EQ(without_member(R"({"c": 1, "a": 1, "a": 2 })", "", "a"), R"({"c": 1 })");
  EXPECT_EQ(without_member(R"({"t": {"a": 1}, "\u0074": {"a": 2}})", "t", "a"),
            R"({"t": {"a": 1}, "\u0074": {}})");
  EXPECT_EQ(without_member(R"({"t": {"a": 1}, "t": 2})", "t", "a"), R"({"t": {"a": 1}, "t": 2})");
  EXPECT_EQ(without_member(R"({"a\"": 1, "a\\": 2})", "", "a\\"), R"({"a\"": 1})");
  EXPECT_EQ(*with_member(R"({"t": 1, "\u0074": {}})", "t", "n", 5),
            "{\"t\": 1, \"\\u0074\": {\n    \"n\": 5\n  }}");
  const auto nowhere = with_member(R"({"t": {}, "t": 1})", "t", "n", 5);
  ASSERT_FALSE(nowhere.ok());
  EXPECT_THAT(nowhere.error().message, HasSubstr("\"t\" is no object"));
}

TEST(QuantisedConfig, HasOneQuantisationHoweverTheSourceSpellsAndRepeatsItsOwn) {
  const auto checkpoint = Checkpoint::open(model_path("kimi_k25"));
  const auto plan = build_plan(*checkpoint, options_of("kimi"));
  ASSERT_TRUE(plan.ok());
  for (
      const char* source :
      {R"({"text\u005fconfig": {"quantization_confi\u0067": {"old": 1}, "b": "c"}})",
       R"({"text_config": 5, "text_config": {"quantization_config": 1, "quantization_config":{}}})",
       R"({"text_config": {"quantization_config": 1}, "text_config": {"quantization_config": 2}})",
       R"({"quantization_config": {"old": 1}, "quantization\u005fconfig": {"old": 2}})",
       R"({"text_config": {"quantization_config": {}}, "text\u005fconfig": "none"})"}) {
    const auto text = quantised_config(source, *plan);
    ASSERT_TRUE(text.ok()) << source << ": " << text.error().message;
    const boost::json::value document = boost::json::parse(*text);
    const boost::json::object& root = document.as_object();
    const boost::json::value* inner = root.if_contains("text_config");
    const bool inside = inner != nullptr && inner->is_object();
    const auto& place = inside && !root.contains("quantization_config") ? inner->as_object() : root;
    const boost::json::value* written = place.if_contains("quantization_config");
    ASSERT_TRUE(written != nullptr && written->is_object()) << *text;
    EXPECT_EQ(written->at("quant_method").as_string(), "compressed-tensors") << *text;
    EXPECT_THAT(*text, ::testing::Not(HasSubstr("old")));
  }
}

}  // namespace
}  // namespace bulkhead::model::write
