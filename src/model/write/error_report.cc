#include "model/write/error_report.h"

#include <algorithm>

#include "base/json_writer.h"

namespace bulkhead::model::write {
namespace {

bool is_quantised_anew(const TensorJob& job) {
  return job.action == Action::kFp8 || job.action == Action::kInt4;
}

void write_error(base::JsonWriter& json, const TensorError& error) {
  json.key("relative_rms").value(error.relative_rms());
  json.key("max_error").value(error.largest);
  json.key("gain_over_amax").value(error.gain());
}

void write_kinds(base::JsonWriter& json, const WritePlan& plan,
                 const std::vector<TensorError>& errors) {
  json.key("kinds").begin_array();
  for (const KindSummary& kind : summarise(plan, errors)) {
    json.begin_object();
    json.key("kind").value(kind.kind);
    json.key("action").value(to_string(kind.action));
    json.key("tensors").value(static_cast<uint64_t>(kind.tensors));
    json.key("elements").value(kind.elements);
    json.key("source_bytes").value(kind.source_bytes);
    json.key("bytes").value(kind.bytes);
    if (kind.error.squares > 0.0) write_error(json, kind.error);
    json.end_object();
  }
  json.end_array();
}

void write_tensor(base::JsonWriter& json, const TensorJob& job, const TensorError& error) {
  json.begin_object();
  json.key("name").value(job.name);
  json.key("kind").value(job.kind);
  json.key("shape").begin_array();
  for (const uint64_t size : job.source->shape) json.value(size);
  json.end_array();
  json.key("source").value(type_text(*job.source));
  json.key("action").value(to_string(job.action));
  if (is_quantised_anew(job)) write_error(json, error);
  json.end_object();
}

}  // namespace

std::vector<KindSummary> summarise(const WritePlan& plan, const std::vector<TensorError>& errors) {
  std::vector<KindSummary> out;
  for (size_t i = 0; i < plan.jobs.size(); ++i) {
    const TensorJob& job = plan.jobs[i];
    auto found = std::ranges::find_if(out, [&](const KindSummary& one) {
      return one.kind == job.kind && one.action == job.action;
    });
    if (found == out.end()) {
      KindSummary fresh;
      fresh.kind = job.kind;
      fresh.action = job.action;
      out.push_back(fresh);
      found = out.end() - 1;
    }
    found->tensors += 1;
    found->elements += job.source->elements;
    found->source_bytes += job.source->bytes;
    for (const StoredTensor& part : job.parts) found->bytes += part.bytes();
    if (!errors.empty()) found->error.add(errors[i]);
  }
  return out;
}

std::vector<size_t> worst_jobs(const WritePlan& plan, const std::vector<TensorError>& errors,
                               size_t count) {
  std::vector<size_t> jobs;
  for (size_t i = 0; i < plan.jobs.size(); ++i) {
    if (is_quantised_anew(plan.jobs[i])) jobs.push_back(i);
  }
  std::ranges::sort(jobs, [&](size_t a, size_t b) {
    return errors[a].relative_rms() != errors[b].relative_rms()
               ? errors[a].relative_rms() > errors[b].relative_rms()
               : a < b;
  });
  jobs.resize(std::min(count, jobs.size()));
  return jobs;
}

std::string report_json(const WritePlan& plan, const std::vector<TensorError>& errors) {
  base::JsonWriter json;
  json.begin_object();
  json.key("recipe").value(plan.options.recipe.text());
  json.key("rule").value(plan.options.rule == quant::ScaleRule::kSearch ? "search" : "amax");
  write_kinds(json, plan, errors);
  json.key("tensors").begin_array();
  for (size_t i = 0; i < plan.jobs.size(); ++i) write_tensor(json, plan.jobs[i], errors[i]);
  json.end_array().end_object();
  return std::move(json).take() + "\n";
}

}  // namespace bulkhead::model::write
