#include "api/server_facts.h"

#include "api/request/generation_plan.h"
#include "base/json_writer.h"

namespace bulkhead::api {
namespace {

http::Response json_response(base::JsonWriter json) {
  http::Response response;
  response.body = std::move(json).take();
  return response;
}

// Members of an open object.
void write_pages(base::JsonWriter& json, const wire::PageGauges& pages, int32_t page_tokens,
                 int32_t cache_tokens) {
  const int32_t used = pages.used();
  json.key("num_used_tokens").value(int64_t{used} * page_tokens);
  json.key("max_total_num_tokens").value(cache_tokens);
  json.key("token_usage").value(pages.total > 0 ? static_cast<double>(used) / pages.total : 0.0);
  json.key("pages_free").value(pages.free);
  json.key("pages_cached").value(pages.cached);
}

void write_load(base::JsonWriter& json, const FactSources& from) {
  const wire::GeneratorStatus& status = from.status;
  json.key("num_running_reqs").value(status.running);
  json.key("num_waiting_reqs").value(status.waiting);
  write_pages(json, status.pages, from.options.engine.page_tokens, from.limits.cache_tokens);
  json.key("draining").value(status.draining);
}

void write_pools(base::JsonWriter& json, const FactSources& from) {
  const EngineFacts& engine = from.options.engine;
  const auto pool = [&](const char* name, const PoolFacts& facts, const wire::PageGauges& pages,
                        int32_t cache_tokens) {
    json.key(name).begin_object();
    json.key("weights").value(facts.weights);
    json.key("kv_cache_dtype").value(facts.cache_dtype);
    write_pages(json, pages, engine.page_tokens, cache_tokens);
    json.end_object();
  };
  json.key("placement").value(engine.remote ? "remote" : engine.prefill ? "split" : "shared");
  if (!engine.prefill) return;
  json.key("pools").begin_object();
  pool("prefill", *engine.prefill, from.status.prefill_pages.value_or(wire::PageGauges{}),
       from.limits.prefill_cache_tokens);
  pool("decode", engine.decode, from.status.pages, from.limits.cache_tokens);
  json.end_object();
}

}  // namespace

Health health_of(const wire::GeneratorStatus& status, base::Nanoseconds now,
                 std::chrono::seconds stall_after) {
  const bool outstanding = status.running > 0 || status.waiting > 0;
  if (outstanding && now - status.last_progress > stall_after) return Health::kStalled;
  return status.draining ? Health::kDraining : Health::kOk;
}

http::Response health_response(Health health) {
  base::JsonWriter json;
  json.begin_object();
  switch (health) {
    case Health::kOk:
      json.key("status").value("ok");
      break;
    case Health::kDraining:
      json.key("status").value("draining");
      json.key("message").value("the server is shutting down");
      break;
    case Health::kStalled:
      json.key("status").value("stalled");
      json.key("message").value("requests are waiting and no step has completed lately");
      break;
  }
  json.end_object();
  http::Response response;
  response.status = health == Health::kOk ? 200 : 503;
  if (health == Health::kDraining) response.headers.push_back({"Retry-After", "1"});
  response.body = std::move(json).take();
  return response;
}

http::Response version_response(const std::string& version) {
  base::JsonWriter json;
  json.begin_object().key("version").value(version).end_object();
  return json_response(std::move(json));
}

http::Response startup_response(const StartupState& state) {
  base::JsonWriter json;
  json.begin_object();
  json.key("phase").value(state.phase);
  json.key("done_bytes").value(state.done_bytes);
  json.key("total_bytes").value(state.total_bytes);
  json.key("eta_s").value(state.eta_seconds);
  json.end_object();
  http::Response response = json_response(std::move(json));
  if (state.phase != "ready") {
    response.status = 503;
    response.headers.push_back({"Retry-After", "1"});
  }
  return response;
}

http::Response server_info_response(const FactSources& from) {
  const EngineFacts& engine = from.options.engine;
  base::JsonWriter json;
  json.begin_object();
  json.key("version").value(from.options.version);
  json.key("model_path").value(from.model.root);
  json.key("tokenizer_path").value(from.model.root);
  json.key("served_model_name").value(from.model.id);
  json.key("context_length").value(context_limit(from.limits));
  json.key("max_total_num_tokens").value(from.limits.cache_tokens);
  json.key("max_running_requests").value(from.limits.running_max);
  json.key("max_queued_requests").value(from.limits.queued_max);
  json.key("page_size").value(engine.page_tokens);
  json.key("chunked_prefill_size").value(engine.prefill_chunk_tokens);
  json.key("kv_cache_dtype").value(engine.decode.cache_dtype);
  const auto format = [&](const char* key, std::string_view name) {
    json.key(key);
    name == "none" ? json.null() : json.value(name);
  };
  format("tool_call_parser", chat::to_string(from.model.tool_format));
  format("reasoning_parser", chat::to_string(from.model.reasoning_format));
  json.key("isa").value(engine.isa);
  json.key("threads").value(engine.threads);
  json.key("load_weights_seconds").value(engine.load_seconds);
  json.key("startup_seconds").value(engine.ready_seconds);
  json.key("uptime_seconds").value(from.uptime_seconds);
  write_pools(json, from);
  // One entry for each data-parallel copy of the model: there is one.
  json.key("internal_states").begin_array().begin_object();
  json.key("avg_spec_accept_length").null();
  write_load(json, from);
  json.end_object().end_array();
  json.end_object();
  return json_response(std::move(json));
}

http::Response model_info_response(const FactSources& from) {
  base::JsonWriter json;
  json.begin_object();
  json.key("model_path").value(from.model.root);
  json.key("tokenizer_path").value(from.model.root);
  json.key("is_generation").value(true);
  json.key("preferred_sampling_params").null();
  json.key("served_model_name").value(from.model.id);
  json.key("max_model_len").value(context_limit(from.limits));
  json.key("vocab_size").value(from.limits.vocabulary_size);
  json.key("has_image_understanding").value(false);
  json.key("has_audio_understanding").value(false);
  json.end_object();
  return json_response(std::move(json));
}

http::Response loads_response(const FactSources& from, int64_t unix_seconds) {
  base::JsonWriter json;
  json.begin_object();
  json.key("timestamp").value(unix_seconds);
  json.key("version").value(from.options.version);
  json.key("dp_rank_count").value(1);
  json.key("loads").begin_array().begin_object();
  json.key("dp_rank").value(0);
  write_load(json, from);
  json.end_object().end_array();
  json.end_object();
  return json_response(std::move(json));
}

http::Response load_response(const wire::GeneratorStatus& status) {
  base::JsonWriter json;
  json.begin_object();
  json.key("server_load").value(uint64_t{status.running} + status.waiting);
  json.end_object();
  return json_response(std::move(json));
}

}  // namespace bulkhead::api
