#include <fmt/format.h>

#include <array>

#include "model/families/family.h"

namespace bulkhead::model {

std::span<const Family* const> families() {
  static constexpr std::array kFamilies = {&kLlama,       &kQwen2,      &kQwen3,  &kQwen3Moe,
                                           &kGlm4Moe,     &kDeepseekV3, &kKimiK2, &kKimiK25,
                                           &kDeepseekV32, &kGlmMoeDsa};
  return kFamilies;
}

base::Result<const Family*> find_family(std::string_view where, std::string_view name) {
  std::string known;
  for (const Family* family : families()) {
    if (family->name == name) return family;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family->name);
  }
  return base::unsupported(fmt::format("{}: model family \"{}\" is not supported; these are: {}",
                                       where, name.substr(0, 64), known));
}

}  // namespace bulkhead::model
