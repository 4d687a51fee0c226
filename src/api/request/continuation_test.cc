#include "api/request/continuation.h"

#include <gtest/gtest.h>

namespace bulkhead::api {
namespace {

using chat::Prompt;

Prompt prompt_of(std::vector<chat::PromptSegment> segments) { return {std::move(segments)}; }

TEST(Continuation, WhatTheTemplateWroteAfterTheMessageIsCut) {
  Prompt prompt = prompt_of(
      {{"<user>", true}, {"hi", false}, {"<bot>", true}, {"Once", false}, {"<end>\n", true}});
  ASSERT_TRUE(end_inside_message(prompt, "Once"));
  EXPECT_EQ(prompt.text(), "<user>hi<bot>Once");
}

TEST(Continuation, AMessageAtTheVeryEndStaysAsItIs) {
  Prompt prompt = prompt_of({{"<bot>", true}, {"Once", false}});
  ASSERT_TRUE(end_inside_message(prompt, "Once"));
  EXPECT_EQ(prompt.text(), "<bot>Once");
}

TEST(Continuation, ATemplateMayCutWhiteSpaceAtTheEnd) {
  Prompt prompt = prompt_of({{"<bot>", true}, {"Once", false}, {"<end>", true}});
  ASSERT_TRUE(end_inside_message(prompt, "Once \n"));
  EXPECT_EQ(prompt.text(), "<bot>Once");
}

TEST(Continuation, AnythingElseIsRefusedAndLeftAlone) {
  const std::vector<std::pair<Prompt, std::string>> cases = {
      {prompt_of({{"<bot>", true}, {"Twice", false}, {"<end>", true}}), "Once"},
      {prompt_of({{"<bot>", true}, {"Once", false}, {"<end>", true}, {"tools", false}}), "Once"},
      {prompt_of({{"<bot>Once<end>", true}}), "Once"},
      {prompt_of({{"<bot>", true}, {"x", false}, {"<end>", true}}), ""},
      {prompt_of({{"<bot>", true}, {"x", false}, {"<end>", true}}), " \n"},
      {prompt_of({}), "Once"},
  };
  for (const auto& [given, content] : cases) {
    Prompt prompt = given;
    EXPECT_FALSE(end_inside_message(prompt, content)) << given.text();
    EXPECT_EQ(prompt.text(), given.text());
  }
}

}  // namespace
}  // namespace bulkhead::api
