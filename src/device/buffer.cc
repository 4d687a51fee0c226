#include "device/buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "base/units.h"

namespace bulkhead::device {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

base::Error no_memory(size_t bytes) {
  return base::Error{
      base::ErrorCode::kResourceExhausted,
      fmt::format("the system has no {} of memory to give", base::format_bytes(bytes)),
      {}};
}

std::byte* map_anonymous(size_t bytes) {
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

// A mapping whose start is a multiple of 2 MiB: maps more and gives the edges back.
std::byte* map_huge_aligned(size_t bytes) {
  std::byte* base = map_anonymous(bytes + kHugePage);
  if (base == nullptr) return nullptr;
  const size_t head = (kHugePage - reinterpret_cast<uintptr_t>(base) % kHugePage) % kHugePage;
  const size_t tail = kHugePage - head;
  if (head > 0) ::munmap(base, head);
  if (tail > 0) ::munmap(base + head + bytes, tail);
  // A refusal costs speed, not correctness: the memory then comes in small pages.
  ::madvise(base + head, bytes, MADV_HUGEPAGE);
  return base + head;
}

void touch_part(std::byte* data, size_t begin, size_t end) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (size_t offset = begin; offset < end; offset += page) {
    const_cast<volatile std::byte*>(data)[offset] = std::byte{0};
  }
}

// Faults every page in now, so that no step pays for it later. In a virtual machine a first touch
// waits for the host; several threads wait at the same time.
void touch(std::byte* data, size_t bytes) {
  constexpr size_t kPartBytes = size_t{256} << 20;
  constexpr unsigned kThreadsMax = 8;
  const unsigned threads = std::min(kThreadsMax, std::max(1u, std::thread::hardware_concurrency()));
  const size_t part = std::max(kPartBytes, (bytes / threads + kHugePage) / kHugePage * kHugePage);
  std::vector<std::thread> helpers;
  helpers.reserve(threads);
  for (size_t begin = part; begin < bytes; begin += part) {
    helpers.emplace_back(touch_part, data, begin, std::min(bytes, begin + part));
  }
  touch_part(data, 0, std::min(bytes, part));
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace

base::Result<Buffer> Buffer::allocate(size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  if (bytes > (size_t{1} << 48)) return no_memory(bytes);
  const bool huge = bytes >= kHugePage;
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t mapped = round_up(bytes, huge ? kHugePage : page);
  std::byte* data = huge ? map_huge_aligned(mapped) : map_anonymous(mapped);
  if (data == nullptr) return no_memory(bytes);
  touch(data, mapped);
  buffer.data_ = data;
  buffer.size_ = bytes;
  buffer.mapped_ = mapped;
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) ::munmap(data_, mapped_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    mapped_ = std::exchange(other.mapped_, 0);
  }
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) ::munmap(data_, mapped_);
}

}  // namespace bulkhead::device
