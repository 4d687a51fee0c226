// Text to tokens and back for clients: /tokenize, /detokenize, /apply-template, /tokenizer_info.
//
// Threads: the I/O thread only. Invariants: the work of one request is bounded by kTextBytesMax;
// a prompt gets exactly the ids that /v1/completions and /v1/chat/completions give it; nothing is
// kept of what a client sends.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/generate_route.h"
#include "base/json_writer.h"
#include "chat/prompt.h"

namespace bulkhead::api {

// Of all texts of one request together, in either direction.
inline constexpr size_t kTextBytesMax = 1u << 20;
inline constexpr size_t kTextPromptsMax = 1024;

class TextRoutes {
 public:
  // Everything given must outlive the routes.
  TextRoutes(const ApiDeps& deps, const ModelCard& model, const GenerateRoute& generation)
      : deps_(deps), model_(model), generation_(generation) {}

  // The body of the answer, or why there is none.
  Failure tokenize(std::string_view request, std::string& out) const;
  Failure detokenize(std::string_view request, std::string& out) const;
  Failure apply_template(std::string_view request, std::string& out) const;
  std::string tokenizer_info() const;

 private:
  using Ids = std::vector<wire::TokenId>;
  struct TokenizeOptions {
    bool add_special = true;
    bool token_strs = false;
    bool with_pieces = false;
  };

  Failure check_model(boost::json::object& body) const;
  Failure render(boost::json::object& body, chat::Prompt& out) const;
  Ids encode_text(std::string_view text, bool add_special) const;
  Failure encode_prompts(const boost::json::value& prompt, bool add_special,
                         std::vector<Ids>& out) const;
  Failure encode_chat(boost::json::object& body, bool add_special, Ids& out) const;
  Failure read_ids(const boost::json::value& value, std::string_view path, size_t& bytes,
                   Ids& out) const;
  void write_ids(base::JsonWriter& json, const Ids& ids, const TokenizeOptions& options) const;
  std::string token_name(wire::TokenId id) const;
  std::string tokens_answer(const std::vector<Ids>& all, bool is_list,
                            const TokenizeOptions& options) const;

  const ApiDeps& deps_;
  const ModelCard& model_;
  const GenerateRoute& generation_;
};

}  // namespace bulkhead::api
