#include "sim/serial.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace bulkhead::sim {

SerialAnswer SerialOracle::answer(const wire::GenerateRequest& request) {
  SerialAnswer out;
  wire::GenerateRequest copy = request;
  wire::SequenceState state(std::move(copy), 0);
  OracleRow row;
  for (size_t i = 0; i < state.tokens.size(); ++i) {
    if (i > 0 && state.prompt_logprobs >= 0) {
      auto scored = sampler_.score(row.logits(), state.tokens[i], state.prompt_logprobs);
      BH_CHECK(scored.ok(), "a right row is finite");
      out.scores.push_back(std::move(scored).value());
    }
    row.append(state.tokens[i]);
  }
  while (static_cast<int32_t>(out.tokens.size()) < state.max_tokens) {
    auto chosen = sampler_.sample(row.logits(), state);
    BH_CHECK(chosen.ok(), "a right row is finite");
    const TokenId token = chosen->token;
    if (std::find(state.stop_ids.begin(), state.stop_ids.end(), token) != state.stop_ids.end()) {
      out.reason = wire::FinishReason::kStop;
      return out;
    }
    state.tokens.push_back(token);
    row.append(token);
    out.tokens.push_back(std::move(chosen).value());
  }
  return out;
}

bool same(const wire::TokenEvent& a, const wire::TokenEvent& b) {
  const auto alike = [](const wire::TokenLogprob& x, const wire::TokenLogprob& y) {
    return x.id == y.id && x.logprob == y.logprob;
  };
  return a.token == b.token && a.logprob == b.logprob &&
         std::equal(a.top_logprobs.begin(), a.top_logprobs.end(), b.top_logprobs.begin(),
                    b.top_logprobs.end(), alike);
}

}  // namespace bulkhead::sim
