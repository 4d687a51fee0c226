#include "serve/banner.h"

#include <fmt/format.h>

#include "base/units.h"
#include "serve/capacity/capacity.h"
#include "serve/port_file.h"
#include "transfer/remote/socket_address.h"

namespace bulkhead::serve {
namespace {

using base::format_bytes;
using base::format_count;

std::string line(std::string_view name, const std::string& value) {
  return fmt::format("  {:<14}{}\n", name, value);
}

std::string key_state(const Reach& reach) {
  std::string api = "no API key is needed";
  if (reach.keys > 0) {
    api = fmt::format("{} API key{}, one is needed", reach.keys, reach.keys == 1 ? "" : "s");
  }
  if (reach.admin_key) return api + "; an admin key";
  return api + (reach.keys > 0 ? "; no admin key, so nobody administers"
                               : "; no admin key, so whoever reaches the port administers");
}

// What a token's bytes are made of. An FP8 component has one byte more, for its exponent.
std::string token_text(const kv::PageLayout& layout) {
  const bool fp8 = layout.format == kv::PageFormat::kFp8E4m3;
  const auto values = [&](int32_t count, std::string_view what, int components) {
    return fp8 ? fmt::format("({} {} + {} exponent{})", count, what, components,
                             components == 1 ? "" : "s")
               : fmt::format("{} {} x 2 bytes", count, what);
  };
  if (layout.latent_dim == 0) {
    return fmt::format(
        "{} layers x {}", layout.layers,
        values(2 * layout.kv_heads * layout.head_dim,
               fmt::format("values (K and V of {} heads of {})", layout.kv_heads, layout.head_dim),
               2));
  }
  std::string text =
      fmt::format("{} layers x {}", layout.layers, values(layout.head_dim, "latent values", 2));
  if (layout.index_layers > 0) {
    text += fmt::format(" + {} layers x {}", layout.index_layers,
                        values(layout.index_dim, "index values", 1));
  }
  return text;
}

std::string count(int64_t n) { return format_count(static_cast<uint64_t>(n)); }

std::string weights_text(const PoolPlan& pool, const model::CheckpointSummary& facts) {
  std::string text =
      fmt::format("{}, {} in memory", pool.weights_text, format_bytes(pool.weight_bytes));
  if (pool.activations != kernels::Activations::kFp32) {
    text += fmt::format(", {} activations", model::to_string(pool.activations));
  }
  // Where matrices of one kind have several formats, no recipe says how large a kind is.
  const auto recipe = model::parse_recipe(pool.weight_format);
  if (!recipe.ok()) return text;
  model::ModelConfig config = facts.config;
  config.tie = facts.tied ? model::TieRule::kTied : model::TieRule::kUntied;
  return fmt::format("{}: {}", text, weight_kinds_text(config, *recipe));
}

std::string cache_text(const PoolPlan& pool) {
  return fmt::format("{}, {} tokens in {} pages of {}, {} ({})", kv::to_string(pool.layout.format),
                     count(pool.cache_tokens), count(pool.pages), pool.layout.page_tokens,
                     format_bytes(pool.cache_bytes), pool.cache_reason);
}

std::string per_token_text(const PoolPlan& pool) {
  return fmt::format("{} = {}", format_bytes(pool.layout.token_bytes()), token_text(pool.layout));
}

std::string_view pool_of(Role role) {
  switch (role) {
    case Role::kPrefill:
      return "of prefill alone; pages go to decode workers";
    case Role::kDecode:
      return "of decode alone; pages come from prefill workers";
    default:
      return "prefill and decode share one copy of the weights and one page pool";
  }
}

std::string concurrency_text(const Plan& plan, Role role) {
  const std::string cache =
      fmt::format("the cache holds {:.1f} of full context", plan.full_context_requests);
  if (role == Role::kPrefill || role == Role::kDecode) {
    return fmt::format("{} requests at once; {}", plan.running_max, cache);
  }
  return fmt::format("{} requests decode at once, {} may wait; {}", plan.running_max,
                     plan.queued_max, cache);
}

std::string integrity_of(const PoolPlan& pool) {
  switch (pool.integrity) {
    case kv::integrity::Mode::kObserve:
      return "observe (a page that is not as expected is counted and logged)";
    case kv::integrity::Mode::kAbort:
      return "abort (a page that is not as expected ends its request)";
    default:
      return "off (pages are not compared; --kv-integrity)";
  }
}

std::string integrity_text(const Plan& plan) {
  std::string out;
  if (plan.prefill && plan.prefill->integrity != plan.integrity) {
    out = line("integrity", "prefill: " + integrity_of(*plan.prefill)) +
          line("", "decode: " + integrity_of(plan));
  } else {
    out = line("integrity", integrity_of(plan));
  }
  if (!plan.inject_faults) return out;
  return out + line("WARNING",
                    "a server under test: whoever administers it can damage its cache "
                    "(--inject-faults)");
}

std::string pools_text(const Plan& plan, Role role) {
  if (!plan.prefill) {
    return line("pools", std::string(pool_of(role))) + line("cache", cache_text(plan)) +
           line("per token", per_token_text(plan));
  }
  const bool same_pages = plan.layout == plan.prefill->layout;
  std::string out = line(
      "pools", fmt::format("split; {}; pages are {} on their way from prefill to decode",
                           plan.weights_shared ? "one copy of the weights, for both want the same"
                                               : "prefill and decode each have their weights",
                           same_pages ? "copied" : "converted"));
  out += line("prefill", cache_text(*plan.prefill));
  out += line("decode", cache_text(plan));
  out += line("per token", per_token_text(plan));
  if (!same_pages) out += line("", "prefill: " + per_token_text(*plan.prefill));
  return out;
}

}  // namespace

std::string plan_text(const Plan& plan, const model::Checkpoint& checkpoint,
                      const device::CpuFacts& cpu, const std::string& kernels, Role role) {
  const model::CheckpointSummary facts = checkpoint.describe();
  std::string types;
  for (const auto& share : facts.types) types += (types.empty() ? "" : "+") + share.type;
  std::string out = "Bulkhead\n";
  out += line("model",
              fmt::format("{} ({}, {} parameters, {} {})", facts.name, facts.config.family,
                          format_count(facts.parameters), model::to_string(facts.format), types));
  if (plan.weights_shared) {
    out += line("weights", weights_text(plan, facts));
  } else {
    out += line("weights", "prefill: " + weights_text(*plan.prefill, facts));
    out += line("", "decode: " + weights_text(plan, facts));
  }
  out += line("processor", fmt::format("{}, {} threads", cpu.model_name, plan.threads));
  out += line("kernels",
              fmt::format("{} ({}): {}", device::to_string(plan.isa), plan.isa_reason, kernels));
  out += pools_text(plan, role);
  out += integrity_text(plan);
  out += line("context",
              fmt::format("{} tokens ({})", count(plan.context_tokens), plan.context_reason));
  out += line("concurrency", concurrency_text(plan, role));
  return out;
}

std::string formats_text(const chat::FormatChoice& formats) {
  const auto text = [](std::string_view name, const std::string& reason) {
    return fmt::format("{} ({})", name, reason);
  };
  return line("tool calls", text(chat::to_string(formats.tools), formats.tools_reason)) +
         line("reasoning", text(chat::to_string(formats.reasoning), formats.reasoning_reason));
}

std::string worker_text(Role role, const std::string& address, const std::string& http,
                        const std::string& transport) {
  const std::string name = role == Role::kDecode ? "decode" : "prefill";
  const auto numbers = transfer::remote::numeric_address(address);
  const bool anywhere = numbers.ok() && transfer::remote::is_wildcard(*numbers);
  const std::string reached =
      anywhere ? fmt::format("ADDRESS:{}, with an address of this host", port_of(address))
               : address;
  return line("role", fmt::format("{} worker over {}", name, transport)) + line("listen", address) +
         line("http", http.empty() ? "none (--http-listen)" : http) +
         fmt::format("Ready for a gateway: give it --{}-workers {}\n", name, reached);
}

std::string gateway_text(const RoleOptions& roles) {
  return line("role", fmt::format("gateway; waits for a prefill worker of {} and a decode worker "
                                  "of {}",
                                  fmt::join(roles.prefill_workers, ", "),
                                  fmt::join(roles.decode_workers, ", ")));
}

std::string members_text(const std::vector<roles::MemberStatus>& members) {
  std::string out;
  for (const roles::MemberStatus& member : members) {
    out += line(member.label, member.present
                                  ? fmt::format("{} weights, {} cache", member.weights, member.kv)
                                  : "not there yet");
  }
  return out;
}

std::string ready_text(const Reach& reach) {
  std::string out;
  out += line("address", reach.url + "/v1");
  out += line("keys", key_state(reach));
  out += fmt::format("Ready after {:.1f} s. Try:\n", reach.ready_seconds);
  const std::string key = reach.keys > 0 ? " -H \"Authorization: Bearer $BULKHEAD_API_KEY\"" : "";
  if (reach.has_chat) {
    out += fmt::format(
        "  curl {}/v1/chat/completions{} -H 'Content-Type: application/json' -d "
        "'{{\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'\n",
        reach.url, key);
  } else {
    out += fmt::format(
        "  curl {}/v1/completions{} -H 'Content-Type: application/json' -d "
        "'{{\"prompt\":\"Once upon a time\",\"max_tokens\":32}}'\n",
        reach.url, key);
  }
  return out;
}

}  // namespace bulkhead::serve
