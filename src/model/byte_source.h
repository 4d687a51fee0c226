// Bytes at rest, read by position: a file, or memory in tests and fuzzing.
//
// Threads: read() from any number of threads at once.
// Invariants: size() never changes; a read is whole or an error. A file is held open, must be a
// regular file, and is read with pread: when somebody truncates it after it was opened the read
// that meets the end fails with kIo (a mapping would raise SIGBUS instead).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace bulkhead::model {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual const std::string& name() const = 0;  // for messages: the plain file name
  virtual uint64_t size() const = 0;
  // Fills `out` from byte `offset`. Errors: kCorruptData when the range is not inside size(), kIo
  // when the system fails or the file has become shorter.
  virtual base::Status read(uint64_t offset, std::span<std::byte> out) const = 0;
};

// Opens a regular file. Errors: kNotFound, kIo, kInvalidArgument for what is not a regular file.
base::Result<std::unique_ptr<ByteSource>> open_file(const std::filesystem::path& path);
// `bytes` must outlive the source.
std::unique_ptr<ByteSource> memory_source(std::string name, std::span<const std::byte> bytes);

// The whole file as text, at most `limit_bytes` long.
base::Result<std::string> read_text(const ByteSource& source, uint64_t limit_bytes);

}  // namespace bulkhead::model
