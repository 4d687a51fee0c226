// Unicode Normalization Form C, as of Unicode 9.0: the version of `tokenizers`, and so of the texts
// that the models were trained on.
//
// Threads: pure function.
// Invariants: text that is already in form C comes back unchanged; bytes that are part of no
// character are kept and take part in nothing. Time is n log n in the longest run of marks.
#pragma once

#include <string>
#include <string_view>

namespace bulkhead::text {

// Appends the form C of `text` to `out`.
void append_nfc(std::string_view text, std::string& out);

}  // namespace bulkhead::text
