// What an operator may choose for a server, with the defaults that `bulkhead serve --help` shows.
//
// Threads: plain values. Invariant: 0 and empty mean "derive it"; serve/plan.h says what came out
// and why.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/api.h"
#include "base/log.h"
#include "chat/output/tool_format.h"
#include "kernels/gemm.h"
#include "kv/integrity/mode.h"
#include "kv/layout.h"
#include "model/weight_recipe.h"

namespace bulkhead::serve {

// Where prefill and decode live (docs/architecture.md).
enum class Placement : uint8_t {
  kShared,  // one copy of the weights, one page pool
  kSplit,   // two page pools in one process, each with its own formats
};

// What a pool has of its own in the split placement; what is left open is as ModelOptions say of
// both.
struct PoolOptions {
  std::optional<model::WeightRecipe> weights;
  std::optional<kernels::Activations> activations;
  std::optional<kv::PageFormat> cache_format;
  uint64_t kv_cache_bytes = 0;  // 0: see plan.cc
  std::optional<kv::integrity::Mode> integrity;
};

// What this process is in its deployment.
enum class Role : uint8_t {
  kAll,      // the whole server
  kGateway,  // HTTP, text and router; no weights
  kPrefill,
  kDecode,
};

// Of a deployment of several processes.
struct RoleOptions {
  Role role = Role::kAll;
  std::string listen = "127.0.0.1:0";        // where a worker is reached
  std::string http_listen;                   // where it answers over HTTP; empty: nowhere
  std::vector<std::string> prefill_workers;  // addresses, of a gateway
  std::vector<std::string> decode_workers;
  std::string key_file;                       // the deployment's secret, one line
  std::chrono::milliseconds heartbeat{5000};  // a peer that misses two is lost
};

// How a model is loaded and run; shared by every command that runs one.
struct ModelOptions {
  std::string model_path;          // .gguf file or checkpoint directory
  std::string isa;                 // "ref", "avx2", "avx512", "amx"; empty: the best there is
  unsigned threads = 0;            // compute threads; 0: all logical CPUs
  std::string chat_template_path;  // overrides the checkpoint's own
  int32_t context_tokens = 0;      // 0: the model's, or what the cache holds if that is less
  int32_t page_tokens = 64;
  uint64_t kv_cache_bytes = 0;  // of the shared placement; 0: see plan.cc
  // Formats in memory: of the weights (nothing: as the checkpoint stores them), of the cache.
  std::optional<model::WeightRecipe> weights;
  kernels::Activations activations = kernels::Activations::kFp32;  // what INT4 weights meet
  kv::PageFormat cache_format = kv::PageFormat::kBf16;
  Placement placement = Placement::kShared;
  PoolOptions prefill;  // of the split placement
  PoolOptions decode;
  uint32_t running_max = 64;  // sequences decoding at once
  uint32_t queued_max = 256;  // requests waiting; beyond: 429
  int32_t prefill_chunk_tokens = 512;
  bool prefix_cache = true;  // prompts that begin alike share their pages
  kv::integrity::Mode integrity = kv::integrity::Mode::kOff;
  int32_t scrub_pages = 16;    // sealed pages looked at again in each idle round; 0: none
  bool inject_faults = false;  // a server under test, whose pages may be damaged on demand
};

struct ServeOptions {
  ModelOptions model;
  RoleOptions roles;
  std::string host = "127.0.0.1";
  uint16_t port = 30000;
  std::string port_file;              // the bound port is written here once the server is ready
  std::string served_model_name;      // empty: from the checkpoint
  std::vector<std::string> api_keys;  // empty: none
  std::string api_key_file;           // more of them, one a line; read again after SIGHUP
  std::string admin_key;              // empty: none
  bool higher_priority_first = false;
  // How the model writes tool calls and reasoning; nothing: as its checkpoint says.
  std::optional<chat::ToolFormat> tool_format;
  std::optional<chat::ReasoningFormat> reasoning_format;
  api::ReasoningField reasoning_field = api::ReasoningField::kReasoningContent;
  std::chrono::seconds request_timeout{0};  // 0: none
  std::chrono::seconds drain_timeout{30};
  base::LogLevel log_level = base::LogLevel::kInfo;
  base::LogFormat log_format = base::LogFormat::kText;
  bool dry_run = false;  // print the plan and stop before loading weights
};

}  // namespace bulkhead::serve
