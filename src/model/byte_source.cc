#include "model/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace bulkhead::model {
namespace {

using base::Error;
using base::ErrorCode;

std::string errno_text(int error) { return std::generic_category().message(error); }

base::Status check_range(const ByteSource& source, uint64_t offset, size_t bytes) {
  if (bytes <= source.size() && offset <= source.size() - bytes) return {};
  return base::corrupt(fmt::format("{}: ends at byte {}, but bytes {} to {} are needed",
                                   source.name(), source.size(), offset, offset + bytes));
}

class FileSource final : public ByteSource {
 public:
  FileSource(std::string name, int descriptor, uint64_t size)
      : name_(std::move(name)), descriptor_(descriptor), size_(size) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { ::close(descriptor_); }

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return size_; }

  base::Status read(uint64_t offset, std::span<std::byte> out) const override {
    BH_TRY(check_range(*this, offset, out.size()));
    // Linux moves at most 2^31 - 4096 bytes in one call.
    constexpr size_t kCallBytesMax = size_t{1} << 30;
    while (!out.empty()) {
      const ssize_t got = ::pread(descriptor_, out.data(), std::min(out.size(), kCallBytesMax),
                                  static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        return Error{ErrorCode::kIo,
                     fmt::format("{}: reading at byte {}: {}", name_, offset, errno_text(errno)),
                     {}};
      }
      if (got == 0) {
        return Error{
            ErrorCode::kIo,
            fmt::format("{}: became shorter while it was read: it had {} bytes when it was "
                        "opened and now ends at or before byte {}",
                        name_, size_, offset),
            {}};
      }
      out = out.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return {};
  }

 private:
  const std::string name_;
  const int descriptor_;
  const uint64_t size_;
};

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string name, std::span<const std::byte> bytes)
      : name_(std::move(name)), bytes_(bytes) {}

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  base::Status read(uint64_t offset, std::span<std::byte> out) const override {
    BH_TRY(check_range(*this, offset, out.size()));
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  const std::string name_;
  const std::span<const std::byte> bytes_;
};

}  // namespace

base::Result<std::unique_ptr<ByteSource>> open_file(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int error = errno;
    const bool absent = error == ENOENT || error == ENOTDIR;
    return Error{absent ? ErrorCode::kNotFound : ErrorCode::kIo,
                 fmt::format("{}: {}", path.string(), errno_text(error)),
                 {}};
  }
  struct stat facts{};
  if (::fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    ::close(descriptor);
    return base::invalid_argument({}, fmt::format("{}: not a regular file", path.string()));
  }
  return std::unique_ptr<ByteSource>(std::make_unique<FileSource>(
      path.filename().string(), descriptor, static_cast<uint64_t>(facts.st_size)));
}

std::unique_ptr<ByteSource> memory_source(std::string name, std::span<const std::byte> bytes) {
  return std::make_unique<MemorySource>(std::move(name), bytes);
}

base::Result<std::string> read_text(const ByteSource& source, uint64_t limit_bytes) {
  if (source.size() > limit_bytes) {
    return base::corrupt(fmt::format("{}: {} bytes long, at most {} are accepted", source.name(),
                                     source.size(), limit_bytes));
  }
  std::string text(static_cast<size_t>(source.size()), '\0');
  BH_TRY(source.read(0, std::as_writable_bytes(std::span<char>(text))));
  return text;
}

}  // namespace bulkhead::model
