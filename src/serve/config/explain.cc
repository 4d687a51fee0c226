#include "serve/config/explain.h"

#include <fmt/format.h>

#include <utility>

#include "base/json_writer.h"
#include "device/cpu.h"
#include "serve/config/effect.h"

namespace bulkhead::serve {
namespace {

struct DerivedValue {
  std::string value;
  std::string why;
};

DerivedValue cache_size(const PoolPlan& pool) {
  return {size_text(pool.cache_bytes),
          fmt::format("{}; {} pages, {} tokens", pool.cache_reason, pool.pages, pool.cache_tokens)};
}

DerivedValue weights(const PoolPlan& pool) {
  // What several formats amount to is no recipe.
  const bool recipe = model::parse_recipe(pool.weight_format).ok();
  return {recipe ? pool.weight_format : "auto", pool.weights_text};
}

DerivedValue activations(const PoolPlan& pool) {
  return {std::string(model::to_string(pool.activations)), "as activations says"};
}

DerivedValue format(const PoolPlan& pool) {
  return {std::string(kv::to_string(pool.layout.format)), "as kv_cache_dtype says"};
}

const PoolOptions* own_pool(const ServeOptions& options) {
  switch (options.roles.role) {
    case Role::kPrefill:
      return &options.model.prefill;
    case Role::kDecode:
      return &options.model.decode;
    default:
      return nullptr;
  }
}

DerivedValue integrity(const PoolPlan& pool) {
  return {std::string(to_string(pool.integrity)), "as kv_integrity says"};
}

// Of an option that was left open; nothing where the plan does not decide it.
std::optional<DerivedValue> derived_value(const OptionSpec& spec, const ServeOptions& options,
                                          const Derived& derived) {
  if (spec.name == "served_model_name" && !derived.model_name.empty()) {
    return DerivedValue{derived.model_name, spec.unset};
  }
  if (!derived.plan) return std::nullopt;
  const Plan& plan = *derived.plan;
  const bool split = plan.prefill.has_value();
  if (spec.name == "isa") {
    return DerivedValue{std::string(device::to_string(plan.isa)), plan.isa_reason};
  }
  if (spec.name == "threads") return DerivedValue{std::to_string(plan.threads), spec.unset};
  if (spec.name == "context_length") {
    return DerivedValue{std::to_string(plan.context_tokens), plan.context_reason};
  }
  // A worker's pool may have what both pools have, or something of its own.
  const PoolOptions* own = own_pool(options);
  if (spec.name == "weights" && !split && !(own && own->weights)) return weights(plan);
  if (spec.name == "prefill.weights" && split) return weights(*plan.prefill);
  if (spec.name == "decode.weights" && split) return weights(plan);
  if (spec.name == "prefill.activations" && split) return activations(*plan.prefill);
  if (spec.name == "decode.activations" && split) return activations(plan);
  if (spec.name == "prefill.kv" && split) return format(*plan.prefill);
  if (spec.name == "decode.kv" && split) return format(plan);
  if (spec.name == "kv_cache_memory" && !split && !(own && own->kv_cache_bytes > 0)) {
    return cache_size(plan);
  }
  if (spec.name == "prefill.kv_cache_memory" && split) return cache_size(*plan.prefill);
  if (spec.name == "decode.kv_cache_memory" && split) return cache_size(plan);
  if (spec.name == "prefill.kv_integrity" && split) return integrity(*plan.prefill);
  if (spec.name == "decode.kv_integrity" && split) return integrity(plan);
  return std::nullopt;
}

Explanation explain_one(const OptionSpec& spec, const Settings& settings, const Derived& derived) {
  Explanation out;
  out.spec = &spec;
  out.value = spec.show(settings.options);
  const auto given = settings.given.find(spec.name);
  const bool is_given = given != settings.given.end();
  out.source = is_given ? to_string(given->second.source) : "default";
  if (is_given) out.where = given->second.where;
  if (auto idle = without_effect(spec.name, settings.options)) {
    out.why = *std::move(idle);
  } else if (out.value.empty()) {
    // Nobody said anything, or "auto".
    out.why = spec.unset;
    if (auto value = derived_value(spec, settings.options, derived)) {
      if (!is_given) out.source = "derived";
      out.value = std::move(value->value);
      out.why = std::move(value->why);
    }
  }
  return out;
}

bool is_bare(OptionType type) {
  return type == OptionType::kInteger || type == OptionType::kSwitch;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  base::append_json_escaped(out, text);
  return out + "\"";
}

// One line of a deployment file; a comment where there is nothing to give.
std::string assignment(const Explanation& one) {
  const OptionSpec& spec = *one.spec;
  if (one.value.empty()) return "# " + spec.name;
  if (spec.secret) return "# " + spec.name + " (not shown)";
  return spec.name + " = " + (is_bare(spec.type) ? one.value : quoted(one.value));
}

// Names of files and what others said may have line breaks; a comment may not.
std::string comment(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return "# " + text;
}

std::string origin(const Explanation& one) {
  std::string text = one.source;
  if (!one.where.empty()) text += " " + one.where;
  if (!one.why.empty()) text += ": " + one.why;
  return comment(std::move(text));
}

}  // namespace

std::vector<Explanation> explain(const Settings& settings, const Derived& derived) {
  std::vector<Explanation> all;
  all.reserve(option_table().size());
  for (const OptionSpec& spec : option_table()) {
    all.push_back(explain_one(spec, settings, derived));
  }
  return all;
}

std::string explanation_text(const std::vector<Explanation>& all, const Derived& derived) {
  std::string out =
      "# Every option, its value, and where that comes from; a deployment file itself.\n";
  if (!derived.problem.empty()) {
    out += comment("What model and machine decide is left out: " + derived.problem) + "\n";
  }
  for (const Explanation& one : all) {
    const std::string bounds = one.spec->bounds.empty() ? "" : " (" + one.spec->bounds + ")";
    out += fmt::format("\n# {}{}\n", one.spec->meaning, bounds);
    out += fmt::format("{:<40} {}\n", assignment(one), origin(one));
  }
  return out;
}

std::string explanation_json(const std::vector<Explanation>& all, const Derived& derived) {
  base::JsonWriter json;
  json.begin_object();
  json.key("problem");
  derived.problem.empty() ? json.null() : json.value(derived.problem);
  json.key("options").begin_array();
  for (const Explanation& one : all) {
    const auto text = [&json](const char* key, const std::string& value) {
      json.key(key);
      value.empty() ? json.null() : json.value(value);
    };
    json.begin_object();
    json.key("name").value(one.spec->name);
    json.key("value");
    if (one.value.empty() || one.spec->secret) {
      json.null();
    } else {
      is_bare(one.spec->type) ? json.raw(one.value) : json.value(one.value);
    }
    json.key("set").value(!one.value.empty());
    text("source", one.source);
    text("where", one.where);
    text("why", one.why);
    text("flag", one.spec->flag);
    text("bounds", one.spec->bounds);
    text("meaning", one.spec->meaning);
    json.end_object();
  }
  json.end_array().end_object();
  return std::move(json).take() + "\n";
}

}  // namespace bulkhead::serve
