// The lines a server prints when it starts: what was chosen, why, and how to reach it.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "chat/output/format_choice.h"
#include "model/checkpoint.h"
#include "serve/plan.h"
#include "serve/roles/gateway/fleet.h"

namespace bulkhead::serve {

// Everything that is known before the weights are loaded.
std::string plan_text(const Plan& plan, const model::Checkpoint& checkpoint,
                      const device::CpuFacts& cpu, const std::string& kernels,
                      Role role = Role::kAll);

// What is known once tokenizer and chat template are loaded.
std::string formats_text(const chat::FormatChoice& formats);

// Of a deployment of several processes.
// `http` is the URL that it answers at; empty: none.
std::string worker_text(Role role, const std::string& address, const std::string& http,
                        const std::string& transport);
std::string gateway_text(const RoleOptions& roles);
std::string members_text(const std::vector<roles::MemberStatus>& members);

struct Reach {
  std::string url;  // http://127.0.0.1:30000
  std::string model_name;
  size_t keys = 0;  // API keys there are; 0: none is needed
  bool admin_key = false;
  bool has_chat = true;  // the model has a chat template
  double ready_seconds = 0;
};
// The last lines: address and one curl command that works as it stands.
std::string ready_text(const Reach& reach);

}  // namespace bulkhead::serve
