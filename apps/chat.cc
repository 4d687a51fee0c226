#include <fmt/format.h>

#include <boost/json.hpp>
#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "apps/server_address.h"
#include "base/json_writer.h"
#include "commands.h"
#include "http/client.h"
#include "http/sse.h"

namespace bulkhead::apps {
namespace {

namespace json = boost::json;

volatile std::sig_atomic_t interrupted = 0;
void note_interrupt(int) { interrupted = 1; }

struct Message {
  std::string role;
  std::string content;
};

std::string request_body(const ChatOptions& options, const std::vector<Message>& history) {
  base::JsonWriter body;
  body.begin_object();
  body.key("messages").begin_array();
  for (const Message& message : history) {
    body.begin_object();
    body.key("role").value(message.role);
    body.key("content").value(message.content);
    body.end_object();
  }
  body.end_array();
  body.key("stream").value(true);
  body.key("stream_options").begin_object().key("include_usage").value(true).end_object();
  if (options.temperature >= 0) body.key("temperature").value(options.temperature);
  if (options.max_tokens > 0) body.key("max_completion_tokens").value(options.max_tokens);
  body.end_object();
  return std::move(body).take();
}

// What the server's events add up to.
struct Answer {
  std::string content;
  std::string error;
  std::string finish_reason;
  int64_t completion_tokens = 0;
};

std::string error_text(const json::value& body) {
  const json::value* message = nullptr;
  if (body.is_object() && body.as_object().contains("error")) {
    const json::value& error = body.as_object().at("error");
    if (error.is_object()) message = error.as_object().if_contains("message");
    if (error.is_string()) return std::string(error.as_string());
  }
  return message != nullptr && message->is_string() ? std::string(message->as_string())
                                                    : std::string("the server sent no reason");
}

void take_choice(const json::object& choice, Answer& answer) {
  if (const json::value* delta = choice.if_contains("delta"); delta && delta->is_object()) {
    const json::value* content = delta->as_object().if_contains("content");
    if (content != nullptr && content->is_string()) {
      answer.content += content->as_string();
      std::cout << std::string_view(content->as_string()) << std::flush;
    }
  }
  const json::value* reason = choice.if_contains("finish_reason");
  if (reason != nullptr && reason->is_string()) answer.finish_reason = reason->as_string();
}

void take_event(const std::string& data, Answer& answer) {
  if (data == "[DONE]") return;
  boost::system::error_code bad;
  const json::value event = json::parse(data, bad);
  if (bad || !event.is_object()) {
    answer.error = "the server sent something that is not JSON";
    return;
  }
  const json::object& object = event.as_object();
  if (object.contains("error")) {
    answer.error = error_text(event);
    return;
  }
  if (const json::value* choices = object.if_contains("choices"); choices && choices->is_array()) {
    for (const json::value& choice : choices->as_array()) {
      if (choice.is_object()) take_choice(choice.as_object(), answer);
    }
  }
  if (const json::value* usage = object.if_contains("usage"); usage && usage->is_object()) {
    const json::value* tokens = usage->as_object().if_contains("completion_tokens");
    if (tokens != nullptr && tokens->is_int64()) answer.completion_tokens = tokens->as_int64();
  }
}

std::vector<http::Header> headers(const ChatOptions& options) {
  std::vector<http::Header> all = {{"Content-Type", "application/json"}};
  if (!options.api_key.empty()) all.push_back({"Authorization", "Bearer " + options.api_key});
  return all;
}

// Sends the conversation and prints the answer as it comes; false when nothing usable came.
bool converse(http::Client& client, const ChatOptions& options, std::vector<Message>& history) {
  Answer answer;
  http::SseParser parser;
  interrupted = 0;
  const auto started = std::chrono::steady_clock::now();
  const auto result =
      client.send("POST", "/v1/chat/completions", headers(options), request_body(options, history),
                  [&](std::string_view piece) {
                    if (interrupted != 0) return false;
                    for (const std::string& data : parser.push(piece)) {
                      take_event(data, answer);
                    }
                    // A refusal is one JSON body, not a stream of events.
                    if (answer.content.empty() && !piece.empty() && piece.front() == '{') {
                      boost::system::error_code bad;
                      const json::value body = json::parse(piece, bad);
                      if (!bad) answer.error = error_text(body);
                    }
                    return true;
                  });
  std::cout << '\n';
  if (!result.ok() && interrupted == 0) answer.error = result.error().message;
  if (!answer.error.empty()) {
    std::cerr << "error: " << answer.error << '\n';
    return false;
  }
  if (interrupted != 0) {
    std::cout << "(stopped)\n";
  } else if (answer.completion_tokens > 0) {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    std::cout << fmt::format("\033[2m{} tokens, {:.1f} tok/s{}\033[0m\n", answer.completion_tokens,
                             static_cast<double>(answer.completion_tokens) / seconds,
                             answer.finish_reason == "length" ? ", cut at the limit" : "");
  }
  history.push_back({"assistant", answer.content});
  return true;
}

void print_help() {
  std::cout << "/reset           forget the conversation\n"
               "/system TEXT     start over with this system message\n"
               "/help            this list\n"
               "/exit            leave (also Ctrl-D)\n"
               "Anything else is sent. Ctrl-C stops an answer.\n";
}

void start_over(std::vector<Message>& history, const std::string& system) {
  history.clear();
  if (!system.empty()) history.push_back({"system", system});
}

// Handles a line that starts with '/'; false to leave.
bool run_slash(const std::string& line, std::vector<Message>& history, std::string& system) {
  if (line == "/exit" || line == "/quit") return false;
  if (line == "/reset") {
    start_over(history, system);
    std::cout << "(conversation forgotten)\n";
  } else if (line.rfind("/system ", 0) == 0) {
    system = line.substr(8);
    start_over(history, system);
    std::cout << "(started over)\n";
  } else {
    if (line != "/help") std::cout << "unknown command " << line << '\n';
    print_help();
  }
  return true;
}

// The name of the served model, or why the server cannot be used.
base::Result<std::string> greet(http::Client& client, const ChatOptions& options) {
  BH_ASSIGN(const http::ClientResponse response,
            client.send("GET", "/v1/models", headers(options), ""));
  boost::system::error_code bad;
  const json::value body = json::parse(response.body, bad);
  if (response.status != 200 || bad) {
    return base::Error{base::ErrorCode::kUnavailable,
                       bad ? fmt::format("status {}", response.status) : error_text(body),
                       {}};
  }
  const json::value* data = body.is_object() ? body.as_object().if_contains("data") : nullptr;
  if (data == nullptr || !data->is_array() || data->as_array().empty()) {
    return base::corrupt("the server lists no model");
  }
  const json::value& first = data->as_array().front();
  const json::value* id = first.is_object() ? first.as_object().if_contains("id") : nullptr;
  if (id == nullptr || !id->is_string()) return base::corrupt("the server's model has no id");
  return std::string(id->as_string());
}

}  // namespace

int run_chat(const ChatOptions& options) {
  const auto address = parse_server_url(options.url);
  if (!address.ok()) {
    std::cerr << "error: " << address.error().message << '\n';
    return 2;
  }
  http::Client client(address->host, address->port, std::chrono::minutes(10));
  const auto model = greet(client, options);
  if (!model.ok()) {
    std::cerr << fmt::format(
        "error: no answer from {}: {}\nStart a server first: bulkhead serve MODEL\n", options.url,
        model.error().message);
    return 1;
  }
  std::signal(SIGINT, note_interrupt);
  std::cout << fmt::format("{} at {}. /help lists the commands.\n", *model, options.url);
  std::string system = options.system;
  std::vector<Message> history;
  start_over(history, system);
  std::string line;
  while (std::cout << "\n> " << std::flush, std::getline(std::cin, line)) {
    if (line.empty()) continue;
    if (line.front() == '/') {
      if (!run_slash(line, history, system)) break;
      continue;
    }
    history.push_back({"user", line});
    if (!converse(client, options, history)) history.pop_back();
  }
  std::cout << '\n';
  return 0;
}

}  // namespace bulkhead::apps
