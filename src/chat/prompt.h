// A rendered prompt as pieces of text that remember where they came from.
//
// Threads: plain values.
// Invariant: text that came from a request (message content, tool results, names, tool
// declarations) is in untrusted segments, whatever the template did to it; only text written in the
// template itself is trusted. Control tokens are recognised in trusted segments alone, so a user
// cannot forge a turn.
#pragma once

#include <string>
#include <vector>

namespace bulkhead::chat {

struct PromptSegment {
  std::string text;
  bool trusted = false;
};

struct Prompt {
  std::vector<PromptSegment> segments;  // neighbours differ in `trusted`; none is empty

  std::string text() const {
    std::string all;
    for (const PromptSegment& segment : segments) all += segment.text;
    return all;
  }
};

}  // namespace bulkhead::chat
