// Memory has one owner; a copy of gigabytes is never made by an assignment.
// error: deleted
#include <utility>

#include "device/buffer.h"

bulkhead::device::Buffer wrong_use(bulkhead::device::Buffer& buffer) {
#ifdef CONTROL
  return std::move(buffer);
#else
  return buffer;
#endif
}
