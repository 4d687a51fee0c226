// A reservation is a promise of pages made once.
// error: deleted
#include <utility>

#include "kv/page_pool.h"

bulkhead::kv::Reservation wrong_use(bulkhead::kv::Reservation& promise) {
#ifdef CONTROL
  return std::move(promise);
#else
  return promise;
#endif
}
