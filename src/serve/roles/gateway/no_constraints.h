// Refuses every form of an answer: a gateway's workers do not follow constraints.
//
// Threads: any. Invariant: the refusal is kUnsupported and names the placement, so that a client
// reads a 400 and never gets an answer of another form than it asked for.
#pragma once

#include "wire/constraint.h"

namespace bulkhead::serve::roles {

class NoConstraints final : public wire::ConstraintCompiler {
 public:
  void compile(wire::ConstraintSpec, Done done) override {
    done(base::unsupported(
        "answers cannot be constrained where prefill and decode are workers of a gateway; use a "
        "server of its own (--role all)"));
  }
};

}  // namespace bulkhead::serve::roles
