// A lease is one holder of a page; a second holder is made by share().
// C055
// error: deleted
#include "kv/page_pool.h"

bulkhead::kv::Lease wrong_use(const bulkhead::kv::Lease& lease) {
#ifdef CONTROL
  return lease.share();
#else
  return lease;
#endif
}
