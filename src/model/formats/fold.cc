#include "model/formats/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <unordered_map>

#include "quant/int4.h"

namespace bulkhead::model::formats {
namespace {

constexpr uint64_t kPerWord = quant::kCodesPerWord;
constexpr uint64_t kDimensionMax = uint64_t{1} << 31;
constexpr std::string_view kPlainWeight = ".weight";

// How a method's parts are called, behind the name of the module.
struct Suffixes {
  QuantMethod method;
  std::string_view codes;
  // All other parts; none of them may be there without codes.
  std::array<std::string_view, 4> others;
};

constexpr std::array kSuffixes = {
    Suffixes{QuantMethod::kFp8, ".weight", {".weight_scale_inv"}},
    Suffixes{QuantMethod::kCompressedTensors,
             ".weight_packed",
             {".weight_scale", ".weight_shape", ".weight_zero_point", ".weight_g_idx"}},
    Suffixes{QuantMethod::kAwq, ".qweight", {".qzeros", ".scales"}},
    Suffixes{QuantMethod::kGptq, ".qweight", {".qzeros", ".scales", ".g_idx"}}};

constexpr std::array kFp8ScaleTypes = {TensorType::kF32, TensorType::kBf16, TensorType::kF16,
                                       TensorType::kF8E8M0, TensorType::kU8};
constexpr std::array kGroupScaleTypes = {TensorType::kBf16, TensorType::kF16, TensorType::kF32};
constexpr std::array kWordTypes = {TensorType::kI32, TensorType::kU32};
constexpr std::array kShapeTypes = {TensorType::kI64, TensorType::kI32};

uint64_t divide_up(uint64_t value, uint64_t by) { return value / by + (value % by != 0 ? 1 : 0); }

class Folder {
 public:
  Folder(std::vector<TensorInfo>& stored, const QuantConfig& config, const TensorFiles& files)
      : stored_(stored), config_(config), files_(files), taken_(stored.size(), false) {
    by_name_.reserve(stored.size());
    for (size_t i = 0; i < stored.size(); ++i) by_name_.emplace(stored[i].name, i);
  }

  base::Result<std::vector<TensorInfo>> run() {
    std::vector<std::pair<size_t, TensorInfo>> folded;
    for (size_t i = 0; i < stored_.size(); ++i) {
      if (!is_codes(stored_[i])) continue;
      BH_ASSIGN(TensorInfo weight, fold(i));
      folded.emplace_back(i, std::move(weight));
    }
    // A weight takes the place of its codes. From here on names move out of what by_name_ views.
    std::vector<TensorInfo> out;
    out.reserve(stored_.size());
    auto next = folded.begin();
    for (size_t i = 0; i < stored_.size(); ++i) {
      if (next != folded.end() && next->first == i) {
        out.push_back(std::move(next++->second));
      } else if (!taken_[i]) {
        BH_TRY(check_plain(stored_[i]));
        out.push_back(std::move(stored_[i]));
      }
    }
    return out;
  }

 private:
  static const Suffixes& suffixes_of(QuantMethod method) {
    return *std::find_if(kSuffixes.begin(), kSuffixes.end(),
                         [&](const Suffixes& one) { return one.method == method; });
  }

  bool is_codes(const TensorInfo& tensor) const {
    if (config_.method == QuantMethod::kNone) return false;
    if (is_fp8(tensor)) return true;
    return config_.method != QuantMethod::kFp8 &&
           tensor.name.ends_with(suffixes_of(config_.method).codes);
  }

  // FP8 in blocks, alone or beside the four-bit weights of compressed-tensors.
  bool is_fp8(const TensorInfo& tensor) const {
    return config_.block_rows > 0 && tensor.type == TensorType::kF8E4M3 &&
           tensor.name.ends_with(kPlainWeight);
  }

  // What is left must be readable as it stands: not the codes of a method that the configuration
  // does not name, and not a part whose codes are missing.
  base::Status check_plain(const TensorInfo& tensor) const {
    const bool fp8 = tensor.type == TensorType::kF8E4M3 || tensor.type == TensorType::kF8E5M2;
    if (fp8 && tensor.name.ends_with(".weight")) {
      return base::unsupported(message(
          tensor, fmt::format("is {}, which a checkpoint with quant_method \"{}\" cannot have",
                              to_string(tensor.type), to_string(config_.method))));
    }
    for (const Suffixes& one : kSuffixes) {
      if (one.method != QuantMethod::kFp8 && tensor.name.ends_with(one.codes)) {
        return base::corrupt(
            message(tensor, fmt::format("is quantised, but config.json's quant_method is \"{}\"",
                                        to_string(config_.method))));
      }
    }
    if (config_.method == QuantMethod::kNone) return {};
    const Suffixes& own = suffixes_of(config_.method);
    for (const std::string_view suffix : own.others) {
      if (suffix.empty() || !tensor.name.ends_with(suffix)) continue;
      const std::string base = tensor.name.substr(0, tensor.name.size() - suffix.size());
      return base::corrupt(
          message(tensor, fmt::format("belongs to \"{}{}\", which is not there as quantised codes",
                                      base, own.codes)));
    }
    return {};
  }

  base::Result<TensorInfo> fold(size_t index) {
    const TensorInfo& codes = stored_[index];
    const bool fp8 = is_fp8(codes);
    const std::string_view suffix = fp8 ? kPlainWeight : suffixes_of(config_.method).codes;
    base_ = codes.name.substr(0, codes.name.size() - suffix.size());
    if (codes.shape.size() != 2 || codes.shape[0] == 0 || codes.shape[1] == 0 ||
        codes.shape[0] >= kDimensionMax || codes.shape[1] >= kDimensionMax) {
      return base::corrupt(message(codes, fmt::format("has shape {}; quantised weights are "
                                                      "matrices",
                                                      shape_text(codes.shape))));
    }
    QuantisedWeight weight;
    weight.codes = take(index);
    TensorInfo out;
    out.name = base_ + ".weight";
    if (suffix != kPlainWeight && find(kPlainWeight) != nullptr) {
      return base::corrupt(message(codes, "is there beside a plain \".weight\""));
    }
    if (fp8) {
      BH_TRY(fold_fp8(weight, out));
    } else if (config_.method == QuantMethod::kCompressedTensors) {
      BH_TRY(fold_packed_rows(weight, out));
    } else {
      BH_TRY(fold_columns(weight, out));
    }
    out.file = weight.codes.file;
    out.offset = weight.codes.offset;
    out.elements = out.shape[0] * out.shape[1];
    for (const TensorInfo* part : parts_of(weight)) out.bytes += part->bytes;
    out.quantised = std::make_shared<const QuantisedWeight>(std::move(weight));
    return out;
  }

  base::Status fold_fp8(QuantisedWeight& weight, TensorInfo& out) {
    const TensorInfo& codes = weight.codes;
    weight.format = QuantFormat::kFp8Blocks;
    weight.block_rows = config_.block_rows;
    weight.block_columns = config_.block_columns;
    out.type = TensorType::kFp8;
    out.shape = codes.shape;
    const bool usual = find(".weight_scale_inv") != nullptr;
    const std::string_view scale = config_.method == QuantMethod::kCompressedTensors
                                       ? ".weight_scale"
                                   : usual ? ".weight_scale_inv"
                                           : ".scale";
    BH_ASSIGN(weight.scales, part(scale, codes, kFp8ScaleTypes));
    return expect_shape(weight.scales, codes,
                        {divide_up(codes.shape[0], weight.block_rows),
                         divide_up(codes.shape[1], weight.block_columns)});
  }

  base::Status fold_packed_rows(QuantisedWeight& weight, TensorInfo& out) {
    const TensorInfo& codes = weight.codes;
    weight.format = QuantFormat::kPackedRows;
    out.type = TensorType::kInt4;
    out.shape = {codes.shape[0], codes.shape[1] * kPerWord};
    BH_TRY(expect_type(codes, kWordTypes));
    if (const TensorInfo* order = find(".weight_g_idx")) {
      return base::unsupported(message(*order, "groups ordered by activation cannot be loaded"));
    }
    BH_ASSIGN(weight.scales, part(".weight_scale", codes, kGroupScaleTypes));
    const bool symmetric = find(".weight_zero_point") == nullptr;
    BH_TRY(find_group(weight, out.shape[1], symmetric));
    const uint64_t groups = weight.scales.shape[1];
    BH_TRY(expect_shape(weight.scales, codes, {out.shape[0], groups}));
    if (!symmetric) {
      BH_ASSIGN(weight.zeros, part(".weight_zero_point", codes, kWordTypes));
      BH_TRY(expect_shape(*weight.zeros, codes, {divide_up(out.shape[0], kPerWord), groups}));
    }
    if (find(".weight_shape") == nullptr) return {};
    BH_ASSIGN(TensorInfo shape, part(".weight_shape", codes, kShapeTypes));
    if (shape.elements != 0) {
      BH_TRY(expect_shape(shape, codes, {2}));
      weight.shape = std::move(shape);
    }
    return {};
  }

  // The configured group whose size the scales have: the size is never made up from shapes.
  base::Status find_group(QuantisedWeight& weight, uint64_t columns, bool symmetric) {
    const TensorInfo& scales = weight.scales;
    std::string allowed;
    for (const GroupRule& rule : config_.groups) {
      const uint64_t size = rule.columns == 0 ? columns : rule.columns;
      const bool fits =
          scales.shape.size() == 2 && columns % size == 0 && scales.shape[1] == columns / size;
      if (fits && rule.symmetric == symmetric) {
        weight.block_columns = size;
        return {};
      }
      allowed += fmt::format("{}{} {}", allowed.empty() ? "" : ", ", size,
                             rule.symmetric ? "symmetric" : "asymmetric");
    }
    return base::corrupt(message(
        scales, fmt::format("has shape {}, which fits no configured group ({}) of {} columns{}",
                            shape_text(scales.shape), allowed, columns,
                            symmetric ? "" : " with zero points")));
  }

  // AWQ and GPTQ: the columns of the file are the rows of the weight.
  base::Status fold_columns(QuantisedWeight& weight, TensorInfo& out) {
    const TensorInfo& codes = weight.codes;
    const bool awq = config_.method == QuantMethod::kAwq;
    weight.format = awq ? QuantFormat::kAwq : QuantFormat::kGptq;
    weight.zeros_less_one = config_.zeros_less_one;
    out.type = TensorType::kInt4;
    const uint64_t columns = awq ? codes.shape[0] : codes.shape[0] * kPerWord;
    const uint64_t rows = awq ? codes.shape[1] * kPerWord : codes.shape[1];
    out.shape = {rows, columns};
    BH_TRY(expect_type(codes, kWordTypes));
    if (rows % kPerWord != 0) {
      return base::corrupt(
          message(codes, fmt::format("has {} columns, no multiple of {}", rows, kPerWord)));
    }
    const uint64_t configured = config_.groups.front().columns;
    weight.block_columns = configured == 0 ? columns : configured;
    const uint64_t groups = divide_up(columns, weight.block_columns);
    BH_ASSIGN(weight.scales, part(".scales", codes, kGroupScaleTypes));
    BH_TRY(expect_shape(weight.scales, codes, {groups, rows}));
    BH_ASSIGN(weight.zeros, part(".qzeros", codes, kWordTypes));
    BH_TRY(expect_shape(*weight.zeros, codes, {groups, rows / kPerWord}));
    if (awq || (!config_.ordered && find(".g_idx") == nullptr)) return {};
    BH_ASSIGN(weight.groups, part(".g_idx", codes, kWordTypes));
    return expect_shape(*weight.groups, codes, {columns});
  }

  TensorInfo take(size_t index) {
    taken_[index] = true;
    return stored_[index];
  }

  const TensorInfo* find(std::string_view suffix) const {
    const auto found = by_name_.find(base_ + std::string(suffix));
    return found == by_name_.end() ? nullptr : &stored_[found->second];
  }

  base::Result<TensorInfo> part(std::string_view suffix, const TensorInfo& codes,
                                std::span<const TensorType> types) {
    const auto found = by_name_.find(base_ + std::string(suffix));
    if (found == by_name_.end()) {
      return base::corrupt(
          message(codes, fmt::format("is quantised, but \"{}{}\" is missing", base_, suffix)));
    }
    BH_TRY(expect_type(stored_[found->second], types));
    return take(found->second);
  }

  base::Status expect_type(const TensorInfo& tensor, std::span<const TensorType> types) const {
    if (std::find(types.begin(), types.end(), tensor.type) != types.end()) return {};
    std::string allowed;
    for (const TensorType type : types) {
      allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", to_string(type));
    }
    return base::unsupported(
        message(tensor, fmt::format("is {}; here it can be {}", to_string(tensor.type), allowed)));
  }

  base::Status expect_shape(const TensorInfo& tensor, const TensorInfo& codes,
                            const std::vector<uint64_t>& shape) const {
    if (tensor.shape == shape) return {};
    return base::corrupt(message(
        tensor, fmt::format("has shape {}, but \"{}\" of {} needs {}", shape_text(tensor.shape),
                            codes.name, shape_text(codes.shape), shape_text(shape))));
  }

  std::string message(const TensorInfo& tensor, std::string_view what) const {
    return fmt::format("{}: tensor \"{}\" {}", files_.name_of(tensor), tensor.name, what);
  }

  std::vector<TensorInfo>& stored_;
  const QuantConfig& config_;
  const TensorFiles& files_;
  std::unordered_map<std::string_view, size_t> by_name_;  // views into stored_
  std::vector<bool> taken_;
  std::string base_;  // the module that is being folded
};

}  // namespace

base::Result<std::vector<TensorInfo>> fold_tensors(std::vector<TensorInfo> stored,
                                                   const QuantConfig& config,
                                                   const TensorFiles& files) {
  return Folder(stored, config, files).run();
}

}  // namespace bulkhead::model::formats
