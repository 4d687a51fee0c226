// Renders chat templates for the differential test: one JSON request per input line, one JSON
// answer per output line.
//
// Request: {"template": text, "messages": ..., "tools": ..., "extra": {...},
//           "add_generation_prompt": bool, "bos_token": text, "eos_token": text, "now": seconds}
// Answer:  {"segments": [[trusted, text], ...]} or {"error": message, "code": name}
#include <boost/json.hpp>
#include <iostream>
#include <map>
#include <string>

#include "base/result.h"
#include "chat/template.h"

namespace {

namespace json = boost::json;
using bulkhead::base::Error;
using bulkhead::base::Result;
using bulkhead::chat::ChatTemplate;
using bulkhead::chat::Prompt;
using bulkhead::chat::RenderInput;

std::string answer_error(const Error& error) {
  return json::serialize(json::object{
      {"error", error.message}, {"code", std::string(bulkhead::base::to_string(error.code))}});
}

std::string text_of(const json::object& request, std::string_view name) {
  const json::value* value = request.if_contains(name);
  return value == nullptr ? std::string() : std::string(value->as_string());
}

RenderInput input_of(const json::object& request) {
  RenderInput input;
  input.messages = request.at("messages");
  if (const json::value* tools = request.if_contains("tools")) input.tools = *tools;
  if (const json::value* extra = request.if_contains("extra")) input.extra = extra->as_object();
  input.add_generation_prompt = request.at("add_generation_prompt").as_bool();
  input.bos_token = text_of(request, "bos_token");
  input.eos_token = text_of(request, "eos_token");
  if (const json::value* now = request.if_contains("now")) input.now_unix_seconds = now->as_int64();
  return input;
}

std::string answer(const json::object& request,
                   std::map<std::string, Result<ChatTemplate>>& cache) {
  const std::string source = text_of(request, "template");
  auto found = cache.find(source);
  if (found == cache.end()) found = cache.emplace(source, ChatTemplate::compile(source)).first;
  if (!found->second.ok()) return answer_error(found->second.error());
  const Result<Prompt> prompt = found->second->render(input_of(request));
  if (!prompt.ok()) return answer_error(prompt.error());
  json::array segments;
  for (const auto& segment : prompt->segments) {
    segments.push_back(json::array{segment.trusted, segment.text});
  }
  return json::serialize(json::object{{"segments", std::move(segments)}});
}

}  // namespace

int main() {
  std::map<std::string, Result<ChatTemplate>> cache;
  json::parse_options options;
  options.max_depth = 300;
  std::string line;
  while (std::getline(std::cin, line)) {
    const json::value request = json::parse(line, {}, options);
    std::cout << answer(request.as_object(), cache) << "\n" << std::flush;
  }
  return 0;
}
