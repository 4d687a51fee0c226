// What transformers and compressed-tensors read from what we write is what we read:
// tests/golden/quantise/cases.json holds checksums of their numbers (tools/quantize).

#include <gtest/gtest.h>

#include <boost/crc.hpp>
#include <boost/json.hpp>
#include <fstream>
#include <iterator>

#include "model/formats/decode.h"
#include "model/testing/files.h"
#include "model/write/quantise.h"

namespace bulkhead::model::write {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

uint32_t checksum(std::span<const std::byte> bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

void write_case(const fs::path& source, const fs::path& out, std::string_view recipe) {
  const auto checkpoint = Checkpoint::open(source);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto plan = build_plan(*checkpoint, {.recipe = *parse_recipe(recipe)});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  device::ThreadPool pool({.threads = 1, .scratch_bytes = 0});
  const SideFiles side = {.config = read_all(source / "config.json"), .files = {}};
  const auto errors = quantise(*checkpoint, *plan, side, out, pool, {});
  ASSERT_TRUE(errors.ok()) << errors.error().message;
}

// The tensor's numbers in BF16 as our reader has them; of a plain one its bytes.
uint32_t checksum_of(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  if (tensor.quantised == nullptr) {
    std::vector<std::byte> bytes(tensor.bytes);
    EXPECT_TRUE(checkpoint.read(tensor, 0, bytes).ok());
    return checksum(bytes);
  }
  std::vector<quant::Bf16> values(tensor.elements);
  formats::DecodeWorkspace space;
  const auto rows = static_cast<int64_t>(tensor.shape[0]);
  EXPECT_TRUE(formats::decode_rows(checkpoint.files(), tensor, {.begin = 0, .count = rows}, space,
                                   std::span(values))
                  .ok());
  return checksum(std::as_bytes(std::span(values)));
}

TEST(QuantiseForLibraries, TheyReadTheNumbersThatWeRead) {
  const fs::path golden = testing::golden_directory();
  const json::value cases = json::parse(read_all(golden / "quantise" / "cases.json"));
  ASSERT_GE(cases.as_array().size(), 9u);
  for (const json::value& one : cases.as_array()) {
    const std::string model(one.at("model").as_string());
    const std::string recipe(one.at("recipe").as_string());
    SCOPED_TRACE(model + " " + recipe);
    const fs::path source = golden / "quantise" / model;
    // As recorded: the logits of what was written and of its numbers in BF16. transformers refuses
    // dense layers of two formats; see tools/quantize.
    const json::value& logits = one.at("logits_equal");
    const bool two_dense_formats = recipe == "attention=int4,mlp=fp8";
    EXPECT_EQ(logits.is_bool(), !two_dense_formats);
    EXPECT_EQ(logits == json::value(true), !two_dense_formats);
    const testing::TemporaryDirectory out;
    write_case(source, out.path() / "out", recipe);
    const std::string file = read_all(out.path() / "out" / "model.safetensors");
    EXPECT_EQ(checksum(std::as_bytes(std::span(file))), one.at("file_crc32").to_number<uint32_t>());
    const auto written = Checkpoint::open(out.path() / "out");
    ASSERT_TRUE(written.ok()) << written.error().message;
    const json::object& sums = one.at("tensors_crc32").as_object();
    EXPECT_EQ(sums.size(), written->tensors().size());
    for (const TensorInfo& tensor : written->tensors()) {
      EXPECT_EQ(checksum_of(*written, tensor), sums.at(tensor.name).to_number<uint32_t>())
          << tensor.name;
    }
  }
}

}  // namespace
}  // namespace bulkhead::model::write
