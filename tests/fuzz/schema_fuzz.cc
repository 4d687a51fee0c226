// Any bytes as a JSON schema: whatever passes the checks compiles to a grammar whose answers are
// valid by the schema, and nothing else happens.
#include <cstdint>
#include <future>
#include <memory>
#include <string>

#include "base/check.h"
#include "constraint/compiler.h"
#include "constraint/schema/json.h"
#include "constraint/schema/validator.h"
#include "constraint/testing/small_vocabulary.h"

namespace {

using namespace bulkhead;
using Shared = std::shared_ptr<const wire::Constraint>;

// It has the stack that compiling wants.
constraint::Compiler& compiler() {
  static telemetry::Registry registry;
  static const std::unique_ptr<constraint::Compiler> made =
      constraint::Compiler::create(constraint::testing::small_vocabulary(),
                                   {.cache_bytes_max = 0, .time_max = std::chrono::hours(1)},
                                   registry)
          .value();
  return *made;
}

base::Result<Shared> compile(const std::string& schema) {
  wire::ConstraintSpec spec;
  spec.json_schema = schema;
  std::promise<base::Result<Shared>> promise;
  compiler().compile(std::move(spec), [&promise](base::Result<Shared> result) {
    promise.set_value(std::move(result));
  });
  return promise.get_future().get();
}

void check_answers(const wire::Constraint& constraint,
                   const constraint::SchemaValidator& validator) {
  const auto state = constraint.start();
  const constraint::testing::Walk walk =
      constraint::testing::random_walk(*state, constraint::testing::small_vocabulary(), 1, 60, 0.5);
  if (!walk.complete) return;
  const auto value = constraint::parse_json(walk.text, 1 << 20);
  BH_CHECK(value.ok(), "an answer that is not JSON");
  const auto verdict = validator.validate(*value);
  BH_CHECK(!verdict.ok() || !verdict->has_value(), "an answer that its schema does not allow");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto constraint = compile(text);
  auto schema = constraint::parse_json(text, constraint::kSchemaBytesMax);
  if (!schema.ok()) return 0;
  auto validator = constraint::SchemaValidator::create(std::move(schema).value());
  BH_CHECK(validator.ok() || !constraint.ok(), "a grammar of no schema");
  if (!validator.ok()) return 0;
  // A schema is a value too.
  const auto of_itself = validator->validate(validator->root());
  BH_CHECK(of_itself.ok() || of_itself.error().code == base::ErrorCode::kResourceExhausted,
           "a verdict, or too much work");
  if (constraint.ok()) check_answers(**constraint, *validator);
  return 0;
}
