#include "constraint/schema/validator.h"

#include <utility>

#include "constraint/schema/evaluation.h"

namespace bulkhead::constraint {

base::Result<SchemaValidator> SchemaValidator::create(boost::json::value schema) {
  auto root = std::make_unique<const boost::json::value>(std::move(schema));
  BH_ASSIGN(Patterns patterns, check_schema(*root));
  return SchemaValidator(std::move(root), std::move(patterns));
}

base::Result<std::optional<Violation>> SchemaValidator::validate(
    const boost::json::value& value) const {
  return validate(*root_, value);
}

base::Result<std::optional<Violation>> SchemaValidator::validate(
    const boost::json::value& part, const boost::json::value& value) const {
  Evaluation evaluation(*root_, patterns_);
  const bool valid = evaluation.run(part, value);
  if (evaluation.exhausted()) {
    return base::Error{base::ErrorCode::kResourceExhausted,
                       "the value cannot be checked within the limits on work and depth",
                       {}};
  }
  if (valid) return std::optional<Violation>();
  return std::optional<Violation>(evaluation.violation());
}

}  // namespace bulkhead::constraint
