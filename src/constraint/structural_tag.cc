#include "constraint/structural_tag.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <utility>
#include <vector>

#include "constraint/schema/grammar_schema.h"
#include "constraint/schema/json.h"

namespace bulkhead::constraint {
namespace {

namespace json = boost::json;

constexpr std::string_view kAnyObject = R"({"type":"object"})";

const char* style_name(wire::ArgumentStyle style) {
  switch (style) {
    case wire::ArgumentStyle::kJson:
      return "json";
    case wire::ArgumentStyle::kGlmXml:
      return "glm_xml";
    case wire::ArgumentStyle::kQwenXml:
      return "qwen_xml";
    case wire::ArgumentStyle::kDeepSeek:
      return "deepseek_xml";
  }
  return "json";
}

json::value const_string(std::string_view text) {
  return json::value{{"type", "const_string"}, {"value", json_view(text)}};
}

json::value sequence(json::array elements) {
  if (elements.size() == 1) return std::move(elements[0]);
  return json::value{{"type", "sequence"}, {"elements", std::move(elements)}};
}

class Builder {
 public:
  explicit Builder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
    for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
      if (vocabulary.control[id] && !vocabulary.tokens[id].empty()) control_.push_back(id);
    }
  }

  base::Result<json::value> schema(std::string_view text, const char* style,
                                   const std::string& field) const {
    base::Result<json::value> rewritten = schema_for_grammar(text);
    if (!rewritten.ok()) {
      base::Error error = std::move(rewritten).error();
      if (!error.field.empty())
        error.message = fmt::format("at {}: {}", error.field, error.message);
      error.field = field;
      return error;
    }
    return json::value{{"type", "json_schema"},
                       {"json_schema", std::move(rewritten).value()},
                       {"style", style},
                       {"max_whitespace_cnt", kWhitespaceMax}};
  }

  base::Result<json::value> tool_calls(const wire::ToolCallsGrammar& grammar) const {
    BH_TRY(check(grammar));
    json::array alternatives;
    for (size_t i = 0; i < grammar.tools.size(); ++i) {
      BH_ASSIGN(json::value tool, call(grammar.tools[i], fmt::format("tools[{}]", i)));
      alternatives.push_back(std::move(tool));
    }
    json::value one = alternatives.size() == 1
                          ? std::move(alternatives[0])
                          : json::value{{"type", "or"}, {"elements", std::move(alternatives)}};
    json::array parts;
    // What the state waits for by itself is no part of the grammar behind it.
    if (!grammar.text_before) append(grammar.section_begin, parts);
    if (grammar.parallel) {
      json::array more;
      append(grammar.separator, more);
      more.push_back(one);
      parts.push_back(std::move(one));
      parts.push_back(json::value{{"type", "star"}, {"content", sequence(std::move(more))}});
    } else {
      parts.push_back(std::move(one));
    }
    append(grammar.section_end, parts);
    return sequence(std::move(parts));
  }

 private:
  static base::Status check(const wire::ToolCallsGrammar& grammar) {
    if (grammar.tools.empty() || grammar.tools.size() > kToolsMax) {
      return base::invalid_argument(
          "tools", fmt::format("there must be 1 to {} tools, but there are {}", kToolsMax,
                               grammar.tools.size()));
    }
    if (grammar.text_before && grammar.section_begin.empty()) {
      return base::invalid_argument("tools", "text before the calls needs a text that ends it");
    }
    if (!grammar.required && !grammar.text_before) {
      return base::invalid_argument("tools", "calls that may be left out need text before them");
    }
    return {};
  }

  base::Result<json::value> call(const wire::ToolGrammar& tool, const std::string& field) const {
    if (tool.begin.size() + tool.end.size() + tool.after_number.size() > kLiteralBytesMax) {
      return base::invalid_argument(field, "the text around the call is too long");
    }
    json::array parts;
    append(tool.begin, parts);
    if (!tool.after_number.empty()) {
      parts.push_back(json::value{{"type", "regex"}, {"pattern", "[0-9]{1,6}"}});
      append(tool.after_number, parts);
    }
    const std::string_view text = tool.schema.empty() ? kAnyObject : std::string_view(tool.schema);
    BH_ASSIGN(json::value arguments, schema(text, style_name(tool.style), field));
    parts.push_back(std::move(arguments));
    append(tool.end, parts);
    return sequence(std::move(parts));
  }

  // `text` as constants and control tokens.
  void append(std::string_view text, json::array& parts) const {
    while (!text.empty()) {
      const auto [at, id] = next_control(text);
      if (at > 0) parts.push_back(const_string(text.substr(0, at)));
      if (at >= text.size()) return;
      parts.push_back(json::value{{"type", "token"}, {"token", static_cast<int64_t>(id)}});
      text.remove_prefix(at + vocabulary_.tokens[id].size());
    }
  }

  // Where the first control token of `text` begins, of several there the longest.
  std::pair<size_t, size_t> next_control(std::string_view text) const {
    size_t best = text.size();
    size_t best_id = 0;
    size_t best_length = 0;
    for (const size_t id : control_) {
      const std::string& spelling = vocabulary_.tokens[id];
      const size_t at = text.find(spelling);
      if (at == std::string_view::npos) continue;
      if (at < best || (at == best && spelling.size() > best_length)) {
        best = at;
        best_id = id;
        best_length = spelling.size();
      }
    }
    return {best, best_id};
  }

  const Vocabulary& vocabulary_;
  std::vector<size_t> control_;
};

void put(std::string& key, std::string_view text) {
  key += fmt::format("{}:", text.size());
  key += text;
}

}  // namespace

base::Result<std::string> structural_tag(const wire::ConstraintSpec& spec,
                                         const Vocabulary& vocabulary) {
  const Builder builder(vocabulary);
  json::array answers;
  if (spec.json_object) {
    BH_ASSIGN(json::value any, builder.schema(kAnyObject, "json", "schema"));
    answers.push_back(std::move(any));
  }
  if (spec.json_schema) {
    BH_ASSIGN(json::value value, builder.schema(*spec.json_schema, "json", "schema"));
    answers.push_back(std::move(value));
  }
  if (spec.tool_calls) {
    if (spec.tool_calls->text_before && !answers.empty()) {
      return base::invalid_argument("tools", "either text or JSON may come instead of a call");
    }
    BH_ASSIGN(json::value calls, builder.tool_calls(*spec.tool_calls));
    answers.push_back(std::move(calls));
  }
  if (answers.empty()) return base::invalid_argument({}, "the specification asks for nothing");
  json::value answer = answers.size() == 1
                           ? std::move(answers[0])
                           : json::value{{"type", "or"}, {"elements", std::move(answers)}};
  if (!spec.free_until.empty()) {
    // Models put a line break or two behind their reasoning.
    json::array parts = {json::value{{"type", "regex"}, {"pattern", "[ \\n]{0,2}"}}};
    parts.push_back(std::move(answer));
    answer = sequence(std::move(parts));
  }
  return json::serialize(json::value{{"type", "structural_tag"}, {"format", std::move(answer)}});
}

std::string spec_key(const wire::ConstraintSpec& spec) {
  std::string key(spec.scope.begin(), spec.scope.end());
  key += spec.json_object ? "o" : "-";
  put(key, spec.json_schema ? "s" + *spec.json_schema : "");
  put(key, spec.free_until);
  if (!spec.tool_calls) return key;
  const wire::ToolCallsGrammar& calls = *spec.tool_calls;
  key += fmt::format("t{}{}{}", calls.required, calls.parallel, calls.text_before);
  for (const std::string* text : {&calls.section_begin, &calls.separator, &calls.section_end}) {
    put(key, *text);
  }
  for (const wire::ToolGrammar& tool : calls.tools) {
    key += fmt::format("c{}", static_cast<int>(tool.style));
    for (const std::string* text : {&tool.begin, &tool.after_number, &tool.schema, &tool.end}) {
      put(key, *text);
    }
  }
  return key;
}

}  // namespace bulkhead::constraint
