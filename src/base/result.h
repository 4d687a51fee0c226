// A value or the reason there is none, for everything the world can do to us.
//
// Threads: plain values, no sharing.
// Invariants: exactly one of value and error is present; a result must be looked at
// ([[nodiscard]]). Our own mistakes are not results: they are BH_CHECK (base/check.h).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace bulkhead::base {

enum class ErrorCode {
  kInvalidArgument,    // the caller's input breaks a stated rule; `field` names where
  kNotFound,           // a named thing does not exist
  kCorruptData,        // a file or message contradicts itself
  kUnsupported,        // well formed, but not something this build or model does
  kResourceExhausted,  // a stated limit is reached; the same call may succeed later
  kUnavailable,        // not ready, draining or closed
  kIo,                 // the operating system said no
  kCancelled,          // the other side gave up
  kInternal,           // a fault of ours that was contained
};

std::string_view to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // for people: names the thing, the limit and the cure; no addresses
  std::string field;    // JSON-path or file position of the culprit, empty where none applies

  // The same error seen from one level up: "context: message".
  Error within(std::string_view context) &&;
};

inline Error invalid_argument(std::string field, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), std::move(field)};
}
inline Error corrupt(std::string message) {
  return Error{ErrorCode::kCorruptData, std::move(message), {}};
}
inline Error unsupported(std::string message) {
  return Error{ErrorCode::kUnsupported, std::move(message), {}};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    BH_CHECK(ok(), "value() of a failed Result");
    return std::get<0>(state_);
  }
  const T& value() const& {
    BH_CHECK(ok(), "value() of a failed Result");
    return std::get<0>(state_);
  }
  T&& value() && {
    BH_CHECK(ok(), "value() of a failed Result");
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    BH_CHECK(!ok(), "error() of a successful Result");
    return std::get<1>(state_);
  }
  Error&& error() && {
    BH_CHECK(!ok(), "error() of a successful Result");
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT: implicit

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const& {
    BH_CHECK(!ok_, "error() of a successful Result");
    return error_;
  }
  Error&& error() && {
    BH_CHECK(!ok_, "error() of a successful Result");
    return std::move(error_);
  }

 private:
  Error error_;
  bool ok_ = true;
};

using Status = Result<void>;

}  // namespace bulkhead::base

// Leaves the function with the error of `expr` when it has one; `expr` is a Result of any type.
#define BH_TRY(expr)                                          \
  do {                                                        \
    if (auto bh_try_result_ = (expr); !bh_try_result_.ok()) { \
      return std::move(bh_try_result_).error();               \
    }                                                         \
  } while (false)

#define BH_CONCAT_INNER_(a, b) a##b
#define BH_CONCAT_(a, b) BH_CONCAT_INNER_(a, b)

// BH_ASSIGN(auto x, expr): declares x from a successful Result, leaves with its error otherwise.
#define BH_ASSIGN(decl, expr) BH_ASSIGN_IMPL_(BH_CONCAT_(bh_result_, __LINE__), decl, expr)
#define BH_ASSIGN_IMPL_(tmp, decl, expr)        \
  auto tmp = (expr);                            \
  if (!tmp.ok()) return std::move(tmp).error(); \
  decl = std::move(tmp).value()
