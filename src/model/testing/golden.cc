#include "model/testing/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/safetensors.h"

namespace bulkhead::model::testing {
namespace {

template <typename T>
std::vector<T> read_values(const ByteSource& source, const TensorInfo& tensor) {
  std::vector<T> out(tensor.elements);
  EXPECT_TRUE(source.read(tensor.offset, std::as_writable_bytes(std::span(out))).ok());
  return out;
}

float largest(const std::vector<float>& values) {
  float out = 0.0f;
  for (const float value : values) out = std::max(out, std::abs(value));
  return out;
}

}  // namespace

Golden read_golden(const std::filesystem::path& path) {
  Golden golden;
  const auto source = open_file(path);
  EXPECT_TRUE(source.ok()) << source.error().message;
  const auto tensors = read_safetensors(**source, 0);
  EXPECT_TRUE(tensors.ok()) << tensors.error().message;
  for (const TensorInfo& tensor : *tensors) {
    if (tensor.name == "ids") golden.ids = read_values<TokenId>(**source, tensor);
    if (tensor.name == "positions") golden.positions = read_values<int32_t>(**source, tensor);
    if (tensor.name == "plain") golden.plain = read_values<float>(**source, tensor);
    if (tensor.name == "rounded") golden.rounded = read_values<float>(**source, tensor);
  }
  return golden;
}

Agreement compare(const std::vector<float>& values, const std::vector<float>& reference,
                  size_t width, float limit) {
  EXPECT_EQ(values.size(), reference.size());
  const float scale = largest(reference);
  Agreement out;
  for (size_t begin = 0; begin < values.size(); begin += width) {
    float gap = 0.0f;
    for (size_t i = begin; i < begin + width; ++i) {
      // A NaN compares false and must not pass.
      const float difference = std::abs(values[i] - reference[i]) / scale;
      gap = difference <= gap ? gap : difference;
    }
    out.rows.push_back(gap <= limit);
    out.gap = gap <= out.gap ? out.gap : gap;
  }
  return out;
}

std::vector<float> row_distances(const std::vector<float>& values,
                                 const std::vector<float>& reference, size_t width) {
  EXPECT_EQ(values.size(), reference.size());
  std::vector<float> out;
  out.reserve(values.size() / width);
  for (size_t begin = 0; begin < values.size(); begin += width) {
    double difference = 0.0;
    double length = 0.0;
    for (size_t i = begin; i < begin + width; ++i) {
      const double gap = double{values[i]} - double{reference[i]};
      difference += gap * gap;
      length += double{reference[i]} * double{reference[i]};
    }
    out.push_back(static_cast<float>(std::sqrt(difference / length)));
  }
  return out;
}

}  // namespace bulkhead::model::testing
