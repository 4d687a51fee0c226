// A parsed template.
//
// Threads: read-only after parsing.
// Invariants: nesting is bounded by the parser, so walking and destroying recurse safely; chains
// (a + b + c, x.y[z]|f(1)) are flat lists, not nested nodes; names are numbered per template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chat/jinja/library/filters.h"
#include "chat/jinja/value.h"

namespace bulkhead::chat::jinja {

using NameId = uint32_t;

// Names every template may resolve specially; the parser numbers them first, in this order.
enum SpecialName : NameId { kNameLoop, kNameCaller, kNameVarargs, kNameKwargs, kSpecialNames };

struct Expr {
  enum class Kind : uint8_t {
    kConst,
    kName,
    kSequence,
    kDict,
    kChain,
    kArithmetic,
    kConcat,
    kCompare,
    kLogic,
    kNot,
    kSign,
    kConditional,
  };
  Expr(Kind which, uint32_t at_line) : kind(which), line(at_line) {}
  Expr(const Expr&) = delete;
  Expr& operator=(const Expr&) = delete;
  virtual ~Expr() = default;

  const Kind kind;
  const uint32_t line;
};
using ExprPtr = std::unique_ptr<Expr>;

struct ConstExpr final : Expr {
  ConstExpr(uint32_t at_line, Value constant) : Expr(Kind::kConst, at_line), value(constant) {}
  Value value;
};

struct NameExpr final : Expr {
  NameExpr(uint32_t at_line, NameId id) : Expr(Kind::kName, at_line), name(id) {}
  NameId name;
};

struct SequenceExpr final : Expr {
  SequenceExpr(uint32_t at_line, bool tuple) : Expr(Kind::kSequence, at_line), is_tuple(tuple) {}
  bool is_tuple;
  std::vector<ExprPtr> items;
};

struct DictExpr final : Expr {
  explicit DictExpr(uint32_t at_line) : Expr(Kind::kDict, at_line) {}
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<Value, ExprPtr>> named;  // name as a string value
  ExprPtr spread_positional;                     // *args
  ExprPtr spread_named;                          // **kwargs
};

// One step of a chain: .name, [item], [a:b:c], (call), |filter, is test.
struct Link {
  enum class Kind : uint8_t { kAttribute, kItem, kSlice, kCall, kFilter, kTest };
  Kind kind = Kind::kAttribute;
  uint32_t line = 0;
  bool negated = false;                 // kTest
  Value name;                           // kAttribute, kFilter, kTest
  const FilterEntry* filter = nullptr;  // kFilter; null when there is none of that name
  const TestEntry* test = nullptr;      // kTest, likewise
  ExprPtr item;                         // kItem, or the start of kSlice
  ExprPtr stop;
  ExprPtr step;
  CallArguments arguments;  // kCall, kFilter, kTest
};

struct ChainExpr final : Expr {
  explicit ChainExpr(uint32_t at_line) : Expr(Kind::kChain, at_line) {}
  ExprPtr base;  // null in a filter block: the chain starts from the block's text
  std::vector<Link> links;
};

enum class ArithmeticOp : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower
};

struct ArithmeticExpr final : Expr {
  explicit ArithmeticExpr(uint32_t at_line) : Expr(Kind::kArithmetic, at_line) {}
  ExprPtr first;
  std::vector<std::pair<ArithmeticOp, ExprPtr>> rest;
};

struct ConcatExpr final : Expr {
  explicit ConcatExpr(uint32_t at_line) : Expr(Kind::kConcat, at_line) {}
  std::vector<ExprPtr> parts;
};

enum class CompareOp : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

struct CompareExpr final : Expr {
  explicit CompareExpr(uint32_t at_line) : Expr(Kind::kCompare, at_line) {}
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};

struct LogicExpr final : Expr {
  LogicExpr(uint32_t at_line, bool any) : Expr(Kind::kLogic, at_line), is_or(any) {}
  bool is_or;
  std::vector<ExprPtr> operands;
};

struct NotExpr final : Expr {
  NotExpr(uint32_t at_line, ExprPtr inner) : Expr(Kind::kNot, at_line), operand(std::move(inner)) {}
  ExprPtr operand;
};

struct SignExpr final : Expr {
  SignExpr(uint32_t at_line, bool minus, ExprPtr inner)
      : Expr(Kind::kSign, at_line), negative(minus), operand(std::move(inner)) {}
  bool negative;
  ExprPtr operand;
};

struct ConditionalExpr final : Expr {
  explicit ConditionalExpr(uint32_t at_line) : Expr(Kind::kConditional, at_line) {}
  ExprPtr test;
  ExprPtr then;
  ExprPtr otherwise;  // may be null
};

struct Stmt {
  enum class Kind : uint8_t {
    kText,
    kOutput,
    kIf,
    kFor,
    kSet,
    kSetBlock,
    kMacro,
    kCallBlock,
    kFilterBlock,
    kWith,
    kBlock,
    kGeneration,
    kBreak,
    kContinue,
  };
  Stmt(Kind which, uint32_t at_line) : kind(which), line(at_line) {}
  Stmt(const Stmt&) = delete;
  Stmt& operator=(const Stmt&) = delete;
  virtual ~Stmt() = default;

  const Kind kind;
  const uint32_t line;
};
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

struct TextStmt final : Stmt {
  TextStmt(uint32_t at_line, Value content) : Stmt(Kind::kText, at_line), text(content) {}
  Value text;
};

struct OutputStmt final : Stmt {
  explicit OutputStmt(uint32_t at_line) : Stmt(Kind::kOutput, at_line) {}
  std::vector<ExprPtr> values;
};

struct IfStmt final : Stmt {
  explicit IfStmt(uint32_t at_line) : Stmt(Kind::kIf, at_line) {}
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};

// name, ns.attribute, or a tuple of targets.
struct Target {
  enum class Kind : uint8_t { kName, kNamespace, kTuple };
  Kind kind = Kind::kName;
  NameId name = 0;
  Value attribute;  // kNamespace
  std::vector<Target> items;
};

struct ForStmt final : Stmt {
  explicit ForStmt(uint32_t at_line) : Stmt(Kind::kFor, at_line) {}
  Target target;
  ExprPtr iterable;
  ExprPtr filter;  // for ... if; may be null
  bool recursive = false;
  Body body;
  Body otherwise;
};

struct SetStmt final : Stmt {
  explicit SetStmt(uint32_t at_line) : Stmt(Kind::kSet, at_line) {}
  Target target;
  ExprPtr value;
};

struct SetBlockStmt final : Stmt {
  explicit SetBlockStmt(uint32_t at_line) : Stmt(Kind::kSetBlock, at_line) {}
  Target target;
  ExprPtr filter;  // a ChainExpr without base, or null
  Body body;
};

struct Signature {
  std::vector<NameId> parameters;
  std::vector<Value> names;       // of the parameters
  std::vector<ExprPtr> defaults;  // of the last parameters
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct MacroStmt final : Stmt {
  explicit MacroStmt(uint32_t at_line) : Stmt(Kind::kMacro, at_line) {}
  NameId name = 0;
  std::string spelled;
  Signature signature;
  Body body;
};

struct CallBlockStmt final : Stmt {
  explicit CallBlockStmt(uint32_t at_line) : Stmt(Kind::kCallBlock, at_line), macro(at_line) {}
  ExprPtr call;     // a ChainExpr that ends with a call
  MacroStmt macro;  // the block itself, as the macro named caller
};

struct FilterBlockStmt final : Stmt {
  explicit FilterBlockStmt(uint32_t at_line) : Stmt(Kind::kFilterBlock, at_line) {}
  ExprPtr filter;
  Body body;
};

struct WithStmt final : Stmt {
  explicit WithStmt(uint32_t at_line) : Stmt(Kind::kWith, at_line) {}
  std::vector<std::pair<Target, ExprPtr>> bindings;
  Body body;
};

// {% block %} and {% generation %}: a body in a scope of its own.
struct ScopeStmt final : Stmt {
  ScopeStmt(Kind which, uint32_t at_line) : Stmt(which, at_line) {}
  bool sees_locals = true;  // false: a block that is not `scoped` sees only top-level names
  Body body;
};

struct SimpleStmt final : Stmt {
  SimpleStmt(Kind which, uint32_t at_line) : Stmt(which, at_line) {}
};

struct TemplateAst {
  Body body;
  std::vector<std::string> names;  // by NameId
};

}  // namespace bulkhead::chat::jinja
