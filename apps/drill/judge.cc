#include "apps/drill/judge.h"

#include <fmt/format.h>

#include <algorithm>

namespace bulkhead::apps {
namespace {

constexpr std::string_view kEndCode = "kv_integrity";
constexpr std::string_view kNotFiniteCode = "generation_failed";
constexpr int kEndStatus = 503;

bool begins(const Answer& answer, const Answer& alone) {
  return answer.tokens.size() <= alone.tokens.size() &&
         std::equal(answer.tokens.begin(), answer.tokens.end(), alone.tokens.begin());
}

Verdict fail(std::string text) { return {false, "FAIL: " + std::move(text)}; }

// Whatever the mode: the fault took place and the server went on.
Verdict check_injected(const Row& row) {
  if (!row.server_ended.empty()) return fail("the server ended: " + row.server_ended);
  if (row.fault->moment != Moment::kNever && row.injected < row.rounds) {
    return fail(fmt::format("injected in {} of {} rounds", row.injected, row.rounds));
  }
  if (row.answers.broken > 0) return fail(row.trouble);
  return {true, {}};
}

Verdict judge_control(const Row& row) {
  if (!row.noticed.empty()) return fail("a false alarm: " + to_text(row.noticed));
  if (row.answers.same < row.answers.total()) return fail("answers differ from those alone");
  if (row.unbalanced > 0) return fail("pages are missing");
  return {true, "clean"};
}

Verdict judge_abort(const Row& row) {
  const FaultClass& fault = *row.fault;
  if (fault.seen() && row.noticed_rounds < row.rounds) {
    return fail(fmt::format("noticed in {} of {} rounds", row.noticed_rounds, row.rounds));
  }
  if (fault.seen() && row.answers.wrong > 0) {
    return fail(fmt::format("{} wrong answers", row.answers.wrong));
  }
  if (fault.seen() && row.answers.not_finite > 0) return fail("logits that are no numbers");
  if (row.unrecovered > 0) return fail("later answers are not right");
  if (row.unbalanced > 0) return fail("pages are missing");
  if (fault.seen()) return {true, "detected"};
  // One page of one request: nobody else reads it.
  if (row.answers.wrong + row.answers.not_finite > row.injected) {
    return fail("more answers changed than pages were damaged");
  }
  return {true, "not detected, by design"};
}

Verdict judge_observe(const Row& row) {
  if (!row.fault->seen()) return {true, "not detected, by design"};
  if (row.noticed_rounds < row.rounds) {
    return fail(fmt::format("noticed in {} of {} rounds", row.noticed_rounds, row.rounds));
  }
  return {true, did_harm(row) ? fmt::format("noticed, and {} wrong answers", row.answers.wrong)
                              : "noticed"};
}

Verdict judge_off(const Row& row) {
  if (!row.noticed.empty()) return fail("noticed by a server that watches nothing");
  if (!row.server_ended.empty())
    return {true, "not noticed; the server ended: " + row.server_ended};
  if (row.injected < row.rounds) return check_injected(row);
  const int wrong = row.answers.wrong + row.answers.not_finite;
  if (wrong > 0) return {true, fmt::format("not noticed; {} wrong answers", wrong)};
  if (did_harm(row)) return {true, "not noticed; " + row.trouble};
  return {true, "not noticed, no harm seen"};
}

}  // namespace

Fate fate_of(const Answer& answer, const Answer& alone) {
  if (!answer.failure.empty()) return Fate::kBroken;
  if (answer.error_code.empty()) {
    if (!answer.done) return Fate::kBroken;
    const bool same = answer.tokens == alone.tokens && answer.finish_reason == alone.finish_reason;
    return same ? Fate::kSame : Fate::kWrong;
  }
  if (!begins(answer, alone)) return Fate::kWrong;
  if (answer.went_on || answer.done || !answer.finish_reason.empty()) return Fate::kBroken;
  if (answer.error_code == kNotFiniteCode) return Fate::kNotFinite;
  const bool status = answer.status == 200 || answer.status == kEndStatus;
  return status && answer.error_code == kEndCode && answer.retriable ? Fate::kEnded : Fate::kBroken;
}

std::string describe(const Answer& answer) {
  if (!answer.failure.empty()) return answer.failure;
  if (answer.error_code.empty()) return "a stream ended without [DONE]";
  if (answer.went_on || answer.done) return "a stream went on after its error";
  if (!answer.finish_reason.empty()) return "an answer that failed has a finish_reason";
  return fmt::format("an answer ended with {} {}{}: {}", answer.status, answer.error_code,
                     answer.retriable ? "" : ", not retriable", answer.error_text);
}

void Tally::add(Fate fate) {
  int* const counts[] = {&same, &ended, &not_finite, &wrong, &broken};
  ++*counts[static_cast<size_t>(fate)];
}

void Tally::add(const Tally& more) {
  same += more.same;
  ended += more.ended;
  not_finite += more.not_finite;
  wrong += more.wrong;
  broken += more.broken;
}

Verdict judge(const Row& row, std::string_view mode) {
  if (mode == "off" && row.fault->moment != Moment::kNever) return judge_off(row);
  Verdict verdict = check_injected(row);
  if (!verdict.pass) return verdict;
  if (row.fault->moment == Moment::kNever) return judge_control(row);
  return mode == "abort" ? judge_abort(row) : judge_observe(row);
}

bool did_harm(const Row& row) {
  return !row.server_ended.empty() ||
         row.answers.wrong + row.answers.not_finite + row.answers.broken > 0;
}

}  // namespace bulkhead::apps
