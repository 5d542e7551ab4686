/* Copies lists of bytes with several threads: the caller's and helpers that sleep in between.
 *
 * Threads take jobs from the list's end, some at a time. So a helper without a core delays only the
 * jobs that it has taken. A short list is not worth a call for help. */
#ifndef KVR_FABRIC_LOCAL_COPY_H
#define KVR_FABRIC_LOCAL_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define LOCAL_COPY_THREADS_MAX 16u

struct local_job {
    void *target;
    const void *source;
    size_t bytes;
};

struct local_copier;

/* threads: the caller's among them, at least 1. */
KVR_MUST_CHECK kvr_status local_copier_open(uint32_t threads, struct local_copier **ret_copier,
                                            struct kvr_error *error);
void local_copier_close(struct local_copier *copier); /* NULL is fine */

/* All of them, in any order; they are done when it returns. One call at a time. */
void local_copier_run(struct local_copier *copier, const struct local_job *jobs, uint32_t count);

#endif
