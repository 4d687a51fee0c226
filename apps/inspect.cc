#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "base/units.h"
#include "commands.h"
#include "kv/layout.h"
#include "model/checkpoint.h"
#include "model/loader.h"

namespace bulkhead::apps {
namespace {

using base::format_bytes;
using base::format_count;

void row(std::string_view name, const std::string& value) {
  std::cout << fmt::format("{:<24}{}\n", name, value);
}

std::string rope_text(const model::RopeConfig& rope) {
  std::string text = fmt::format("theta {:g}", rope.theta);
  if (rope.scaling != model::RopeScaling::kNone) {
    text += fmt::format(", {} x{:g} over {} tokens", model::to_string(rope.scaling), rope.factor,
                        rope.original_context);
  }
  return text;
}

std::string extras_text(const model::ModelConfig& config) {
  std::string text;
  const auto add = [&text](bool present, std::string_view what) {
    if (!present) return;
    if (!text.empty()) text += ", ";
    text += what;
  };
  add(config.qkv_bias, "q/k/v bias");
  add(config.o_bias, "o bias");
  add(config.mlp_bias, "mlp bias");
  add(config.qk_norm, "q/k norm");
  return text.empty() ? "none" : text;
}

std::string eos_text(const model::GenerationDefaults& generation) {
  std::string text;
  for (const int32_t id : generation.eos_ids) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", id);
  }
  return text.empty() ? "none" : text;
}

std::string heads_text(const model::ModelConfig& c) {
  if (!c.is_latent()) {
    return fmt::format("{} query, {} key/value, {} values each", c.heads, c.kv_heads, c.head_dim);
  }
  std::string text = fmt::format("{} over one latent key of {} + {} rotated values", c.heads,
                                 c.mla.latent, c.mla.rope);
  if (c.indexer.heads > 0) {
    const auto full = std::ranges::count(c.indexer.full_layers, uint8_t{1});
    text += fmt::format("; the best {} positions, chosen in {} of {} layers", c.indexer.top_k, full,
                        c.layers);
  }
  return text;
}

std::string experts_text(const model::ModelConfig& c) {
  return fmt::format("{} of {} a token, {} shared, {} wide, in {} of {} layers", c.moe.per_token,
                     c.moe.experts, c.moe.shared, c.moe.intermediate,
                     std::ranges::count(c.moe.sparse_layers, uint8_t{1}), c.layers);
}

void print_model(const model::CheckpointSummary& facts) {
  const model::ModelConfig& c = facts.config;
  row("family", c.family);
  row("parameters", format_count(facts.parameters));
  row("layers", fmt::format("{}", c.layers));
  row("hidden / mlp", fmt::format("{} / {}", c.hidden, c.intermediate));
  row("heads", heads_text(c));
  if (c.moe.experts > 0) row("experts", experts_text(c));
  row("extras", extras_text(c));
  row("rope", rope_text(c.rope));
  row("context", fmt::format("{} tokens", format_count(static_cast<uint64_t>(c.context))));
  row("vocabulary",
      fmt::format("{}, output head {}", format_count(static_cast<uint64_t>(c.vocabulary)),
                  facts.tied ? "tied to the embedding" : "of its own"));
}

void print_files(const model::CheckpointSummary& facts) {
  row("format", std::string(model::to_string(facts.format)));
  row("files", fmt::format("{} ({})", facts.files.size(), format_bytes(facts.file_bytes)));
  row("tensors", fmt::format("{} ({})", facts.tensors, format_bytes(facts.tensor_bytes)));
  for (const auto& share : facts.types) {
    row("  " + share.type, fmt::format("{} ({})", share.tensors, format_bytes(share.bytes)));
  }
}

void print_memory(const model::Checkpoint& checkpoint) {
  const model::ModelConfig& config = checkpoint.config();
  const auto weights = model::weight_facts(checkpoint, std::nullopt);
  row("weights here",
      weights.ok() ? fmt::format("{} as stored ({})", format_bytes(weights->bytes), weights->format)
                   : "cannot be loaded: " + weights.error().message);
  const auto token = [&](kv::PageFormat format) {
    return format_bytes(
        model::cache_layout(config, kv::PageLayout{}.page_tokens, format).token_bytes());
  };
  row("cache per token", fmt::format("{} in BF16, {} in FP8", token(kv::PageFormat::kBf16),
                                     token(kv::PageFormat::kFp8E4m3)));
}

void print_tensors(const model::Checkpoint& checkpoint) {
  std::cout << '\n';
  for (const model::TensorInfo& tensor : checkpoint.tensors()) {
    std::cout << fmt::format("{:<22}{:<22}{:>11}  {}\n", model::type_text(tensor),
                             model::shape_text(tensor.shape), format_bytes(tensor.bytes),
                             tensor.name);
  }
}

}  // namespace

int run_inspect(const InspectOptions& options) {
  const auto checkpoint = model::Checkpoint::open(options.path);
  if (!checkpoint.ok()) {
    std::cerr << "error: " << checkpoint.error().message << '\n';
    return 1;
  }
  const model::CheckpointSummary facts = checkpoint->describe();
  row("name", facts.name);
  print_files(facts);
  print_model(facts);
  row("tokenizer", facts.tokenizer);
  row("chat template", facts.chat_template ? "yes" : "no");
  row("end of text ids", eos_text(facts.generation));
  print_memory(*checkpoint);
  if (options.tensors) print_tensors(*checkpoint);
  return 0;
}

}  // namespace bulkhead::apps
