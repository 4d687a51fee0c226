#include "apps/eval/tasks/mmlu.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "apps/eval/tasks/data_files.h"
#include "apps/eval/tasks/multiple_choice.h"
#include "apps/eval/text_tools.h"

namespace bulkhead::apps::eval {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShots = 5;
constexpr size_t kFields = 6;
constexpr Source kSource{"dev/ and test/ into eval/mmlu/", "hendrycks/test (MMLU)"};
const std::vector<std::string> kLetters = {"A", "B", "C", "D"};

struct Item {
  std::string text;  // question, choices and "Answer:"
  size_t right = 0;
};

class CsvReader {
 public:
  explicit CsvReader(std::string_view text) : text_(text) {}

  base::Result<std::vector<std::vector<std::string>>> rows() {
    std::vector<std::vector<std::string>> rows;
    while (at_ < text_.size()) {
      const size_t line = static_cast<size_t>(
          std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(at_), '\n'));
      std::vector<std::string> row;
      do {
        BH_ASSIGN(std::string field, next_field(line + 1));
        row.push_back(std::move(field));
      } while (take(','));
      take('\r');
      take('\n');
      if (row.size() > 1 || !row[0].empty()) rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  base::Result<std::string> next_field(size_t line) {
    if (!take('"')) {
      const size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
      std::string plain(text_.substr(at_, end - at_));
      at_ = end;
      return plain;
    }
    std::string field;
    for (;;) {
      const size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos) {
        return base::corrupt(fmt::format("a quoted field of line {} has no end", line));
      }
      field += text_.substr(at_, quote - at_);
      at_ = quote + 1;
      if (!take('"')) break;
      field += '"';
    }
    // What stands between a closing quote and the next comma belongs to the field, as elsewhere.
    const size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
    field += text_.substr(at_, end - at_);
    at_ = end;
    return field;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

// 0 to 3 for "A" to "D" or "0" to "3".
std::optional<size_t> key_of(std::string_view text) {
  text = stripped(text);
  if (text.size() != 1) return std::nullopt;
  if (text[0] >= 'A' && text[0] <= 'D') return static_cast<size_t>(text[0] - 'A');
  if (text[0] >= '0' && text[0] <= '3') return static_cast<size_t>(text[0] - '0');
  return std::nullopt;
}

base::Result<std::vector<Item>> read_items(const std::string& path) {
  BH_ASSIGN(const std::string text, read_data(path, kSource));
  base::Result<std::vector<std::vector<std::string>>> rows = parse_csv(text);
  if (!rows.ok()) return std::move(rows).error().within(path);
  std::vector<Item> items;
  items.reserve(rows->size());
  for (size_t i = 0; i < rows->size(); ++i) {
    const std::vector<std::string>& row = (*rows)[i];
    const std::optional<size_t> key = row.size() == kFields ? key_of(row.back()) : std::nullopt;
    if (!key) {
      if (i == 0 && row.size() == kFields) continue;  // the names of the columns
      return base::corrupt(
          fmt::format("{} row {} is not question, four choices and a key", path, i + 1));
    }
    Item item;
    item.text = std::string(stripped(row[0]));
    for (size_t c = 0; c < kLetters.size(); ++c) {
      item.text += "\n" + kLetters[c] + ". " + row[c + 1];
    }
    item.text += "\nAnswer:";
    item.right = *key;
    items.push_back(std::move(item));
  }
  return items;
}

base::Result<std::vector<std::string>> subjects_in(const std::string& folder) {
  constexpr std::string_view kEnd = "_test.csv";
  std::vector<std::string> subjects;
  std::error_code bad;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, bad)) {
    const std::string name = entry.path().filename().string();
    if (name.size() <= kEnd.size() || !name.ends_with(kEnd)) continue;
    subjects.push_back(name.substr(0, name.size() - kEnd.size()));
  }
  if (bad || subjects.empty()) {
    return base::Error{base::ErrorCode::kNotFound,
                       fmt::format("there is no MMLU in {}: fetch {} of {}, or name with --data "
                                   "the folder that has eval/",
                                   folder, kSource.files, kSource.origin),
                       "--data"};
  }
  std::sort(subjects.begin(), subjects.end());
  return subjects;
}

std::string introduction(const std::string& subject) {
  return "The following are multiple choice questions (with answers) about " +
         replaced(subject, "_", " ") + ".\n\n";
}

}  // namespace

base::Result<std::vector<std::vector<std::string>>> parse_csv(std::string_view text) {
  return CsvReader(text).rows();
}

base::Result<Task> load_mmlu(const LoadOptions& options) {
  const std::string folder = options.data + "/eval/mmlu";
  BH_ASSIGN(const std::vector<std::string> subjects, subjects_in(folder + "/test"));
  Task task;
  task.name = "mmlu";
  task.shares_prefix = true;
  size_t shots = 0;
  for (const std::string& subject : subjects) {
    BH_ASSIGN(const std::vector<Item> dev,
              read_items(fmt::format("{}/dev/{}_dev.csv", folder, subject)));
    BH_ASSIGN(const std::vector<Item> test,
              read_items(fmt::format("{}/test/{}_test.csv", folder, subject)));
    BH_ASSIGN(shots, need_shots(options.shots, kShots, dev.size()));
    std::string prefix = introduction(subject);
    for (size_t i = 0; i < shots; ++i) {
      prefix += dev[i].text + " " + kLetters[dev[i].right] + "\n\n";
    }
    task.questions.reserve(task.questions.size() + test.size());
    for (size_t i = 0; i < test.size(); ++i) {
      task.questions.push_back(letter_question(fmt::format("mmlu/{}/{}", subject, i), subject,
                                               prefix + test[i].text, kLetters, test[i].right));
    }
  }
  task.settings = {{"shots", std::to_string(shots)}};
  return task;
}

}  // namespace bulkhead::apps::eval
