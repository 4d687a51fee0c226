#include "model/write/safetensors_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/json_writer.h"

namespace bulkhead::model::write {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWord = 8;

base::Error io_error(const fs::path& path, std::string_view what) {
  return base::Error{base::ErrorCode::kIo,
                     fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)),
                     {}};
}

base::Status write_at(int file, const fs::path& path, uint64_t at,
                      std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return io_error(path, "cannot be written");
    bytes = bytes.subspan(static_cast<size_t>(count));
    at += static_cast<uint64_t>(count);
  }
  return {};
}

// The name is only safe once the folder that holds it is on the disk as well.
base::Status publish(const fs::path& from, const fs::path& to) {
  if (rename(from.c_str(), to.c_str()) != 0) return io_error(to, "cannot be renamed to");
  const int folder = open(to.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return io_error(to.parent_path(), "cannot be opened");
  const int synced = fsync(folder);
  close(folder);
  return synced == 0 ? base::Status{} : io_error(to.parent_path(), "cannot be synchronised");
}

fs::path aside(const fs::path& path) { return path.string() + ".partial"; }

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

int open_aside(const fs::path& path) {
  constexpr mode_t kMode = 0644;
  return open(aside(path).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
}

}  // namespace

uint64_t StoredTensor::bytes() const {
  uint64_t count = unit_of(type).bytes;
  for (const uint64_t size : shape) count *= size;
  return count;
}

std::string safetensors_preamble(std::span<const StoredTensor> tensors) {
  base::JsonWriter json;
  json.begin_object();
  // What the libraries look at to learn that tensors are in PyTorch's layout.
  json.key("__metadata__").begin_object().key("format").value("pt").end_object();
  uint64_t offset = 0;
  for (const StoredTensor& tensor : tensors) {
    json.key(tensor.name).begin_object();
    json.key("dtype").value(to_string(tensor.type));
    json.key("shape").begin_array();
    for (const uint64_t size : tensor.shape) json.value(size);
    json.end_array().key("data_offsets").begin_array().value(offset);
    offset += tensor.bytes();
    json.value(offset).end_array().end_object();
  }
  json.end_object();
  std::string header = std::move(json).take();
  header.append((kWord - header.size() % kWord) % kWord, ' ');
  const uint64_t length = header.size();
  std::string preamble(sizeof(length), '\0');
  std::memcpy(preamble.data(), &length, sizeof(length));
  return preamble + header;
}

base::Result<SafetensorsWriter> SafetensorsWriter::create(const fs::path& path,
                                                          std::span<const StoredTensor> tensors) {
  const std::string preamble = safetensors_preamble(tensors);
  SafetensorsWriter out;
  out.path_ = path;
  out.offsets_.reserve(tensors.size());
  out.sizes_.reserve(tensors.size());
  uint64_t offset = preamble.size();
  for (const StoredTensor& tensor : tensors) {
    out.offsets_.push_back(offset);
    out.sizes_.push_back(tensor.bytes());
    offset += tensor.bytes();
  }
  out.file_ = open_aside(path);
  if (out.file_ < 0) return io_error(aside(path), "cannot be made");
  if (ftruncate(out.file_, static_cast<off_t>(offset)) != 0) {
    return io_error(aside(path), fmt::format("cannot grow to {} bytes", offset));
  }
  BH_TRY(write_at(out.file_, aside(path), 0, bytes_of(preamble)));
  return out;
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      offsets_(std::move(other.offsets_)),
      sizes_(std::move(other.sizes_)) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ >= 0) close(file_);
}

base::Status SafetensorsWriter::write(size_t tensor, uint64_t begin,
                                      std::span<const std::byte> bytes) const {
  BH_CHECK(
      tensor < sizes_.size() && begin <= sizes_[tensor] && bytes.size() <= sizes_[tensor] - begin,
      "bytes beyond their tensor");
  return write_at(file_, aside(path_), offsets_[tensor] + begin, bytes);
}

base::Status SafetensorsWriter::finish() {
  if (fsync(file_) != 0) return io_error(aside(path_), "cannot be synchronised");
  if (close(std::exchange(file_, -1)) != 0) return io_error(aside(path_), "cannot be closed");
  return publish(aside(path_), path_);
}

base::Status write_file_aside(const fs::path& path, std::string_view bytes) {
  const int file = open_aside(path);
  if (file < 0) return io_error(aside(path), "cannot be made");
  base::Status status = write_at(file, aside(path), 0, bytes_of(bytes));
  if (status.ok() && fsync(file) != 0) status = io_error(aside(path), "cannot be synchronised");
  if (close(file) != 0 && status.ok()) status = io_error(aside(path), "cannot be closed");
  if (!status.ok()) return status;
  return publish(aside(path), path);
}

}  // namespace bulkhead::model::write
