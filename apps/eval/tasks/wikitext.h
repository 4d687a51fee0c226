// Perplexity of wikitext-2 as lm-eval's task `wikitext` computes it.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/eval/question.h"
#include "apps/eval/tasks/catalog.h"
#include "base/result.h"

namespace bulkhead::apps::eval {

// The pages of the file: each begins with a line " = Title = ".
std::vector<std::string> pages_of(std::string_view text);
// A page as running text: what tokenising it into words pulled apart is joined again.
std::string rejoined(std::string_view page);

// text/wikitext-2-test.txt, a page a question.
base::Result<Task> load_wikitext(const LoadOptions& options);

}  // namespace bulkhead::apps::eval
