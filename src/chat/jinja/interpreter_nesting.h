// Bounds how deep evaluation recurses, so that no template can overflow the stack.
//
// Threads: as the interpreter. Invariant: counts itself out on every way out.
#pragma once

#include "chat/jinja/interpreter.h"

namespace bulkhead::chat::jinja {

class Interpreter::Nesting {
 public:
  explicit Nesting(Interpreter& interpreter) : interpreter_(interpreter) {
    // Calls nest bodies and expressions, each bounded by the parser; together they get this much.
    static constexpr uint32_t kNestingPerCall = 8;
    interpreter_.heap_.charge_step();
    if (++interpreter_.nesting_ > interpreter_.max_depth_ * kNestingPerCall) {
      --interpreter_.nesting_;
      fail_limit("the chat template nests its evaluation too deeply");
    }
  }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  ~Nesting() { --interpreter_.nesting_; }

 private:
  Interpreter& interpreter_;
};

}  // namespace bulkhead::chat::jinja
