#include "model/block_formats.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "model/testing/files.h"

namespace bulkhead::model {
namespace {

std::string from_hex(const boost::json::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoi(std::string(hex.data() + i, 2), nullptr, 16)));
  }
  return out;
}

TEST(BlockFormats, EveryFormatDecodesToTheReferenceFloatsBitForBit) {
  const std::map<std::string, TensorType> types = {
      {"F16", TensorType::kF16},   {"BF16", TensorType::kBf16}, {"Q4_0", TensorType::kQ4_0},
      {"Q4_1", TensorType::kQ4_1}, {"Q5_0", TensorType::kQ5_0}, {"Q5_1", TensorType::kQ5_1},
      {"Q8_0", TensorType::kQ8_0}, {"Q4_K", TensorType::kQ4_K}, {"Q5_K", TensorType::kQ5_K},
      {"Q6_K", TensorType::kQ6_K}};
  std::ifstream in(testing::golden_directory() / "block_formats.json");
  std::ostringstream text;
  text << in.rdbuf();
  const boost::json::value cases = boost::json::parse(text.str());
  ASSERT_EQ(cases.as_array().size(), types.size());
  for (const boost::json::value& entry : cases.as_array()) {
    const boost::json::object& object = entry.as_object();
    const std::string name(object.at("type").as_string().c_str());
    SCOPED_TRACE(name);
    const std::string blocks = from_hex(object.at("blocks").as_string());
    const std::string values = from_hex(object.at("values").as_string());
    const size_t elements = values.size() / sizeof(float);
    std::vector<float> decoded(elements);
    decode_elements(types.at(name), std::as_bytes(std::span<const char>(blocks)), decoded);
    for (size_t i = 0; i < elements; ++i) {
      uint32_t expected = 0;
      uint32_t actual = 0;
      std::memcpy(&expected, values.data() + i * sizeof(float), sizeof(expected));
      std::memcpy(&actual, &decoded[i], sizeof(actual));
      ASSERT_EQ(actual, expected) << "element " << i;
    }
  }
}

TEST(BlockFormats, F32IsCopied) {
  const std::vector<float> values = {1.5f, -0.0f, 3e-42f, 1e38f};
  std::vector<float> decoded(values.size());
  decode_elements(TensorType::kF32, std::as_bytes(std::span(values)), decoded);
  EXPECT_EQ(std::memcmp(decoded.data(), values.data(), values.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace bulkhead::model
