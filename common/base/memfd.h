/* What a descriptor of shared memory from another process must be, before it is mapped. */
#ifndef KVR_BASE_MEMFD_H
#define KVR_BASE_MEMFD_H

#include <stdint.h>

#include "base/status.h"

/* A memfd with F_SEAL_SHRINK that holds `bytes` from `offset`, a multiple of the page size: else
 * its owner could truncate it, and the next touch would end this process. `where` as in kvr_error.
 */
KVR_MUST_CHECK kvr_status kvr_memfd_check(int fd, uint64_t offset, uint64_t bytes,
                                          const char *where, struct kvr_error *error);

#endif
