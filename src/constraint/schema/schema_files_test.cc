// The validator against the JSON-Schema-Test-Suite and the schemas of walle, where the shared data
// is there. A refusal is never counted as a pass.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <string>

#include "constraint/schema/grammar_schema.h"
#include "constraint/schema/json.h"
#include "constraint/schema/validator.h"

namespace bulkhead::constraint {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Nothing where the shared data is not.
fs::path data_folder() {
  const char* shared = std::getenv("BULKHEAD_SHARED");
  if (shared == nullptr) return {};
  fs::path folder = fs::path(shared) / "data/eval/json-schema";
  return fs::is_directory(folder) ? folder : fs::path();
}

struct Tally {
  int passed = 0;
  int refused = 0;  // the schema, by name
  int failed = 0;
};

std::string text_of(const json::value& value) { return std::string(view(value.get_string())); }

void judge(const json::object& group, const std::string& keyword, Tally& tally) {
  const json::array& tests = group.at("tests").get_array();
  const auto validator = SchemaValidator::create(group.at("schema"));
  if (!validator.ok()) {
    tally.refused += static_cast<int>(tests.size());
    return;
  }
  for (const json::value& test : tests) {
    const auto verdict = validator->validate(test.at("data"));
    const bool wanted = test.at("valid").get_bool();
    if (verdict.ok() && !verdict.value().has_value() == wanted) {
      ++tally.passed;
      continue;
    }
    ++tally.failed;
    ADD_FAILURE() << keyword << ": " << text_of(group.at("description")) << ": "
                  << text_of(test.at("description"));
  }
}

TEST(SchemaFiles, TheStandardSuiteIsJudgedRightWhereverItIsNotRefusedByName) {
  const fs::path folder = data_folder() / "tests/draft2020-12";
  if (!fs::is_directory(folder)) GTEST_SKIP() << "no JSON-Schema-Test-Suite";
  std::map<std::string, Tally> tallies;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const std::string keyword = entry.path().stem().string();
    json::error_code error;
    const json::value suite = json::parse(read(entry.path()), error);
    ASSERT_FALSE(error) << keyword;
    for (const json::value& group : suite.get_array()) {
      judge(group.get_object(), keyword, tallies[keyword]);
    }
  }
  Tally total;
  for (const auto& [keyword, tally] : tallies) {
    total.passed += tally.passed;
    total.refused += tally.refused;
    total.failed += tally.failed;
    if (tally.refused + tally.failed > 0) {
      std::cout << keyword << ": " << tally.passed << " passed, " << tally.refused << " refused, "
                << tally.failed << " failed\n";
    }
  }
  std::cout << "all: " << total.passed << " passed, " << total.refused << " refused, "
            << total.failed << " failed\n";
  EXPECT_GE(total.passed, 1000);
  EXPECT_LE(total.refused, 250);
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

// A valid one that asks for more than a grammar here gives: a string of 999999999999 characters.
constexpr int kWalleTooBig = 1;

TEST(SchemaFiles, EveryValidSchemaOfWalleButTheTooBigBecomesAGrammar) {
  const fs::path folder = data_folder() / "walle/validator_cases";
  if (!fs::is_directory(folder)) GTEST_SKIP() << "no walle schemas";
  int count = 0;
  int too_big = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename() != "valid.jsonl") continue;
    for (const std::string& line : lines_of(entry.path())) {
      ++count;
      const auto rewritten = schema_for_grammar(line);
      if (rewritten.ok()) continue;
      const std::string& message = rewritten.error().message;
      if (message.find("may be at most") != std::string::npos) {
        ++too_big;
        continue;
      }
      ADD_FAILURE() << line << "\n" << rewritten.error().field << ": " << message;
    }
  }
  EXPECT_EQ(count, 213);
  EXPECT_EQ(too_big, kWalleTooBig);
}

TEST(SchemaFiles, InvalidSchemasOfWalleAreRefusedUnlessTheStandardAllowsThem) {
  const fs::path folder = data_folder() / "walle/validator_cases";
  if (!fs::is_directory(folder)) GTEST_SKIP() << "no walle schemas";
  std::map<std::string, int> accepted;  // by what walle says of them
  int refused = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename() != "invalid.jsonl") continue;
    for (const std::string& line : lines_of(entry.path())) {
      const json::value test = json::parse(line);
      if (schema_for_grammar(text_of(test.at("schema"))).ok()) {
        ++accepted[text_of(test.at("expect"))];
        std::cout << "accepted: " << text_of(test.at("expect")) << "  "
                  << text_of(test.at("schema")).substr(0, 160) << "\n";
      } else {
        ++refused;
      }
    }
  }
  std::cout << "refused: " << refused << "\n";
  EXPECT_GE(refused, 100);
}

}  // namespace
}  // namespace bulkhead::constraint
