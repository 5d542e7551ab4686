/* Memory of other processes that this one may touch although its pages can go away: a memfd's owner
 * can punch holes into huge pages, and the system may have no others. A touch of such a page raises
 * SIGBUS. In a guarded range the page is replaced by one of zeros, and the touch goes on: only the
 * owner of the memory has wrong bytes. Anywhere else the process ends, as it would have.
 *
 * Any thread; no SIGBUS is to be blocked. */
#ifndef KVR_BASE_FAULT_GUARD_H
#define KVR_BASE_FAULT_GUARD_H

#include <stdbool.h>
#include <stdint.h>

/* Once, at start. Until then guarded ranges are only remembered. */
void kvr_fault_guard_install(void);

/* From the mapping of a range until just before it is unmapped. Without memory to remember it, the
 * range is not guarded. */
void kvr_fault_guard_add(const void *base, uint64_t bytes);
void kvr_fault_guard_remove(const void *base);

/* Pages replaced so far. */
uint64_t kvr_fault_guard_faults(void);
/* The base of a range that lost pages, each once; NULL: there is none. */
const void *kvr_fault_guard_broken(void);

#endif
