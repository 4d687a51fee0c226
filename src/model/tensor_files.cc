#include "model/tensor_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace bulkhead::model {

base::Status TensorFiles::read(const TensorInfo& tensor, uint64_t begin,
                               std::span<std::byte> out) const {
  BH_CHECK(begin <= tensor.bytes && out.size() <= tensor.bytes - begin, "a read beyond the tensor");
  if (tensor.quantised != nullptr) return read_parts(*tensor.quantised, begin, out);
  auto status = sources_[tensor.file]->read(tensor.offset + begin, out);
  if (status.ok()) return status;
  return std::move(status).error().within(fmt::format("tensor \"{}\"", tensor.name));
}

base::Status TensorFiles::read_parts(const QuantisedWeight& weight, uint64_t begin,
                                     std::span<std::byte> out) const {
  for (const TensorInfo* part : parts_of(weight)) {
    if (begin < part->bytes && !out.empty()) {
      const auto count = static_cast<size_t>(std::min<uint64_t>(out.size(), part->bytes - begin));
      BH_TRY(read(*part, begin, out.first(count)));
      out = out.subspan(count);
      begin += count;
    }
    begin -= std::min(begin, part->bytes);
  }
  return {};
}

}  // namespace bulkhead::model
