// GET /v1/models: the served model in the union of the fields that clients read.
#include "api/request/generation_plan.h"
#include "api/server_facts.h"
#include "base/json_writer.h"

namespace bulkhead::api {
namespace {

void write_model(base::JsonWriter& json, const ModelCard& model,
                 const wire::GenerateLimits& limits) {
  json.begin_object();
  json.key("id").value(model.id);
  json.key("object").value("model");
  json.key("created").value(model.created);
  json.key("owned_by").value("bulkhead");
  json.key("root").value(model.root);
  json.key("parent").null();
  json.key("max_model_len").value(context_limit(limits));
  json.key("permission").begin_array().end_array();
  json.key("meta").begin_object();
  json.key("n_params").value(model.parameters);
  json.key("n_vocab").value(limits.vocabulary_size);
  json.key("n_ctx_train").value(model.context_trained);
  json.key("size").value(model.bytes);
  json.end_object();
  json.key("sampling_defaults").begin_object();
  json.key("temperature").value(model.defaults.temperature);
  json.key("top_p").value(model.defaults.top_p);
  json.key("top_k").value(model.defaults.top_k);
  json.key("min_p").value(model.defaults.min_p);
  json.key("repetition_penalty").value(model.defaults.repetition_penalty);
  json.end_object();
  json.end_object();
}

}  // namespace

http::Response models_response(const ModelCard& model, const wire::GenerateLimits& limits) {
  base::JsonWriter json;
  json.begin_object().key("object").value("list").key("data").begin_array();
  write_model(json, model, limits);
  json.end_array().end_object();
  http::Response response;
  response.body = std::move(json).take();
  return response;
}

http::Response model_response(const ModelCard& model, const wire::GenerateLimits& limits) {
  base::JsonWriter json;
  write_model(json, model, limits);
  http::Response response;
  response.body = std::move(json).take();
  return response;
}

}  // namespace bulkhead::api
