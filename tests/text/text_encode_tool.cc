// Encodes texts from standard input for tests/text/differential_test.py.
//
//   text_encode_tool json tokenizer.json < records > ids
//   text_encode_tool gguf vocabulary.json < records > ids
//   text_encode_tool tiktoken vocabulary.json < records > ids
//
// vocabulary.json holds the fields of GgufVocabulary, or `path`, the tiktoken.model file, and
// `added`, names by id. A record is a mode byte ('r' recognises added
// tokens, 't' takes all as text), a 32-bit length and the bytes. The answer is the prefix ids, the
// suffix ids, then per record its ids; each list as a 32-bit count and 32-bit ids, all in the
// machine's byte order.
#include <boost/json.hpp>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace bulkhead::text {
namespace {

namespace json = boost::json;

std::string read_file(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

GgufVocabulary vocabulary_from(const std::string& text) {
  const json::value document = json::parse(text);
  GgufVocabulary out;
  out.model = document.at("model").as_string().c_str();
  out.pre = document.at("pre").as_string().c_str();
  for (const auto& token : document.at("tokens").as_array()) {
    out.tokens.emplace_back(token.as_string().data(), token.as_string().size());
  }
  for (const auto& type : document.at("types").as_array()) {
    out.types.push_back(static_cast<int32_t>(type.as_int64()));
  }
  for (const auto& merge : document.at("merges").as_array()) {
    out.merges.emplace_back(merge.as_string().data(), merge.as_string().size());
  }
  return out;
}

TiktokenVocabulary tiktoken_from(const std::string& text) {
  const json::value document = json::parse(text);
  TiktokenVocabulary out;
  out.ranks = read_file(document.at("path").as_string().c_str());
  for (const auto& [id, content] : document.at("added").as_object()) {
    AddedToken token;
    token.id = std::stoi(std::string(id));
    token.content = content.as_string().c_str();
    token.special = true;
    out.added.push_back(std::move(token));
  }
  return out;
}

base::Result<std::unique_ptr<Tokenizer>> load(const std::string& kind, const std::string& file) {
  if (kind == "gguf") return Tokenizer::from_gguf(vocabulary_from(file));
  if (kind == "tiktoken") return Tokenizer::from_tiktoken(tiktoken_from(file));
  return Tokenizer::from_json(file);
}

void write_ids(std::span<const TokenId> ids) {
  const auto count = static_cast<uint32_t>(ids.size());
  std::cout.write(reinterpret_cast<const char*>(&count), sizeof count);
  std::cout.write(reinterpret_cast<const char*>(ids.data()),
                  static_cast<std::streamsize>(ids.size_bytes()));
}

void encode_records(const Tokenizer& tokenizer, const std::string& records) {
  std::vector<TokenId> ids;
  double spent = 0;  // processor seconds
  size_t bytes = 0;
  for (size_t at = 0; at + 5 <= records.size();) {
    uint32_t length = 0;
    std::memcpy(&length, records.data() + at + 1, sizeof length);
    const auto mode = records[at] == 'r' ? AddedTokens::kRecognise : AddedTokens::kAsText;
    const std::string_view text = std::string_view(records).substr(at + 5, length);
    ids.clear();
    const std::clock_t start = std::clock();
    tokenizer.encode(text, mode, ids);
    spent += static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    bytes += text.size();
    write_ids(ids);
    at += 5 + size_t{length};
  }
  std::cerr << static_cast<double>(bytes) / 1e6 / spent << "\n";  // MB/s
}

int run(const std::string& kind, const char* path) {
  const std::clock_t start = std::clock();
  const auto tokenizer = load(kind, read_file(path));
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.error().message << "\n";
    return 3;
  }
  std::cerr << static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC << "\n";
  write_ids((*tokenizer)->prefix_ids());
  write_ids((*tokenizer)->suffix_ids());
  encode_records(**tokenizer, {std::istreambuf_iterator<char>(std::cin), {}});
  return 0;
}

}  // namespace
}  // namespace bulkhead::text

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: text_encode_tool json|gguf|tiktoken FILE\n";
    return 2;
  }
  return bulkhead::text::run(argv[1], argv[2]);
}
