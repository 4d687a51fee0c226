// The plan for programs: every figure in bytes, tokens and units of money, unrounded.
#include "base/json_writer.h"
#include "serve/capacity/capacity_plan.h"

namespace bulkhead::serve {
namespace {

void write_shares(const model::WeightSizes& sizes, base::JsonWriter& json) {
  json.begin_array();
  for (const model::WeightShare& share : sizes.shares) {
    json.begin_object();
    json.key("name").value(share.name);
    json.key("parameters").value(share.elements);
    json.key("bytes").value(share.total());
    json.key("bytes_whole_on_every_rank").value(share.replicated);
    json.end_object();
  }
  json.end_array();
}

void write_weights(const WeightPlan& weights, base::JsonWriter& json) {
  json.begin_object();
  json.key("recipe").value(weights.recipe.text());
  json.key("checkpoint_bytes").value(weights.checkpoint_bytes);
  json.key("checkpoint_bytes_source").value(weights.from_files ? "read" : "derived");
  json.key("memory_bytes").value(weights.packed.bytes());
  json.key("checkpoint");
  write_shares(weights.stored, json);
  json.key("memory");
  write_shares(weights.packed, json);
  json.end_object();
}

void write_known(std::string_view key, double value, base::JsonWriter& json) {
  json.key(key);
  if (value > 0) {
    json.value(value);
  } else {
    json.null();
  }
}

void write_pool(const PoolCapacity& pool, base::JsonWriter& json) {
  json.key(pool.name).begin_object();
  json.key("weights");
  write_weights(pool.weights, json);
  json.key("checkpoint_bytes_per_rank").value(pool.checkpoint_on_rank);
  json.key("memory_bytes_per_rank").value(pool.weights_on_rank);
  json.key("kv").value(kv::to_string(pool.layout.format));
  json.key("kv_sharing").value(pool.sharing);
  json.key("kv_bytes_per_token_and_rank").value(token_bytes(pool.layout));
  json.key("kv_bytes_per_rank").value(pool.room.bytes);
  json.key("pages").value(pool.room.pages);
  json.key("tokens").value(pool.room.tokens);
  json.key("requests").value(pool.requests);
  json.key("transfer_bytes_per_request").value(pool.transfer_bytes);
  write_known("tokens_per_second", pool.tokens_per_second, json);
  write_known("cost_per_million_tokens", pool.cost, json);
  json.key("fits").value(pool.problem.empty());
  if (!pool.problem.empty()) json.key("problem").value(pool.problem);
  json.end_object();
}

}  // namespace

std::string capacity_json(const CapacityPlan& plan) {
  base::JsonWriter json;
  json.begin_object();
  json.key("model").begin_object();
  json.key("name").value(plan.model.name);
  json.key("family").value(plan.model.config.family);
  json.key("parameters").value(plan.decode.weights.stored.elements());
  json.key("stored").value(plan.model.stored.text());
  json.key("stored_reason").value(plan.model.stored_reason);
  json.end_object();
  const CapacityOptions& options = plan.options;
  json.key("options").begin_object();
  json.key("memory_bytes").value(options.memory_bytes);
  json.key("memory_bytes_source").value(options.machines_memory ? "machine" : "given");
  json.key("memory_fraction").value(options.memory_share);
  json.key("ranks").value(options.ranks);
  json.key("page_tokens").value(options.page_tokens);
  json.key("context_tokens").value(options.context_tokens);
  json.key("context_tokens_source").value(plan.models_context ? "model" : "given");
  json.key("output_tokens").value(options.output_tokens);
  write_known("price_per_rank_hour", options.price, json);
  json.end_object();
  write_pool(plan.prefill, json);
  write_pool(plan.decode, json);
  if (plan.against) write_pool(*plan.against, json);
  json.end_object();
  return std::move(json).take();
}

}  // namespace bulkhead::serve
