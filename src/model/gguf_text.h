// A GGUF file's tokenizer keys as the neutral forms that the text side and the sampler start from.
//
// Threads: pure functions. Invariant: token ids that come out are inside the vocabulary.
#pragma once

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/gguf.h"

namespace bulkhead::model {

// Moves the vocabulary out of `metadata` (it is large) into `text` and adds end ids to
// `generation`.
base::Status take_gguf_text(GgufMetadata& metadata, TextSource& text,
                            GenerationDefaults& generation);

}  // namespace bulkhead::model
