#include "chat/template_traits.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace bulkhead::chat {
namespace {

TemplateTraits traits_of(std::string_view source) {
  auto compiled = ChatTemplate::compile(source);
  EXPECT_TRUE(compiled.ok()) << source;
  return compiled.ok() ? probe_template(*compiled, source) : TemplateTraits();
}

TemplateTraits traits_of_calls(const std::string& arguments) {
  return traits_of(
      "{% for m in messages %}{% for c in m.tool_calls or [] %}"
      "{% set a = c.function.arguments %}" +
      arguments + "{% endfor %}{% endfor %}");
}

TEST(TemplateTraits, TellTextFromObjects) {
  // Both, as Kimi K2.5 and Qwen3; text is the better one.
  const TemplateTraits both =
      traits_of_calls("{% if a is string %}{{ a }}{% else %}{{ a | tojson }}{% endif %}");
  EXPECT_TRUE(both.text_arguments);
  EXPECT_TRUE(both.object_arguments);
  // Objects alone, as GLM's; as those that write text as a JSON string.
  for (const char* arguments :
       {"{% for k, v in a.items() %}{{ k }}={{ v }}{% endfor %}", "{{ a | tojson }}"}) {
    const TemplateTraits objects = traits_of_calls(arguments);
    EXPECT_FALSE(objects.text_arguments) << arguments;
    EXPECT_TRUE(objects.object_arguments) << arguments;
  }
  // Text alone.
  const TemplateTraits text = traits_of_calls("{{ 'x' + a }}");
  EXPECT_TRUE(text.text_arguments);
  EXPECT_FALSE(text.object_arguments);
}

TEST(TemplateTraits, AreObjectsWhereATemplateShowsNothing) {
  for (const char* source : {"{{ messages | length }}", "{{ raise_exception('no') }}"}) {
    EXPECT_FALSE(traits_of(source).text_arguments);
    EXPECT_TRUE(traits_of(source).object_arguments);
  }
}

TEST(TemplateTraits, KnowWhoReadsTypeScript) {
  EXPECT_TRUE(traits_of("{{ tools_ts_str }}").typescript_tools);
  EXPECT_FALSE(traits_of("{{ tools }}").typescript_tools);
}

TEST(TemplateTraits, OfThePublishedTemplates) {
  const char* shared = std::getenv("BULKHEAD_SHARED");  // NOLINT(concurrency-mt-unsafe)
  if (shared == nullptr) GTEST_SKIP() << "BULKHEAD_SHARED is not set";
  struct Row {
    const char* file;
    bool text;
  };
  for (const Row& row : {Row{"GLM-4.6", false}, Row{"GLM-5.2", false}, Row{"Qwen-Qwen3-0.6B", true},
                         Row{"deepseek-ai-DeepSeek-V3.1", false},
                         Row{"deepseek-ai-DeepSeek-V3.2", false}, Row{"GLM-4.7-Flash", false}}) {
    std::ifstream file(std::string(shared) + "/data/models/chat-templates/" + row.file + ".jinja");
    ASSERT_TRUE(file) << row.file;
    const std::string source((std::istreambuf_iterator<char>(file)), {});
    const TemplateTraits traits = traits_of(source);
    EXPECT_EQ(traits.text_arguments, row.text) << row.file;
    EXPECT_TRUE(traits.object_arguments) << row.file;
  }
}

}  // namespace
}  // namespace bulkhead::chat
