// One validation of one value: keyword by keyword, with a budget.
//
// Threads: used by one thread, for one value. Invariants: as validator.h says; the first violation
// found outside `not`, `if`, `anyOf`, `oneOf` and `contains` is the one reported.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/schema/schema_check.h"
#include "constraint/schema/validator.h"

namespace bulkhead::constraint {

class Evaluation {
 public:
  Evaluation(const boost::json::value& root, const Patterns& patterns)
      : root_(root), patterns_(patterns) {}

  bool run(const boost::json::value& schema, const boost::json::value& value);
  // Work or depth ran out: what run() returned is worth nothing.
  bool exhausted() const { return exhausted_; }
  const Violation& violation() const { return violation_; }

 private:
  // Which parts of an object or array some schema has spoken of, for unevaluatedProperties and
  // unevaluatedItems.
  struct Seen {
    std::vector<bool> parts;  // of the value, by position

    void mark(size_t index, size_t size);
    void merge(const Seen& other);
    bool has(size_t index) const { return index < parts.size() && parts[index]; }
  };
  // A schema object at work on a value.
  struct Node {
    const boost::json::object& schema;
    const boost::json::value& value;
    Seen* seen = nullptr;  // null: nobody asks
  };
  using Rule = bool (Evaluation::*)(const Node&, const boost::json::value&);
  struct RuleEntry {
    std::string_view keyword;
    Rule rule;
  };
  static const RuleEntry kRules[];

  bool check(const boost::json::value& schema, const boost::json::value& value, Seen* seen);
  bool check_object(const Node& node, Seen* seen);
  // As check(), without remembering a violation.
  bool matches(const boost::json::value& schema, const boost::json::value& value, Seen* seen);
  bool check_part(const boost::json::value& schema, const boost::json::value& part,
                  std::string_view step);
  bool fail(std::string message);
  bool spend(int64_t work);

  bool reference(const Node& node, const boost::json::value& rule);
  bool type(const Node& node, const boost::json::value& rule);
  bool enumeration(const Node& node, const boost::json::value& rule);
  bool constant(const Node& node, const boost::json::value& rule);
  bool all_of(const Node& node, const boost::json::value& rule);
  bool any_of(const Node& node, const boost::json::value& rule);
  bool one_of(const Node& node, const boost::json::value& rule);
  bool negation(const Node& node, const boost::json::value& rule);
  bool condition(const Node& node, const boost::json::value& rule);
  bool minimum(const Node& node, const boost::json::value& rule);
  bool maximum(const Node& node, const boost::json::value& rule);
  bool exclusive_minimum(const Node& node, const boost::json::value& rule);
  bool exclusive_maximum(const Node& node, const boost::json::value& rule);
  bool multiple_of(const Node& node, const boost::json::value& rule);
  bool min_length(const Node& node, const boost::json::value& rule);
  bool max_length(const Node& node, const boost::json::value& rule);
  bool pattern(const Node& node, const boost::json::value& rule);
  bool prefix_items(const Node& node, const boost::json::value& rule);
  bool items(const Node& node, const boost::json::value& rule);
  bool contains(const Node& node, const boost::json::value& rule);
  bool min_items(const Node& node, const boost::json::value& rule);
  bool max_items(const Node& node, const boost::json::value& rule);
  bool unique_items(const Node& node, const boost::json::value& rule);
  bool unevaluated_items(const Node& node, const boost::json::value& rule);
  bool properties(const Node& node, const boost::json::value& rule);
  bool pattern_properties(const Node& node, const boost::json::value& rule);
  bool additional_properties(const Node& node, const boost::json::value& rule);
  bool property_names(const Node& node, const boost::json::value& rule);
  bool required(const Node& node, const boost::json::value& rule);
  bool min_properties(const Node& node, const boost::json::value& rule);
  bool max_properties(const Node& node, const boost::json::value& rule);
  bool dependent_required(const Node& node, const boost::json::value& rule);
  bool dependent_schemas(const Node& node, const boost::json::value& rule);
  bool unevaluated_properties(const Node& node, const boost::json::value& rule);

  const boost::json::value& root_;
  const Patterns& patterns_;
  int64_t work_left_ = kValidationWorkMax;
  int depth_ = 0;
  int quiet_ = 0;  // inside a schema whose failure is no violation
  bool exhausted_ = false;
  std::string place_;
  Violation violation_;
};

}  // namespace bulkhead::constraint
