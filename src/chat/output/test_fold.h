// For tests: an answer put together again from a parser's events, under any cut of its text.
//
// Threads: one test thread. Invariant: every fold checks that the events account for the text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "chat/output/output_parser.h"

namespace bulkhead::chat::testing {

struct FoldedCall {
  std::string id;
  std::string name;
  std::string arguments;
  CallOutcome outcome = CallOutcome::kTruncated;
  bool ended = false;

  bool operator==(const FoldedCall&) const = default;
};

struct Folded {
  std::string content;
  std::string reasoning;
  std::vector<FoldedCall> calls;
  size_t reasoning_bytes = 0;  // of the source

  bool operator==(const Folded&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const FoldedCall& call) {
  return out << "\ncall: [" << call.id << "] " << call.name << " [" << call.arguments << "] "
             << static_cast<int>(call.outcome) << (call.ended ? "" : " no end");
}

inline std::ostream& operator<<(std::ostream& out, const Folded& folded) {
  out << "\ncontent: [" << folded.content << "]\nreasoning: [" << folded.reasoning << "]";
  for (const FoldedCall& call : folded.calls) out << call;
  return out;
}

// A stretch of the generated text: plain, or a marker that came as a token.
struct Stretch {
  std::string text;
  bool token = false;
  size_t marker = 0;
};

inline std::shared_ptr<const ToolSchemas> schemas_of(std::string_view json) {
  return std::make_shared<const ToolSchemas>(
      boost::json::parse(boost::json::string_view(json.data(), json.size())));
}

class Folder {
 public:
  explicit Folder(const OutputParserOptions& options) : parser_(options) {}

  void push(const Stretch& stretch) {
    source_ += stretch.text;
    take(stretch.token ? parser_.token(stretch.marker) : parser_.text(stretch.text));
  }

  Folded finish() {
    take(parser_.finish());
    EXPECT_EQ(accounted_, source_.size()) << source_;
    return folded_;
  }

 private:
  void take(const std::vector<OutputEvent>& events) {
    using Kind = OutputEvent::Kind;
    for (const OutputEvent& event : events) {
      if (event.kind == Kind::kContent) {
        EXPECT_EQ(std::string_view(source_).substr(accounted_, event.source_bytes), event.text);
        folded_.content += event.text;
      } else if (event.kind == Kind::kReasoning) {
        folded_.reasoning += event.text;
        folded_.reasoning_bytes += event.source_bytes;
      } else if (event.kind == Kind::kCallStart) {
        EXPECT_EQ(event.call, static_cast<int32_t>(folded_.calls.size()));
        folded_.calls.push_back({event.id, event.text, {}, CallOutcome::kTruncated, false});
      } else if (event.kind == Kind::kArguments) {
        folded_.calls.at(static_cast<size_t>(event.call)).arguments += event.text;
      } else if (event.kind == Kind::kCallEnd) {
        FoldedCall& call = folded_.calls.at(static_cast<size_t>(event.call));
        EXPECT_FALSE(call.ended);
        call.ended = true;
        call.outcome = event.outcome;
      }
      accounted_ += event.source_bytes;
    }
  }

  OutputParser parser_;
  std::string source_;
  size_t accounted_ = 0;
  Folded folded_;
};

inline Folded fold(const OutputParserOptions& options, const std::vector<Stretch>& stretches) {
  Folder folder(options);
  for (const Stretch& stretch : stretches) folder.push(stretch);
  return folder.finish();
}

inline Folded fold(const OutputParserOptions& options, const std::string& text) {
  return fold(options, std::vector<Stretch>{{text}});
}

// All markers of the options are tokens from now on.
inline OutputParserOptions with_tokens(OutputParserOptions options) {
  const size_t count = output_markers(options.tools).size();
  options.marker_tokens = (MarkerSet{1} << count) - 1;
  return options;
}

// The text with its markers as tokens.
inline std::vector<Stretch> tokenised(const OutputParserOptions& options, std::string_view text) {
  const std::vector<std::string> markers = output_markers(options.tools);
  std::vector<Stretch> out;
  std::string plain;
  while (!text.empty()) {
    const auto found = std::find_if(markers.begin(), markers.end(), [&](const std::string& marker) {
      return text.starts_with(marker);
    });
    if (found == markers.end()) {
      plain += text.front();
      text.remove_prefix(1);
      continue;
    }
    if (!plain.empty()) out.push_back({std::exchange(plain, {})});
    out.push_back({*found, true, static_cast<size_t>(found - markers.begin())});
    text.remove_prefix(found->size());
  }
  if (!plain.empty()) out.push_back({plain});
  return out;
}

// A place in the text where a character begins: pieces come with whole ones.
inline bool between_characters(std::string_view text, size_t at) {
  return (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
}

// The stretches with the plain ones cut before each of these bytes of the whole text, unless it is
// inside a character.
inline std::vector<Stretch> cut(const std::vector<Stretch>& whole, std::vector<size_t> places) {
  std::sort(places.begin(), places.end());
  std::vector<Stretch> out;
  size_t at = 0;
  for (const Stretch& stretch : whole) {
    if (stretch.token) {
      out.push_back(stretch);
    } else {
      size_t from = 0;
      for (const size_t place : places) {
        if (place <= at + from || place >= at + stretch.text.size()) continue;
        if (!between_characters(stretch.text, place - at)) continue;
        out.push_back({stretch.text.substr(from, place - at - from)});
        from = place - at;
      }
      out.push_back({stretch.text.substr(from)});
    }
    at += stretch.text.size();
  }
  return out;
}

inline size_t length_of(const std::vector<Stretch>& stretches) {
  size_t length = 0;
  for (const Stretch& stretch : stretches) length += stretch.text.size();
  return length;
}

// Every cut in two, every one in three (of texts up to `three_max` bytes), byte by byte, and
// `random` cuts in many give what the whole gives.
inline void expect_same_under_cuts(const OutputParserOptions& options,
                                   const std::vector<Stretch>& whole, size_t three_max = 160,
                                   int random = 50) {
  const Folded expected = fold(options, whole);
  const size_t length = length_of(whole);
  const auto check = [&](const std::vector<size_t>& places) {
    const Folded got = fold(options, cut(whole, places));
    if (!(got == expected)) {
      ADD_FAILURE() << "cut at " << ::testing::PrintToString(places) << got
                    << "\nwhole: " << expected;
      return false;
    }
    return true;
  };
  for (size_t i = 1; i < length; ++i) {
    if (!check({i})) return;
  }
  std::vector<size_t> all(length);
  std::iota(all.begin(), all.end(), size_t{0});
  if (!check(all)) return;
  if (length <= three_max) {
    for (size_t i = 1; i < length; ++i) {
      for (size_t k = i + 1; k < length; ++k) {
        if (!check({i, k})) return;
      }
    }
  }
  base::Rng rng(7);
  for (int round = 0; round < random && length > 1; ++round) {
    std::vector<size_t> places;
    const uint64_t cuts = 1 + rng.below(10);
    places.reserve(cuts);
    for (uint64_t i = 0; i < cuts; ++i) places.push_back(1 + rng.below(length - 1));
    if (!check(places)) return;
  }
}

}  // namespace bulkhead::chat::testing
