/* Memory that processes share: memfds that cannot shrink, so that no touch of a mapping can end the
 * process that made it. No state; any thread. */
#ifndef KVR_BASE_MEMFD_H
#define KVR_BASE_MEMFD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* A memfd of exactly so many bytes, zeroed, that stays as large as it is. `where` as in kvr_error.
 */
KVR_MUST_CHECK kvr_status kvr_memfd_create(const char *name, uint64_t bytes, const char *where,
                                           int *ret_fd, struct kvr_error *error);

/* Whether that is a memfd which has so many bytes and cannot shrink. */
bool kvr_memfd_holds(int fd, uint64_t bytes);

/* A memfd with F_SEAL_SHRINK that holds `bytes` from `offset`, a multiple of the page size: else
 * its owner could truncate it, and the next touch would end this process. */
KVR_MUST_CHECK kvr_status kvr_memfd_check(int fd, uint64_t offset, uint64_t bytes,
                                          const char *where, struct kvr_error *error);

/* Checks and maps them, shared; the descriptor stays the caller's. Huge pages must all be there, or
 * to be had: they are taken now. The mapping is guarded (fault_guard.h). */
KVR_MUST_CHECK kvr_status kvr_memfd_map(int fd, uint64_t fd_offset, uint64_t bytes, bool writable,
                                        void **ret_base, struct kvr_error *error);
/* Undoes it. */
void kvr_memfd_unmap(void *base, uint64_t bytes);

/* What is there of a mapping gets its entries now: else each first write would wait for faults.
 * Holes stay holes. At most a second's worth; advice, which Linux takes from 5.14 on. */
void kvr_memfd_touch(void *mapped, uint64_t bytes);

/* The system's number of the NUMA node where the page at this offset lies, of any descriptor that
 * can be mapped; -1: unknown. A hole becomes a page. */
int kvr_memfd_node(int fd, uint64_t offset);

#endif
