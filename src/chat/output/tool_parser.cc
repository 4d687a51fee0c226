#include "chat/output/tool_parser.h"

#include <algorithm>

#include "chat/output/dsml_parser.h"
#include "chat/output/glm_parser.h"
#include "chat/output/hermes_parser.h"
#include "chat/output/section_parser.h"

namespace bulkhead::chat {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr size_t kNameBytesMax = 256;

// An answer in which nothing is looked for.
class PlainParser final : public ToolParser {
 public:
  explicit PlainParser(CallWriter& writer) : writer_(writer) {}

  MarkerSet expected() const override { return 0; }
  void text(std::string_view text) override { writer_.content(text); }
  void marker(const MarkerHit& hit) override { writer_.content(hit.text); }
  void finish() override {}

 private:
  CallWriter& writer_;
};

}  // namespace

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

bool is_space_only(std::string_view text) {
  return text.find_first_not_of(kSpace) == std::string_view::npos;
}

bool is_function_name(std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax) return false;
  return std::none_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte <= 0x20 || byte == 0x7F ||
           std::string_view("<>{}\"'`").find(c) != std::string_view::npos;
  });
}

std::unique_ptr<ToolParser> make_tool_parser(ToolFormat format, const ToolSchemas& schemas,
                                             CallWriter& writer) {
  switch (format) {
    case ToolFormat::kNone:
      return std::make_unique<PlainParser>(writer);
    case ToolFormat::kKimiK2:
      return std::make_unique<SectionParser>(SectionStyle::kKimi, schemas, writer);
    case ToolFormat::kDeepSeekV3:
      return std::make_unique<SectionParser>(SectionStyle::kFencedAndName, schemas, writer);
    case ToolFormat::kDeepSeekV31:
      return std::make_unique<SectionParser>(SectionStyle::kName, schemas, writer);
    case ToolFormat::kGlm45:
    case ToolFormat::kGlm47:
      return std::make_unique<GlmParser>(schemas, writer);
    case ToolFormat::kDeepSeekV32:
      return std::make_unique<DsmlParser>(writer);
    case ToolFormat::kHermes:
      return std::make_unique<HermesParser>(writer);
  }
  return std::make_unique<PlainParser>(writer);
}

}  // namespace bulkhead::chat
