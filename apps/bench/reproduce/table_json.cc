#include "apps/bench/reproduce/table_json.h"

#include "base/json_writer.h"

namespace bulkhead::apps::reproduce {
namespace {

void write_facts(const RunFacts& facts, base::JsonWriter& json) {
  json.key("machine").begin_object();
  json.key("processor").value(facts.machine).key("isa").value(facts.isa);
  json.key("kind").value(facts.kind).key("threads").value(facts.threads);
  json.key("operations_per_s").value(facts.operations).key("bytes_per_s").value(facts.bytes);
  json.end_object();
  json.key("rounds").value(facts.rounds).key("context_tokens").value(facts.context);
}

void write_row(const Row& row, base::JsonWriter& json) {
  json.begin_object();
  json.key("published").value(row.published).key("measured").value(row.measured);
  json.key("result").value(row.result).key("needed").value(row.needed);
  json.key("verdict").value(to_string(row.verdict)).key("note").value(row.note);
  json.end_object();
}

void write_curve(const Curve& curve, base::JsonWriter& json) {
  json.begin_object();
  json.key("figure").value(curve.figure).key("chart").value(curve.chart);
  json.key("name").value(curve.name).key("points").begin_array();
  for (const Point& point : curve.points) {
    json.begin_object().key("requests").value(point.requests);
    json.key("tokens_per_s").value(point.rate.median).key("p10").value(point.rate.p10);
    json.key("p90").value(point.rate.p90).end_object();
  }
  json.end_array().end_object();
}

}  // namespace

std::string table_json(const RunFacts& facts, const Table& table) {
  base::JsonWriter json;
  json.begin_object();
  write_facts(facts, json);
  json.key("rows").begin_array();
  for (const Row& row : table.rows()) write_row(row, json);
  json.end_array().key("curves").begin_array();
  for (const Curve& curve : table.curves()) write_curve(curve, json);
  json.end_array().end_object();
  return std::move(json).take();
}

}  // namespace bulkhead::apps::reproduce
