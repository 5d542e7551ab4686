/* Memory that no core dump shows: pages of engines, and small bytes of theirs. */
#ifndef KVR_BASE_UNDUMPED_H
#define KVR_BASE_UNDUMPED_H

#include <stddef.h>
#include <sys/mman.h>

/* A mapping, or whole pages of one. Advice: a kernel that refuses it dumps the memory. */
static inline void kvr_undumped(void *base, size_t bytes)
{
    (void)madvise(base, bytes, MADV_DONTDUMP);
}

#endif
