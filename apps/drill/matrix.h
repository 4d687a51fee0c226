// The detection matrix, as a Markdown table and as JSON.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "apps/drill/judge.h"

namespace bulkhead::apps {

struct Matrix {
  std::string model;
  std::string mode;
  std::vector<Row> rows;
};

// Every cell is what it should be; without checks, that they are needed.
bool passed(const Matrix& matrix);
std::string matrix_text(const Matrix& matrix);
std::string matrix_json(const Matrix& matrix);

}  // namespace bulkhead::apps
