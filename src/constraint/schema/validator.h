// Whether a JSON value is what a JSON schema (draft 2020-12) says.
//
// Threads: immutable after construction; any thread may validate. Invariants: total: work and depth
// are bounded whatever schema and value are; what is not supported ($dynamicRef, references to
// other documents, look-around in patterns) is refused when the validator is made, never passed
// over; `format` is an annotation, as the standard has it.
#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "constraint/schema/schema_check.h"

namespace bulkhead::constraint {

struct Violation {
  std::string place;    // JSON pointer into the value
  std::string message;  // names the keyword
};

inline constexpr int64_t kValidationWorkMax = 2'000'000;  // keywords and values looked at
inline constexpr int kValidationDepthMax = 400;           // schemas within schemas

class SchemaValidator {
 public:
  static base::Result<SchemaValidator> create(boost::json::value schema);

  // Nothing: the value is valid. An error (kResourceExhausted): it could not be told within the
  // budget.
  base::Result<std::optional<Violation>> validate(const boost::json::value& value) const;
  // The same by a part of the schema, which must be inside root().
  base::Result<std::optional<Violation>> validate(const boost::json::value& part,
                                                  const boost::json::value& value) const;
  const boost::json::value& root() const { return *root_; }

 private:
  SchemaValidator(std::unique_ptr<const boost::json::value> root, Patterns patterns)
      : root_(std::move(root)), patterns_(std::move(patterns)) {}

  std::unique_ptr<const boost::json::value> root_;  // never moves: references point into it
  Patterns patterns_;
};

}  // namespace bulkhead::constraint
