// What became of requests and what became of a fault: the drill's verdicts.
//
// Threads: pure functions. Invariants: an answer is right only if every token of it, with its
// log-probabilities, is what the request got alone; an answer that was ended is in order only if
// all it brought is a beginning of that, and nothing followed its error.
#pragma once

#include <string>
#include <string_view>

#include "apps/drill/answer.h"
#include "apps/drill/fault_classes.h"
#include "apps/drill/integrity_report.h"

namespace bulkhead::apps {

enum class Fate {
  kSame,       // bit for bit its answer alone
  kEnded,      // by the error of the contract: kv_integrity, to be tried again
  kNotFinite,  // its logits were no numbers
  kWrong,      // other tokens, or other bits
  kBroken,     // an error that no contract knows, something after an error, no end at all
};
Fate fate_of(const Answer& answer, const Answer& alone);
// Why a fate is kBroken, for people.
std::string describe(const Answer& answer);

struct Tally {
  int same = 0, ended = 0, not_finite = 0, wrong = 0, broken = 0;

  void add(Fate fate);
  void add(const Tally& more);
  int total() const { return same + ended + not_finite + wrong + broken; }
};

// One class of faults in one pool, over all its rounds.
struct Row {
  const FaultClass* fault = nullptr;
  std::string pool;
  int rounds = 0;
  int injected = 0;
  int noticed_rounds = 0;  // in which one of the class's kinds was seen
  Tally answers;           // of all requests that were sent while the fault was about
  NoticedByKind noticed;
  int unrecovered = 0;       // rounds after which answers were not right again
  int unbalanced = 0;        // rounds after which pages were missing
  std::string server_ended;  // how; empty: it did not
  std::string trouble;       // the first thing that was broken
};

struct Verdict {
  bool pass = false;
  std::string text;
};

// `mode`: off, observe or abort.
Verdict judge(const Row& row, std::string_view mode);
// Whether it did harm: what the control without checks has to show at least once.
bool did_harm(const Row& row);

}  // namespace bulkhead::apps
