#include "model/testing/random_model.h"

#include <algorithm>
#include <bit>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <functional>
#include <span>

#include "base/check.h"
#include "base/rng.h"
#include "model/model_tensors.h"
#include "model/side_files.h"
#include "model/weight_sizes.h"
#include "quant/bf16.h"
#include "quant/fp8_blocks.h"
#include "quant/int4_groups.h"

namespace bulkhead::model::testing {
namespace {

using kernels::WeightFormat;

constexpr const char* kFp8 =
    R"({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]})";
constexpr const char* kInt4 = R"({"quant_method": "compressed-tensors",
    "format": "pack-quantized", "config_groups": {"group_0": {"weights": {"num_bits": 4,
    "type": "int", "symmetric": true, "strategy": "group", "group_size": 32}}}})";

struct Matrix {
  std::vector<float> values;
  int64_t rows;
  int64_t columns;
};

// Norms are around 1; a row of a matrix has about unit length. Blocks of 128 rows and columns are
// smaller than their neighbours or larger: else all FP8 scales of a matrix would be the same.
Matrix random_matrix(const ExpectedTensor& tensor) {
  Matrix out = {{}, tensor.rows, std::max<int64_t>(tensor.columns, 1)};
  base::Rng rng(std::hash<std::string>{}(tensor.name));
  const bool vector = tensor.columns == 0;
  const double gain = vector ? 0.2 : 3.4 / std::sqrt(static_cast<double>(out.columns));
  const double middle = vector && tensor.role != WeightRole::kSelectionBias ? 1.0 : 0.0;
  out.values.resize(static_cast<size_t>(out.rows * out.columns));
  const auto columns = static_cast<size_t>(out.columns);
  for (size_t i = 0; i < out.values.size(); ++i) {
    const size_t block = i / columns / 128 * 3 + i % columns / 128;
    const double size = gain * (1.0 - 0.125 * static_cast<double>(block % 5));
    const auto drawn = static_cast<float>(middle + size * (rng.unit() - 0.5));
    out.values[i] = quant::bf16_to_float(quant::float_to_bf16(drawn));
  }
  return out;
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// The power of two at or above.
float whole(float scale) { return std::exp2(std::ceil(std::log2(scale))); }

std::vector<FileTensor> plain_parts(const ExpectedTensor& tensor, const Matrix& matrix) {
  std::vector<quant::Bf16> codes(matrix.values.size());
  std::ranges::transform(matrix.values, codes.begin(), quant::float_to_bf16);
  std::vector<uint64_t> shape = {static_cast<uint64_t>(matrix.rows)};
  if (tensor.columns > 0) shape.push_back(static_cast<uint64_t>(matrix.columns));
  return {{tensor.name, "BF16", shape, bytes_of(codes)}};
}

std::vector<FileTensor> fp8_parts(const std::string& name, const Matrix& matrix,
                                  const StoredAs& stored) {
  const int64_t block = quant::kFp8Block;
  const int64_t columns = matrix.columns;
  std::vector<quant::Fp8> codes(matrix.values.size());
  std::vector<float> scales;
  for (int64_t row = 0; row < matrix.rows; row += block) {
    for (int64_t column = 0; column < columns; column += block) {
      const int64_t at = row * columns + column;
      const int64_t rows = std::min(block, matrix.rows - row);
      const int64_t width = std::min(block, columns - column);
      float scale = quant::quantise_fp8_block(matrix.values.data() + at, columns, rows, width,
                                              stored.rule, codes.data() + at, columns);
      if (stored.whole_scales) {
        scale = whole(scale);
        for (int64_t i = 0; i < rows * width; ++i) {
          const auto place = static_cast<size_t>(at + i / width * columns + i % width);
          codes[place] = quant::float_to_e4m3(matrix.values[place] / scale);
        }
      }
      scales.push_back(scale);
    }
  }
  const auto rows = static_cast<uint64_t>(matrix.rows);
  const auto width = static_cast<uint64_t>(columns);
  const std::vector<uint64_t> blocks = {(rows + 127) / 128, (width + 127) / 128};
  return {{name + ".weight", "F8_E4M3", {rows, width}, bytes_of(codes)},
          {name + ".weight_scale_inv", "F32", blocks, bytes_of(scales)}};
}

std::vector<FileTensor> int4_parts(const std::string& name, const Matrix& matrix,
                                   const StoredAs& stored) {
  constexpr size_t kGroup = quant::kInt4Group;
  std::vector<uint8_t> codes(matrix.values.size());
  std::vector<quant::Bf16> scales;
  for (size_t at = 0; at < codes.size(); at += kGroup) {
    const auto values = std::span(matrix.values).subspan(at, kGroup);
    quant::Bf16 scale = quant::quantise_int4_group(values, stored.rule, &codes[at]);
    if (stored.whole_scales) {
      const float power = whole(quant::bf16_to_float(scale));
      scale = quant::float_to_bf16(power);
      for (size_t i = 0; i < kGroup; ++i) {
        const float code = std::clamp(std::nearbyint(values[i] / power), -8.0f, 7.0f);
        codes[at + i] = static_cast<uint8_t>(code + 8.0f);
      }
    }
    scales.push_back(scale);
  }
  std::string packed;
  for (size_t i = 0; i < codes.size(); i += 2) {
    packed += static_cast<char>(codes[i] | codes[i + 1] << 4);
  }
  const auto rows = static_cast<uint64_t>(matrix.rows);
  const auto columns = static_cast<uint64_t>(matrix.columns);
  return {{name + ".weight_packed", "I32", {rows, columns / 8}, packed},
          {name + ".weight_scale", "BF16", {rows, columns / 32}, bytes_of(scales)}};
}

std::vector<FileTensor> parts_of(const ExpectedTensor& tensor, const StoredAs& stored) {
  const Matrix matrix = random_matrix(tensor);
  const bool stays = !stored.plain.empty() && tensor.name.find(stored.plain) != std::string::npos;
  const bool linear = kind_of(tensor.role).has_value() && tensor.role != WeightRole::kHead &&
                      tensor.role != WeightRole::kEmbedding;
  const std::string name = tensor.name.substr(0, tensor.name.size() - std::size(".weight") + 1);
  if (linear && !stays && stored.format == WeightFormat::kFp8) {
    return fp8_parts(name, matrix, stored);
  }
  if (linear && !stays && stored.format == WeightFormat::kInt4 && matrix.columns % 32 == 0) {
    return int4_parts(name, matrix, stored);
  }
  return plain_parts(tensor, matrix);
}

}  // namespace

void write_random_model(std::string_view config, const StoredAs& stored,
                        const TemporaryDirectory& out) {
  GenerationDefaults ignored;
  const auto parsed = parse_config(std::string(config), ignored);
  BH_CHECK(parsed.ok(), parsed.error().message);
  std::vector<FileTensor> tensors;
  for (const ExpectedTensor& tensor : expected_tensors(*parsed, CheckpointFormat::kSafetensors)) {
    for (FileTensor& part : parts_of(tensor, stored)) tensors.push_back(std::move(part));
  }
  out.write("model.safetensors", safetensors_bytes(tensors));
  boost::json::object written = boost::json::parse(config).as_object();
  if (stored.format == WeightFormat::kFp8) {
    written["quantization_config"] = boost::json::parse(kFp8);
  } else if (stored.format == WeightFormat::kInt4) {
    written["quantization_config"] = boost::json::parse(kInt4);
  }
  out.write("config.json", boost::json::serialize(written));
}

std::string gqa_config() {
  return R"({"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
      "attention_bias": false, "decoder_sparse_step": 1, "head_dim": 48, "hidden_act": "silu",
      "hidden_size": 160, "intermediate_size": 288, "max_position_embeddings": 1024,
      "mlp_only_layers": [1], "moe_intermediate_size": 96, "norm_topk_prob": true,
      "num_attention_heads": 6, "num_experts": 4, "num_experts_per_tok": 2,
      "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
      "rope_theta": 10000.0, "tie_word_embeddings": false, "vocab_size": 160})";
}

std::string latent_config(int32_t latent) {
  boost::json::object config =
      boost::json::parse(R"({"architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa",
      "hidden_act": "silu", "attention_bias": false, "tie_word_embeddings": false,
      "moe_layer_freq": 1, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1,
      "topk_group": 1, "norm_topk_prob": true, "scoring_func": "sigmoid",
      "topk_method": "noaux_tc", "routed_scaling_factor": 2.5, "num_nextn_predict_layers": 0,
      "rms_norm_eps": 1e-5, "max_position_embeddings": 1024, "rope_interleave": true,
      "indexer_rope_interleave": true,
      "rope_parameters": {"rope_type": "default", "rope_theta": 8e6},
      "vocab_size": 160, "hidden_size": 160, "num_hidden_layers": 3, "num_attention_heads": 4,
      "num_key_value_heads": 4, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 48,
      "q_lora_rank": 160, "intermediate_size": 288,
      "moe_intermediate_size": 96, "n_routed_experts": 4, "num_experts_per_tok": 2,
      "index_n_heads": 4, "index_head_dim": 64, "index_topk": 8,
      "indexer_types": ["full", "shared", "full"]})")
          .as_object();
  config["kv_lora_rank"] = latent;
  return boost::json::serialize(config);
}

}  // namespace bulkhead::model::testing
