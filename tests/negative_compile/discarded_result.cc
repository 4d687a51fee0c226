// A result that nobody looks at.
// C055
// error: (ignoring|discard)
#include "base/result.h"

bulkhead::base::Status store();

void wrong_use() {
#ifdef CONTROL
  if (!store().ok()) return;
#else
  store();
#endif
}
