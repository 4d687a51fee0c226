// Reads parts of folded weights: windows of stored matrices, and scales, which are checked.
//
// Threads: pure functions; a workspace belongs to one call at a time.
// Invariant: errors name the file, the byte, the part and the element.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/formats/decode.h"
#include "model/tensor.h"
#include "model/tensor_files.h"

namespace bulkhead::model::formats {

// "FILE: byte B: tensor "NAME": element E WHAT".
std::string complaint(const TensorFiles& files, const TensorInfo& part, int64_t element,
                      std::string_view what);

// Some columns of some rows of a stored matrix.
struct Window {
  int64_t row = 0;
  int64_t rows = 0;
  int64_t column = 0;
  int64_t columns = 0;
};

// The window's elements, row after row. Whole rows are one read, others one read a row.
base::Status read_window(const TensorFiles& files, const TensorInfo& part, const Window& window,
                         std::span<std::byte> out);
// Four-byte words of a window.
base::Status read_words(const TensorFiles& files, const TensorInfo& part, const Window& window,
                        std::vector<uint32_t>& out);
// Leaves the window's scales in space.scales, each finite and above zero.
base::Status read_scales(const TensorFiles& files, const TensorInfo& part, const Window& window,
                         DecodeWorkspace& space);
// What the writer of a packed-rows weight says of its shape, where it says something, must agree.
base::Status check_written_shape(const TensorFiles& files, const TensorInfo& tensor);

}  // namespace bulkhead::model::formats
