// The real small model against an independent reference (tools/golden/make_smollm2_greedy.py).
// Skipped where the file has not been fetched.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <fstream>
#include <sstream>

#include "model/testing/files.h"
#include "model/testing/runner.h"

namespace bulkhead::model {
namespace {

struct GreedyCase {
  std::vector<TokenId> prompt;
  std::vector<TokenId> ids;
  std::vector<double> leads;  // of the chosen token over the next, in logits
};

template <typename T>
std::vector<T> numbers(const boost::json::value& value) {
  std::vector<T> out;
  for (const boost::json::value& element : value.as_array()) out.push_back(element.to_number<T>());
  return out;
}

std::vector<GreedyCase> read_cases() {
  std::ifstream in(testing::golden_directory() / "smollm2_greedy.json");
  std::ostringstream text;
  text << in.rdbuf();
  std::vector<GreedyCase> out;
  const boost::json::value cases = boost::json::parse(text.str());
  for (const boost::json::value& entry : cases.as_array()) {
    const boost::json::object& object = entry.as_object();
    out.push_back({numbers<TokenId>(object.at("prompt")), numbers<TokenId>(object.at("ids")),
                   numbers<double>(object.at("leads"))});
  }
  return out;
}

// Greedy tokens after the prompt.
std::vector<TokenId> greedy(Decoder& decoder, const std::vector<TokenId>& prompt, size_t steps) {
  const auto total = static_cast<int32_t>(prompt.size() + steps);
  const testing::TestCache cache(decoder.facts(), 64, (total + 63) / 64);
  testing::TestSequence sequence = {.tokens = prompt,
                                    .pages = testing::contiguous_pages(total, 64, 0)};
  std::vector<float> logits(static_cast<size_t>(decoder.facts().vocabulary_size));
  std::vector<TokenId> out;
  while (out.size() < steps) {
    const auto count = static_cast<int32_t>(sequence.tokens.size()) - sequence.done;
    const SequenceSlice slice = sequence.slice(count, LogitsFor::kLast);
    decoder.forward({&slice, 1}, cache.view(), logits);
    sequence.done += count;
    out.push_back(
        static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    sequence.tokens.push_back(out.back());
  }
  return out;
}

TEST(SmolLm2, GreedyIdsEqualTheReferenceUpToTheFirstStepWithoutAClearLead) {
  const std::filesystem::path path = testing::smollm2_path();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " has not been fetched";
  const std::vector<GreedyCase> cases = read_cases();
  ASSERT_EQ(cases.size(), 8u);
  for (const testing::KernelPath& kernels : testing::kernel_paths()) {
    // The golden tests cover the slow paths; here they would take minutes.
    if (kernels.name == "ref" || kernels.name == "amx emulated") continue;
    SCOPED_TRACE(kernels.name);
    // What the BF16 cache can move a lead by; the matrix unit rounds activations as well.
    const double clear_lead = kernels.tiles ? 0.5 : 0.1;
    const testing::LoadedModel model = testing::load_model(
        path, kernels, {.rows_max = 128, .logits_rows_max = 1, .slices_max = 1}, 2);
    ASSERT_NE(model.decoder, nullptr);
    size_t compared = 0;
    for (const GreedyCase& entry : cases) {
      const auto unclear = std::find_if(entry.leads.begin(), entry.leads.end(),
                                        [&](double lead) { return lead < clear_lead; });
      const auto steps = static_cast<size_t>(unclear - entry.leads.begin());
      if (steps == 0) continue;
      const std::vector<TokenId> ids = greedy(*model.decoder, entry.prompt, steps);
      EXPECT_EQ(ids, std::vector<TokenId>(entry.ids.begin(),
                                          entry.ids.begin() + static_cast<std::ptrdiff_t>(steps)));
      compared += steps;
    }
    fmt::print("{}: {} greedy steps compared\n", kernels.name, compared);
    EXPECT_GE(compared, 100u);
  }
}

}  // namespace
}  // namespace bulkhead::model
